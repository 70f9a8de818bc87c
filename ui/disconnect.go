package ui

import (
	"net/http"

	"github.com/holdpoint/holdpoint/ui/login"
)

// disconnect forgets a connection, after a second step that says what that means.
func (u *UI) disconnect(w http.ResponseWriter, r *http.Request) {
	l, err := u.linkByID(r)
	switch {
	case err != nil:
		u.fail(w, r, err)
		return
	case !l.disconnect:
		u.fail(w, r, errNotYours)
		return
	case r.PostFormValue("confirmed") == "":
		u.answerWithConnection(w, r, http.StatusOK, true, nil)
		return
	}
	access, _ := login.Access(r.Context())
	if err := u.cfg.OAuth.Disconnect(r.Context(), access.Person.ID, l.key); err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, connectionURL(l.there.ID)+"?done=disconnected", http.StatusSeeOther)
}
