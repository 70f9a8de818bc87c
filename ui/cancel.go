package ui

import (
	"errors"
	"net/http"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// mayCancel reports whether the person is offered to cancel the call: an operator, until a process claims it to send it.
func (s *subject) mayCancel(who identity.Access) bool {
	if !who.Has(identity.Operator) {
		return false
	}
	switch s.call.Status {
	case call.Parked:
		return s.approval != nil && s.approval.Status == approval.Pending
	case call.Approved, call.NeedsConnection:
		return true
	default:
		return false
	}
}

// cancel ends a call that is not being sent yet, after a second step.
func (u *UI) cancel(w http.ResponseWriter, r *http.Request) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	if r.PostFormValue("confirmed") == "" {
		u.confirmCancel(w, r, access)
		return
	}
	_, err = u.cfg.Calls.Cancel(r.Context(), call.Viewer{}, access.Person.ID, id)
	switch {
	case errors.Is(err, call.ErrState):
		u.answerWithCall(w, r, http.StatusConflict, notCancelled())
	case err != nil:
		u.fail(w, r, err)
	default:
		http.Redirect(w, r, callURL(id), http.StatusSeeOther)
	}
}

// confirmCancel says what cancelling means.
func (u *UI) confirmCancel(w http.ResponseWriter, r *http.Request, access identity.Access) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	s, err := u.subject(r.Context(), access, id)
	switch {
	case err != nil:
		u.fail(w, r, err)
	case !s.mayCancel(access):
		u.answerWithCall(w, r, http.StatusConflict, notCancelled())
	default:
		page := u.page(r, view.SectionQueue, "Cancel a call", s.pulse)
		u.render(w, r, http.StatusOK, view.CancelPage(page, callURL(id), sentence(&s.call, s.names), s.call.Status == call.Approved))
	}
}

func notCancelled() shown {
	return shown{notice: &view.Notice{
		Level: view.Warn, Title: "Not cancelled.",
		Text: "The call is being sent, or it has ended. This is its state now.",
	}}
}
