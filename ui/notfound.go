package ui

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// explainError explains the errors of packages that several audiences use.
func (u *UI) explainError(r *http.Request, err error) (status int, n view.Notice, ok bool) {
	switch {
	case errors.Is(err, call.ErrNotFound), errors.Is(err, approval.ErrNotFound), errors.Is(err, shell.ErrNoID):
		return http.StatusNotFound, view.Notice{Level: view.Danger, Title: text.Literal("No such call"), Text: text.Literal("There is no call at this address, or none that you may see.")}, true
	case errors.Is(err, errForbidden):
		return http.StatusForbidden, view.Notice{Level: view.Danger, Title: text.Literal("Not with your role"), Text: text.Literal("You may look at calls. What you tried takes another role.")}, true
	case errors.Is(err, callback.ErrNotFound):
		return http.StatusNotFound, view.Notice{Level: view.Danger, Title: text.Literal("No such callback"), Text: text.Literal("The agent has no callback of this name, or no longer; or no such message.")}, true
	case errors.Is(err, agent.ErrNotFound):
		return http.StatusNotFound, u.unknown(r), true
	}
	return 0, n, false
}

// unknown says that something of the registry is not at the request's address, and what became of it where that is known.
func (u *UI) unknown(r *http.Request) view.Notice {
	noun := map[string]string{"/skills": "skill", "/agents": "agent", "/conversations": "conversation"}[firstPart(r.URL.Path)]
	if noun == "" {
		return view.Notice{Level: view.Danger, Title: text.Literal("Not found"), Text: text.Literal("What this is about is not here, or not any more.")}
	}
	n := view.Notice{Level: view.Danger, Title: text.Literal("No such " + noun), Text: text.Literal("There is no " + noun + " at this address.")}
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return n
	}
	names, err := u.cfg.Agents.Names(r.Context(), []uuid.UUID{id})
	if name := names[id]; err == nil && name != "" {
		if u.deleted(r, noun, id) {
			n.Title, n.Text = text.Literal("Deleted"), text.Literal("The "+noun+" "+name+" was deleted. What was recorded of it stays.")
			if shell.MayEdit(r) {
				n.URL, n.Word = "/audit?subject="+id.String(), text.Literal("What happened to it")
			}
		}
	}
	return n
}

// deleted reports whether the thing itself, and not something within it, is what is no longer there.
func (u *UI) deleted(r *http.Request, noun string, id uuid.UUID) bool {
	var err error
	if noun == "skill" {
		_, _, err = u.cfg.Agents.FreshSkill(r.Context(), id)
	} else {
		_, err = u.cfg.Agents.AgentByID(r.Context(), id)
	}
	return err != nil
}

// nowhere answers at an address that nothing is at. It needs no sign-in: it says the same to everybody.
func (u *UI) nowhere(w http.ResponseWriter, r *http.Request) {
	u.Render(w, r, http.StatusNotFound, view.MessagePage(u.BarePage(r, text.Literal("Not found")), view.Notice{
		Level: view.Danger, Title: text.Literal("Not found"), Text: text.Literal("There is no page at this address."),
	}))
}

// orNowhere serves pages, and says in a page too that there is none. What the mux answers to a method that a page does not
// take stays as it is.
func (u *UI) orNowhere(pages *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, pattern := pages.Handler(r)
		if pattern != "" {
			pages.ServeHTTP(w, r)
			return
		}
		answer := &statusOnly{header: http.Header{}}
		if handler.ServeHTTP(answer, r); answer.status == http.StatusNotFound {
			u.nowhere(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// statusOnly takes the status of an answer, and drops the rest.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header { return s.header }

func (s *statusOnly) WriteHeader(status int) { s.status = status }

func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
