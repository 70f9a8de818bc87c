package ui

import (
	"errors"
	"net/http"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// extend gives a call more time. It needs no digest: it decides nothing. What was edited is shown again, so that
// what is approved afterwards is still that.
func (u *UI) extend(w http.ResponseWriter, r *http.Request) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	how := shown{draft: clean(r.PostFormValue(reasonField))}
	valid, ok := u.carryEdit(w, r, &how)
	if !ok {
		return
	}
	if !valid {
		u.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
		return
	}
	_, err = u.cfg.Calls.Extend(r.Context(), id, access.Person.ID)
	switch {
	case errors.Is(err, approval.ErrExtended):
		how.notice = &view.Notice{
			Level: view.Warn, Title: "No more time.", Text: "The deadline was moved as often as it may be.",
		}
		u.answerWithCall(w, r, http.StatusConflict, how)
	case err != nil:
		u.notDecided(w, r, err)
	default:
		u.answerWithCall(w, r, http.StatusOK, how)
	}
}
