package ui

import (
	"errors"
	"net/http"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// resolve records what an operator found out about an unknown outcome.
func (u *UI) resolve(w http.ResponseWriter, r *http.Request) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	note, complaint := reason(r, "note")
	outcome := r.PostFormValue("outcome")
	switch {
	case complaint != "":
	case outcome != call.ResolvedSucceeded && outcome != call.ResolvedFailed:
		complaint = "Say what became of the call."
	case note == "":
		complaint = "Say how you know."
	}
	if complaint != "" {
		u.answerWithCall(w, r, http.StatusUnprocessableEntity, shown{draft: note, err: complaint})
		return
	}
	_, err = u.cfg.Calls.Resolve(r.Context(), id, call.Resolution{Outcome: outcome, Note: note, By: access.Person.ID})
	switch {
	case errors.Is(err, call.ErrState):
		u.answerWithCall(w, r, http.StatusConflict, shown{notice: &view.Notice{
			Level: view.Warn, Title: "Not recorded.", Draft: note,
			Text: "The outcome of this call is known, or somebody resolved it before you.",
		}})
	case err != nil:
		u.fail(w, r, err)
	default:
		http.Redirect(w, r, callURL(id), http.StatusSeeOther)
	}
}
