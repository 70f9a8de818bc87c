package shell

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/ui/live"
	"github.com/holdpoint/holdpoint/ui/present"
)

// Viewer is a person with a call on the screen.
type Viewer struct {
	person uuid.UUID
	name   string
}

// ViewerReader reads viewers.
type ViewerReader struct {
	*Shell

	Presence *live.Presence
}

// Viewers returns the viewers of calls.
func (h *ViewerReader) Viewers(ctx context.Context, ids ...uuid.UUID) (map[uuid.UUID][]Viewer, error) {
	found, err := h.Presence.Viewers(ctx, ids...)
	if err != nil {
		return nil, err
	}
	var people []uuid.UUID
	for _, viewers := range found {
		people = append(people, viewers...)
	}
	names, err := h.Names(ctx, people...)
	if err != nil {
		return nil, err
	}
	known := make(map[uuid.UUID][]Viewer, len(found))
	for id, viewers := range found {
		for _, person := range viewers {
			known[id] = append(known[id], Viewer{person, present.PersonName(person, names)})
		}
	}
	return known, nil
}

// Others returns the names of the viewers except the reader.
func Others(viewers []Viewer, reader uuid.UUID) []string {
	var names []string
	for _, v := range viewers {
		if v.person != reader {
			names = append(names, v.name)
		}
	}
	return names
}
