package ui

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// reasonField is the form's field for the reason of a rejection, or the note of an approval.
const reasonField = "reason"

// maxReason bounds a reason or note, in bytes.
const maxReason = 8 << 10

// decide records what the form says about the call, and shows what came of it.
func (u *UI) decide(w http.ResponseWriter, r *http.Request, d call.Decision) {
	var err error
	if d.CallID, err = callID(r); err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	note, complaint := reason(r, reasonField)
	if complaint != "" {
		u.answerWithCall(w, r, http.StatusUnprocessableEntity, shown{draft: note, err: complaint})
		return
	}
	if d.Note = note; !d.Approve {
		d.Note = withPreset(r.PostFormValue("preset"), note)
	}
	d.Digest, d.By = r.PostFormValue("digest"), access.Person.ID
	if _, err = u.cfg.Calls.Decide(r.Context(), d); err != nil {
		u.notDecided(w, r, err)
		return
	}
	http.Redirect(w, r, formatOf(r).url(callURL(d.CallID)), http.StatusSeeOther)
}

// reason is what was typed, and what is wrong with it.
func reason(r *http.Request, field string) (text, complaint string) {
	text = strings.TrimSpace(strings.ReplaceAll(r.PostFormValue(field), "\r\n", "\n"))
	if len(text) > maxReason {
		return text, fmt.Sprintf("This is too long: %d bytes, at most %d.", len(text), maxReason)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return clean(text), "This has characters in it that cannot be kept. They are left out below; look at it again."
	}
	return text, ""
}

// clean leaves out what is no text for the database.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}

// notDecided tells why a decision did not count. The call is shown as it is now, and
// what was typed is kept: a reason in its field if there still is one, edited arguments never there, for the agent
// reads it.
func (u *UI) notDecided(w http.ResponseWriter, r *http.Request, err error) {
	edited, draft := written(r)
	var conflict *approval.ConflictError
	switch {
	case errors.Is(err, approval.ErrDigestMismatch):
		u.answerWithCall(w, r, http.StatusConflict, shown{draft: draft, notice: &view.Notice{
			Level: view.Danger, Title: "Nothing was decided: the call changed.", Draft: edited,
			Text: "It is not what you had on the screen. Below is what waits now; look at it again.",
		}})
	case errors.Is(err, approval.ErrSelfApproval):
		u.answerWithCall(w, r, http.StatusForbidden, shown{notice: &view.Notice{
			Level: view.Warn, Title: "Nothing was decided.", Draft: cmp.Or(edited, draft),
			Text: "This call was made on your behalf. Somebody else has to decide about it.",
		}})
	case errors.Is(err, approval.ErrOwnEdit):
		u.answerWithCall(w, r, http.StatusForbidden, shown{draft: draft, notice: &view.Notice{
			Level: view.Warn, Title: "Nothing was decided.", Text: "You wrote this edit, or nobody verified that you and its editor are two people. Another reviewer has to approve it.",
		}})
	case errors.Is(err, approval.ErrInvitedApproval):
		u.answerWithCall(w, r, http.StatusForbidden, shown{notice: &view.Notice{
			Level: view.Warn, Title: "Nothing was decided.", Draft: cmp.Or(edited, draft),
			Text: invitedWords,
		}})
	case errors.As(err, &conflict):
		names, nameErr := u.names(r.Context(), conflict.Approval.DecidedBy)
		if nameErr != nil {
			u.fail(w, r, nameErr)
			return
		}
		n := conflictNotice(presentDecision(conflict.Approval, names))
		n.Draft = cmp.Or(edited, draft)
		u.answerWithCall(w, r, http.StatusConflict, shown{notice: n})
	default:
		u.fail(w, r, err)
	}
}

// written is what a form carries that somebody wrote: arguments, where they were edited, and the reason.
func written(r *http.Request) (edited, reason string) {
	edited = cmp.Or(r.PostFormValue(editedField), r.PostFormValue(editJSONField))
	return clean(edited), clean(r.PostFormValue(reasonField))
}

func conflictNotice(d *view.Decision) *view.Notice {
	n := &view.Notice{Level: view.Warn, Title: "Your decision came too late."}
	switch {
	case d == nil:
		n.Text = "The call was decided in the same moment."
	case d.By != "":
		n.Text = fmt.Sprintf("%s: %s, at %s.", d.Word, d.By, d.At.UTC().Format("15:04:05 UTC"))
	default:
		n.Text = fmt.Sprintf("%s at %s.", d.Word, d.At.UTC().Format("15:04:05 UTC"))
	}
	return n
}
