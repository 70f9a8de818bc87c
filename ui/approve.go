package ui

import (
	"net/http"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// approve decides only about what was shown whole, and what is destructive only after its
// second step; calls of tools that an operator marked take somebody who proved a short while ago who they
// are. These are rules of the dashboard; what counts for every way to decide is package call's.
func (u *UI) approve(w http.ResponseWriter, r *http.Request) {
	subject, ok := u.decidable(w, r)
	if !ok {
		return
	}
	access, _ := login.Access(r.Context())
	note, complaint := reason(r, reasonField)
	how := shown{draft: note, err: complaint}
	if !subject.current {
		u.toolChanged(w, r, how)
		return
	}
	if text := r.PostFormValue(editedField); text != "" {
		edited, problems := u.checked(r.Context(), subject, []byte(text))
		if len(problems) > 0 {
			how.editing = &view.Editing{JSON: clean(text), Problems: problems}
			u.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
			return
		}
		how.edited = edited
		if _, err := subject.preview(edited); err != nil {
			u.fail(w, r, err)
			return
		}
	}
	missing := actions(subject, access, presentArguments(subject, formatOf(r), false), shown{})
	switch {
	case complaint != "":
		u.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
	case missing.Kind == view.ActionReveal:
		how.err = "Not all that would be sent was shown: it is hidden with the secrets among the arguments. Have it shown first."
		u.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
	case missing.Kind == view.ActionShowAll:
		how.err = "Not all of the arguments were shown. Look at all of them first."
		u.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
	case missing.Kind == view.ActionStep && r.PostFormValue("confirmed") == "":
		how.confirm = true
		u.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
	case subject.proposing: // which sends nothing
		u.decide(w, r, call.Decision{Approve: true, Arguments: how.edited})
	case subject.risk.proof && how.edited != nil && !u.login.Fresh(r, u.cfg.ProofAge):
		// To send them away would lose the edit, and show them what the agent asked for when they come back.
		how.confirm, how.prove = true, true
		u.answerWithCall(w, r, http.StatusForbidden, how)
	case subject.risk.proof && !u.login.Fresh(r, u.cfg.ProofAge):
		u.login.Reauthenticate(w, r, callURL(subject.call.ID))
	default:
		u.decide(w, r, call.Decision{Approve: true, Arguments: how.edited})
	}
}

// toolChanged says that the tool is not what it was when the call was made. To approve would only have it denied at dispatch.
func (u *UI) toolChanged(w http.ResponseWriter, r *http.Request, how shown) {
	how.notice = &view.Notice{
		Level: view.Danger, Title: "Nothing was decided: the tool changed.", Draft: clean(r.PostFormValue(editedField)),
		Text: "Its server does not offer it any more as it was when this call was made, so the call would not be sent. Below is what it offers now.",
	}
	u.answerWithCall(w, r, http.StatusConflict, how)
}
