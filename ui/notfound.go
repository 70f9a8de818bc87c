package ui

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/guarded"
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
		return http.StatusNotFound, view.Notice{Level: view.Danger, Title: text.PageNoCall(), Text: text.PageNoCallHelp()}, true
	case errors.Is(err, errForbidden):
		return http.StatusForbidden, view.Notice{Level: view.Danger, Title: text.PageWrongRole(), Text: text.PageWrongRoleHelp()}, true
	case errors.Is(err, callback.ErrNotFound):
		return http.StatusNotFound, view.Notice{Level: view.Danger, Title: text.PageNoCallback(), Text: text.PageNoCallbackHelp()}, true
	case errors.Is(err, agent.ErrNotFound), errors.Is(err, guarded.ErrNotFound):
		return http.StatusNotFound, u.explainMissing(r), true
	}
	return 0, n, false
}

// explainMissing explains that the registry has nothing at the request's address, and says so if it was deleted.
func (u *UI) explainMissing(r *http.Request) view.Notice {
	n := view.Notice{Level: view.Danger, Title: text.PageNotFound(), Text: text.PageGoneHelp()}
	var deleted func(name string) text.Message
	switch cutPath(r.URL.Path) {
	case "/skills":
		n.Title, deleted = text.PageNoSkill(), text.PageSkillDeleted
	case "/agents":
		n.Title, deleted = text.PageNoAgent(), text.PageAgentDeleted
	case "/rules":
		n.Title = text.RulesNoRule()
	case "/policies":
		n.Title = text.PoliciesNoPolicy()
	case "/grants":
		n.Title = text.GrantsMissing()
	case "/plans":
		n.Title = text.PlansMissing()
	case "/conversations":
		n.Title = text.PageNoConversation()
	}
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil || deleted == nil {
		return n
	}
	names, err := u.cfg.Agents.Names(r.Context(), []uuid.UUID{id})
	if name := names[id]; err == nil && name != "" && u.isDeleted(r, id) {
		n.Title, n.Text = text.PageDeleted(), deleted(name)
		if shell.MayEdit(r) {
			n.URL, n.Word = "/audit?subject="+id.String(), text.PageAuditLink()
		}
	}
	return n
}

// isDeleted reports whether the skill or agent itself is missing, not something within it.
func (u *UI) isDeleted(r *http.Request, id uuid.UUID) bool {
	var err error
	if cutPath(r.URL.Path) == "/skills" {
		_, _, err = u.cfg.Agents.FreshSkill(r.Context(), id)
	} else {
		_, err = u.cfg.Agents.AgentByID(r.Context(), id)
	}
	return err != nil
}

// showNotFound answers at an address without a page. It needs no sign-in, since everyone gets the same answer.
func (u *UI) showNotFound(w http.ResponseWriter, r *http.Request) {
	u.Render(w, r, http.StatusNotFound, view.MessagePage(u.BarePage(r, text.PageNotFound()), view.Notice{
		Level: view.Danger, Title: text.PageNotFound(), Text: text.PageNotFoundHelp(),
	}))
}

// servePages serves pages, and a page for an address without one. A page that does not allow the method keeps the mux's answer.
func (u *UI) servePages(pages *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, pattern := pages.Handler(r)
		if pattern != "" {
			pages.ServeHTTP(w, r)
			return
		}
		answer := &statusOnly{header: http.Header{}}
		if handler.ServeHTTP(answer, r); answer.status == http.StatusNotFound {
			u.showNotFound(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// statusOnly keeps the status of an answer and drops the rest.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header { return s.header }

func (s *statusOnly) WriteHeader(status int) { s.status = status }

func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
