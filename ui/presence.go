package ui

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/ui/login"
)

// seen notes who has the call on the screen. It changes nothing about the call.
func (u *UI) seen(w http.ResponseWriter, r *http.Request) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	if err := u.presence.Seen(r.Context(), id, access.Person.ID); err != nil {
		u.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// viewer has a call on the screen.
type viewer struct {
	person uuid.UUID
	name   string
}

// viewers are those who have calls on the screen.
func (u *UI) viewers(ctx context.Context, ids ...uuid.UUID) (map[uuid.UUID][]viewer, error) {
	found, err := u.presence.Viewers(ctx, ids...)
	if err != nil {
		return nil, err
	}
	var people []uuid.UUID
	for _, viewers := range found {
		people = append(people, viewers...)
	}
	names, err := u.names(ctx, people...)
	if err != nil {
		return nil, err
	}
	known := make(map[uuid.UUID][]viewer, len(found))
	for id, viewers := range found {
		for _, person := range viewers {
			known[id] = append(known[id], viewer{person, personName(person, names)})
		}
	}
	return known, nil
}

// others are the names of viewers but for the reader's own.
func others(viewers []viewer, reader uuid.UUID) []string {
	var names []string
	for _, v := range viewers {
		if v.person != reader {
			names = append(names, v.name)
		}
	}
	return names
}

// around differs when something does that dashboards show beside the queue.
func (u *UI) around(ctx context.Context) (string, error) {
	waits, err := u.waitState(ctx)
	if err != nil {
		return "", err
	}
	questions, err := u.questionState(ctx)
	if err != nil {
		return "", err
	}
	present, err := u.presence.State(ctx)
	return waits + "." + questions + "." + present, err
}
