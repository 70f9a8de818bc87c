package ui

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
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

// viewers are the names of those who have calls on the screen, but for the reader's own.
func (u *UI) viewers(ctx context.Context, access identity.Access, ids ...uuid.UUID) (map[uuid.UUID][]string, error) {
	found, err := u.presence.Viewers(ctx, access.Person.ID, ids...)
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
	words := make(map[uuid.UUID][]string, len(found))
	for id, viewers := range found {
		for _, person := range viewers {
			words[id] = append(words[id], personName(person, names))
		}
	}
	return words, nil
}

// around differs when something does that dashboards show beside the queue.
func (u *UI) around(ctx context.Context) (string, error) {
	waits, err := u.waitState(ctx)
	if err != nil {
		return "", err
	}
	present, err := u.presence.State(ctx)
	return waits + "." + present, err
}
