package ui

import (
	"errors"
	"net/http"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// extend gives a call more time. It needs no digest: it decides nothing.
func (u *UI) extend(w http.ResponseWriter, r *http.Request) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	draft := r.PostFormValue(reasonField)
	_, err = u.cfg.Calls.Extend(r.Context(), id, access.Person.ID)
	switch {
	case errors.Is(err, approval.ErrExtended):
		u.answerWithCall(w, r, http.StatusConflict, shown{draft: clean(draft), notice: &view.Notice{
			Level: view.Warn, Title: "No more time.", Text: "The deadline was moved as often as it may be.",
		}})
	case err != nil:
		u.notDecided(w, r, err, clean(draft))
	default:
		u.answerWithCall(w, r, http.StatusOK, shown{draft: clean(draft)})
	}
}
