package ui

import (
	"net/http"

	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// approve decides only about what was shown whole, and what is destructive only after its
// second step. Both are rules of this page; what counts for every way to decide is
// package call's.
func (u *UI) approve(w http.ResponseWriter, r *http.Request) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	subject, err := u.subject(r.Context(), id)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	note, complaint := reason(r, reasonField)
	missing := actions(subject, access, presentArguments(subject, formatOf(r), false), shown{})
	switch {
	case complaint != "":
		u.decide(w, r, true) // says so
	case missing.Kind == view.ActionShowAll:
		u.answerWithCall(w, r, http.StatusUnprocessableEntity, shown{
			draft: note, err: "Not all of the arguments were shown. Look at all of them first.",
		})
	case missing.Kind == view.ActionStep && r.PostFormValue("confirmed") == "":
		u.answerWithCall(w, r, http.StatusUnprocessableEntity, shown{draft: note, confirm: true})
	default:
		u.decide(w, r, true)
	}
}
