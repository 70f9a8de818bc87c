package ui

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// listLimit is how long a person who connected a skill waits for its tools to be listed.
const listLimit = 5 * time.Second

// callback takes a person back from an authorization server. The session's cookie is there: SameSite=Lax lets it go with
// a navigation of the whole window, which is all that this answers to. The address has a code in it: no page is
// shown there that would tell it to another site.
func (u *UI) callback(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "strict-origin")
	if dest := r.Header.Get("Sec-Fetch-Dest"); dest != "" && dest != "document" || r.Method != http.MethodGet {
		u.fail(w, r, errNoWindow)
		return
	}
	access, _ := login.Access(r.Context())
	key, err := u.cfg.OAuth.Callback(r.Context(), access.Person.ID, r.URL.Query())
	if err != nil {
		skill, back := "", "/connections"
		if found, _, err := u.cfg.Agents.Skill(r.Context(), key.SkillID); err == nil {
			skill, back = found.Name, skillURL(found.ID)
		}
		u.notConnected(w, r, err, skill, back)
		return
	}
	connected, err := u.cfg.OAuth.Find(r.Context(), key)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	// What the skill offers could not be asked before. If that fails, its page says so.
	ctx, cancel := context.WithTimeout(r.Context(), listLimit)
	defer cancel()
	if _, err := u.cfg.Agents.ListAnew(ctx, key.SkillID, access.Person.ID); err != nil {
		u.log.Info("listing the tools of a skill that was connected", "skill_id", key.SkillID, "error", err)
	}
	http.Redirect(w, r, connectionURL(connected.ID)+"?done=connected", http.StatusSeeOther)
}

var (
	errNoWindow = errors.New("not a navigation of the window")
	errNotYours = errors.New("the connection is somebody else's")
)

// connectionFailure is what fail says of errors about skills and connections; false when it is another.
func connectionFailure(err error) (status int, n view.Notice, ok bool) {
	n.Level = view.Danger
	switch {
	case errors.Is(err, oauthclient.ErrNotFound):
		n.Title, n.Text = "No such connection", "There is no connection at this address, or none that you may see."
		return http.StatusNotFound, n, true
	case errors.Is(err, tool.ErrNotFound):
		n.Title, n.Text = "No such tool", "The skill offers no tool of this name, and never did."
		return http.StatusNotFound, n, true
	case errors.Is(err, errNotYours):
		n.Title, n.Text = "Not yours to do", "A connection that all share is the operators' to make and to end. "+
			"A person's own account only that person connects; operators may end it."
		return http.StatusForbidden, n, true
	case errors.Is(err, errNoWindow):
		n.Title, n.Text = "Refused", "This address is only for coming back from an authorization server. Nothing was done."
		return http.StatusForbidden, n, true
	}
	return 0, n, false
}
