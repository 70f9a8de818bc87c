package shell

import (
	"net/http"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// AnswerWithForm answers with the page of a form.
func (sh *Shell) AnswerWithForm(w http.ResponseWriter, r *http.Request, status int, section view.Section, crumbs []view.Crumb, title text.Message, form view.Form) {
	pulse, err := sh.calls.ReadPulse(r.Context())
	if err != nil {
		sh.Fail(w, r, err)
		return
	}
	sh.Render(w, r, status, view.FormPage(sh.Page(r, section, title, pulse), crumbs, title, form))
}

// AnswerWithRemoval answers with a page that asks before something is deleted.
func (sh *Shell) AnswerWithRemoval(w http.ResponseWriter, r *http.Request, section view.Section, v view.Removal) {
	pulse, err := sh.calls.ReadPulse(r.Context())
	if err != nil {
		sh.Fail(w, r, err)
		return
	}
	sh.Render(w, r, http.StatusOK, view.RemovalPage(sh.Page(r, section, text.FormDeletePage(view.Printable(v.Name)), pulse), v))
}

// maxWaitingShown bounds how many waiting calls are counted.
const maxWaitingShown = 200

// Waiting tells how many calls of a filter wait for a decision, or returns no text.
func (sh *Shell) Waiting(r *http.Request, f history.Filter) (text.Message, error) {
	f.Statuses, f.Limit = []call.Status{call.Parked}, maxWaitingShown
	found, err := sh.history.Search(r.Context(), f)
	if len(found.Calls) == 0 {
		return text.Message{}, err
	}
	return text.RemovalWaiting(len(found.Calls)), err
}
