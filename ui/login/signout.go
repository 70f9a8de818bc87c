package login

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// SignOutEverywhere ends all sessions of the person who sent the request, in whatever browsers they are.
func (l *Login) SignOutEverywhere(w http.ResponseWriter, r *http.Request) {
	access, _ := Access(r.Context())
	_, err := l.cfg.Identity.EndSessions(r.Context(), audit.Person(access.Person.ID), access.Person.ID, uuid.Nil)
	if err == nil {
		err = l.sessions.Destroy(r.Context())
	}
	if err != nil {
		l.sessionFailed(w, r, err)
		return
	}
	http.Redirect(w, r, SignInPath, http.StatusSeeOther)
}

func (l *Login) signOut(w http.ResponseWriter, r *http.Request) {
	access, ok, err := l.access(r.Context())
	if ok {
		err = l.cfg.Identity.EndSession(r.Context(), audit.Person(access.Person.ID), access.Person.ID, access.Session)
		if errors.Is(err, identity.ErrNotFound) {
			err = nil // it ended meanwhile
		}
	}
	if err == nil {
		err = l.sessions.Destroy(r.Context())
	}
	if err != nil {
		l.sessionFailed(w, r, err)
		return
	}
	http.Redirect(w, r, SignInPath, http.StatusSeeOther)
}
