package login

import (
	"errors"
	"net/http"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
)

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
