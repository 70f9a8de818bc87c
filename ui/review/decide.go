package review

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/evidence"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Approve approves a call that was shown completely. A destructive call needs a second step, and a call of a high-risk tool needs a recent
// sign-in. These are rules of the dashboard. Package call has the rules for all ways to decide.
func (h *DecisionHandler) Approve(w http.ResponseWriter, r *http.Request) {
	subject, ok := h.readDecidable(w, r)
	if !ok {
		return
	}
	access, _ := login.Access(r.Context())
	note, complaint := readReason(r, reasonField)
	how := shown{draft: note, err: complaint}
	if !subject.current {
		h.toolChanged(w, r, how)
		return
	}
	if typed := r.PostFormValue(editedField); typed != "" {
		edited, problems := h.checkEdit(r.Context(), subject, []byte(typed))
		if len(problems) > 0 {
			how.editing = &view.Editing{JSON: shell.Clean(typed), Problems: problems}
			h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
			return
		}
		how.edited = edited
		if _, err := subject.previewEdit(edited); err != nil {
			h.Fail(w, r, err)
			return
		}
	}
	var err error
	if subject.evidence, err = h.calls.ReadEvidence(r.Context(), &subject.call); err != nil { // it may have red warnings
		h.Fail(w, r, err)
		return
	}
	decision := call.Decision{Approve: true, Arguments: how.edited, Seen: readSeen(r)}
	if decision.Seen != nil {
		decision.Seen.Unusual = evidence.CountUnusual(subject.evidence)
	}
	missing := presentActions(subject, access, presentArguments(subject, formatOf(r), false), shown{})
	switch {
	case !complaint.IsZero():
		h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
	case missing.Kind == ActionReveal:
		how.err = text.ReviewRevealNeeded()
		h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
	case missing.Kind == ActionShowAll:
		how.err = text.ReviewShowNeeded()
		h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
	case missing.Kind == ActionStep && r.PostFormValue("confirmed") == "":
		how.confirm = true
		h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
	case subject.proposing: // sends nothing
		h.recordDecision(w, r, decision)
	case subject.risk.Proof && how.edited != nil && !h.login.Fresh(r, h.proofAge):
		// A redirect would lose the edit and show the agent's arguments afterwards.
		how.confirm, how.prove = true, true
		h.callPages.answerWithCall(w, r, http.StatusForbidden, how)
	case subject.risk.Proof && !h.login.Fresh(r, h.proofAge):
		h.login.Reauthenticate(w, r, present.CallURL(subject.call.ID))
	default:
		h.recordDecision(w, r, decision)
	}
}

// toolChanged answers that the tool changed after the call was made. An approved call would be denied at dispatch.
func (h *DecisionHandler) toolChanged(w http.ResponseWriter, r *http.Request, how shown) {
	how.notice = &view.Notice{
		Level: view.Danger, Title: text.ReviewToolChangedNothingDecided(), Draft: shell.Clean(r.PostFormValue(editedField)),
		Text: text.ReviewToolChangedNothingDecidedHelp(),
	}
	h.callPages.answerWithCall(w, r, http.StatusConflict, how)
}

// Confirm shows the second step of an approval, or goes back from it. It changes nothing.
func (h *DecisionHandler) Confirm(w http.ResponseWriter, r *http.Request) {
	note, complaint := readReason(r, reasonField)
	how := shown{draft: note, err: complaint, confirm: r.PostFormValue("back") == "" && complaint.IsZero()}
	valid, ok := h.carryEdit(w, r, &how)
	if !ok {
		return
	}
	how.confirm = how.confirm && valid
	h.callPages.answerWithCall(w, r, http.StatusOK, how)
}

// reasonField is the form's field for the reason of a rejection, or the note of an approval.
const reasonField = "reason"

// maxReason bounds a reason or note, in bytes.
const maxReason = 8 << 10

// recordDecision records the decision of the form and shows the result.
func (h *DecisionHandler) recordDecision(w http.ResponseWriter, r *http.Request, d call.Decision) {
	var err error
	if d.CallID, err = shell.CallID(r); err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	note, complaint := readReason(r, reasonField)
	if !complaint.IsZero() {
		h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, shown{draft: note, err: complaint})
		return
	}
	if d.Note = note; !d.Approve {
		d.Note = addPreset(r, note)
	}
	d.Digest, d.By = r.PostFormValue("digest"), access.Person.ID
	if d.Approve {
		var choices view.QueueChoices
		batch := &pgx.Batch{}
		h.reader.queueChoices(batch, access.Person.ID, &choices)
		if err := h.reader.pool.SendBatch(r.Context(), batch).Close(); err != nil {
			h.Fail(w, r, err)
			return
		}
		d.Undo = choices.Undo
	}
	if _, err = h.calls.Decide(r.Context(), d); err != nil {
		h.notDecided(w, r, err)
		return
	}
	shell.Redirect(w, r, formatOf(r).callURL(present.CallURL(d.CallID)))
}

// readReason reads a reason or note, and says why it cannot be stored.
func readReason(r *http.Request, field string) (reason string, complaint text.Message) {
	reason = strings.TrimSpace(strings.ReplaceAll(r.PostFormValue(field), "\r\n", "\n"))
	if len(reason) > maxReason {
		return reason, text.ReviewTooLong(len(reason), maxReason)
	}
	if !utf8.ValidString(reason) || strings.ContainsRune(reason, 0) {
		return shell.Clean(reason), text.ReviewBadCharacters()
	}
	return reason, text.Message{}
}

// notDecided says why a decision did not count, and shows the current call. A typed reason stays in its field if there still is one.
// Edited arguments never go there, because the agent reads the reason.
func (h *DecisionHandler) notDecided(w http.ResponseWriter, r *http.Request, err error) {
	edited, draft := typedInput(r)
	var conflict *approval.ConflictError
	var limit *identity.LimitError
	switch {
	case errors.Is(err, approval.ErrDigestMismatch):
		h.callPages.answerWithCall(w, r, http.StatusConflict, shown{draft: draft, notice: &view.Notice{
			Level: view.Danger, Title: text.ReviewCallChanged(), Draft: edited,
			Text: text.ReviewCallChangedHelp(),
		}})
	case errors.Is(err, approval.ErrSelfApproval):
		h.callPages.answerWithCall(w, r, http.StatusForbidden, shown{notice: &view.Notice{
			Level: view.Warn, Title: text.ReviewNothingDecided(), Draft: cmp.Or(edited, draft),
			Text: text.ReviewOwnCall(),
		}})
	case errors.Is(err, approval.ErrOwnEdit):
		h.callPages.answerWithCall(w, r, http.StatusForbidden, shown{draft: draft, notice: &view.Notice{
			Level: view.Warn, Title: text.ReviewNothingDecided(), Text: text.ReviewMayBeEditor(),
		}})
	case errors.As(err, &limit):
		h.callPages.answerWithCall(w, r, http.StatusForbidden, shown{notice: &view.Notice{
			Level: view.Warn, Title: text.ReviewNothingDecided(), Draft: cmp.Or(edited, draft),
			Text: text.ReviewOutsideLimit(limit.Limit.String()),
		}})
	case errors.Is(err, approval.ErrInvitedApproval):
		h.callPages.answerWithCall(w, r, http.StatusForbidden, shown{notice: &view.Notice{
			Level: view.Warn, Title: text.ReviewNothingDecided(), Draft: cmp.Or(edited, draft),
			Text: text.ReviewInvited(),
		}})
	case errors.As(err, &conflict):
		names, nameErr := h.Names(r.Context(), conflict.Approval.DecidedBy)
		if nameErr != nil {
			h.Fail(w, r, nameErr)
			return
		}
		n := conflictNotice(r.Context(), present.Decision(conflict.Approval, names))
		n.Draft = cmp.Or(edited, draft)
		h.callPages.answerWithCall(w, r, http.StatusConflict, shown{notice: n})
	default:
		if status, n, ok := votesNotice(err); ok {
			n.Draft = edited
			h.callPages.answerWithCall(w, r, status, shown{draft: draft, notice: n})
			return
		}
		h.Fail(w, r, err)
	}
}

// typedInput returns the edited arguments and the reason of a form.
func typedInput(r *http.Request) (edited, reason string) {
	edited = cmp.Or(r.PostFormValue(editedField), r.PostFormValue(editJSONField))
	return shell.Clean(edited), shell.Clean(r.PostFormValue(reasonField))
}

func conflictNotice(ctx context.Context, d *view.Decision) *view.Notice {
	n := &view.Notice{Level: view.Warn, Title: text.ReviewTooLate()}
	switch {
	case d == nil:
		n.Text = text.ReviewDecidedSameMoment()
	case d.By != "":
		n.Text = text.ReviewDecidedBy(d.Word, view.Printable(d.By), view.FormatHour(ctx, d.At))
	default:
		n.Text = text.ReviewDecidedAt(d.Word, view.FormatHour(ctx, d.At))
	}
	return n
}

// Extend moves the deadline of a call. It needs no digest, because it decides nothing. An edit is shown again, so that a later approval
// is still about it.
func (h *DecisionHandler) Extend(w http.ResponseWriter, r *http.Request) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	how := shown{draft: shell.Clean(r.PostFormValue(reasonField))}
	valid, ok := h.carryEdit(w, r, &how)
	if !ok {
		return
	}
	if !valid {
		h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
		return
	}
	_, err = h.calls.Extend(r.Context(), id, access.Person.ID)
	switch {
	case errors.Is(err, approval.ErrExtended):
		how.notice = &view.Notice{
			Level: view.Warn, Title: text.ReviewNoMoreTime(), Text: text.ReviewNoMoreTimeHelp(),
		}
		h.callPages.answerWithCall(w, r, http.StatusConflict, how)
	case err != nil:
		h.notDecided(w, r, err)
	default:
		h.callPages.answerWithCall(w, r, http.StatusOK, how)
	}
}

// listPresets returns common reasons of rejections. The agent reads them.
func listPresets() []text.Message {
	return []text.Message{
		text.ReviewWrongTarget(), text.ReviewWrongValues(), text.ReviewNotNeeded(), text.ReviewAskFirst(), text.ReviewTooMuch(), text.ReviewNotNow(),
	}
}

// Undo takes an approval back before its call is sent, or a vote while the call waits for more of them.
func (h *DecisionHandler) Undo(w http.ResponseWriter, r *http.Request) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	_, err = h.calls.Undo(r.Context(), id, access.Person.ID)
	switch {
	case errors.Is(err, approval.ErrTooLate):
		h.callPages.answerWithCall(w, r, http.StatusConflict, shown{notice: &view.Notice{Level: view.Warn, Title: text.ReviewUndoTooLate(), Text: text.ReviewUndoTooLateHelp()}})
	case errors.Is(err, approval.ErrNotDecider):
		h.callPages.answerWithCall(w, r, http.StatusForbidden, shown{notice: &view.Notice{Level: view.Warn, Title: text.ReviewUndoTooLate(), Text: text.ReviewUndoNotYours()}})
	case errors.Is(err, approval.ErrNoVote):
		h.callPages.answerWithCall(w, r, http.StatusConflict, shown{notice: &view.Notice{Level: view.Warn, Title: text.VotesNoVote()}})
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.Redirect(w, r, formatOf(r).callURL(present.CallURL(id)))
	}
}

// Reject rejects a call. It needs the evidence only to count its unusual arguments.
func (h *DecisionHandler) Reject(w http.ResponseWriter, r *http.Request) {
	d := call.Decision{Seen: readSeen(r)}
	if d.Seen != nil {
		entries, err := h.readEvidence(r)
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		d.Seen.Unusual = evidence.CountUnusual(entries)
	}
	h.recordDecision(w, r, d)
}

func (h *DecisionHandler) readEvidence(r *http.Request) ([]evidence.Entry, error) {
	id, err := shell.CallID(r)
	if err != nil {
		return nil, err
	}
	c, err := h.calls.Get(r.Context(), call.Viewer{}, id)
	if err != nil {
		return nil, err
	}
	return h.calls.ReadEvidence(r.Context(), &c)
}

// addPreset returns a reason with the preset of the form before it.
func addPreset(r *http.Request, reason string) string {
	preset := r.PostFormValue("preset")
	isPreset := func(m text.Message) bool { return m.In(r.Context()) == preset }
	switch {
	case !slices.ContainsFunc(listPresets(), isPreset):
		return reason
	case reason == "":
		return preset + "."
	}
	return preset + ". " + reason
}
