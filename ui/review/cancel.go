package review

import (
	"errors"
	"net/http"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
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

// Cancel cancels a call that is not being sent yet, after confirmation.
func (h *CallHandler) Cancel(w http.ResponseWriter, r *http.Request) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	if r.PostFormValue("confirmed") == "" {
		h.confirmCancel(w, r, access)
		return
	}
	_, err = h.calls.Cancel(r.Context(), call.Viewer{}, access.Person.ID, id)
	switch {
	case errors.Is(err, call.ErrState):
		h.answerWithCall(w, r, http.StatusConflict, notCancelled())
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.Redirect(w, r, present.CallURL(id))
	}
}

// confirmCancel asks for confirmation.
func (h *CallHandler) confirmCancel(w http.ResponseWriter, r *http.Request, access identity.Access) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	s, err := h.reader.readSubject(r.Context(), access, id)
	switch {
	case err != nil:
		h.Fail(w, r, err)
	case !s.mayCancel(access):
		h.answerWithCall(w, r, http.StatusConflict, notCancelled())
	default:
		page, err := h.reader.newPage(r, text.ReviewCancelTitle())
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		h.Render(w, r, http.StatusOK, CancelPage(page, present.CallURL(id), presentSentence(&s.call, s.names), s.call.Status == call.Approved))
	}
}

func notCancelled() shown {
	return shown{notice: &view.Notice{
		Level: view.Warn, Title: text.ReviewNotCancelled(),
		Text: text.ReviewNotCancelledHelp(),
	}}
}

// Resolve records the outcome that an operator found out.
func (h *CallHandler) Resolve(w http.ResponseWriter, r *http.Request) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	note, complaint := readReason(r, "note")
	outcome := r.PostFormValue("outcome")
	switch {
	case !complaint.IsZero():
	case outcome != call.ResolvedSucceeded && outcome != call.ResolvedFailed:
		complaint = text.ReviewOutcomeMissing()
	case note == "":
		complaint = text.ReviewEvidenceMissing()
	}
	if !complaint.IsZero() {
		h.answerWithCall(w, r, http.StatusUnprocessableEntity, shown{draft: note, err: complaint})
		return
	}
	_, err = h.calls.Resolve(r.Context(), id, call.Resolution{Outcome: outcome, Note: note, By: access.Person.ID})
	switch {
	case errors.Is(err, call.ErrState):
		h.answerWithCall(w, r, http.StatusConflict, shown{notice: &view.Notice{
			Level: view.Warn, Title: text.ReviewNotRecorded(), Draft: note,
			Text: text.ReviewNotRecordedHelp(),
		}})
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.Redirect(w, r, present.CallURL(id))
	}
}
