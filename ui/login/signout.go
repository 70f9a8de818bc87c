package login

import "net/http"

func (l *Login) signOut(w http.ResponseWriter, r *http.Request) {
	if err := l.sessions.Destroy(r.Context()); err != nil {
		l.sessionFailed(w, r, err)
		return
	}
	http.Redirect(w, r, SignInPath, http.StatusSeeOther)
}
