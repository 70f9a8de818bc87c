package review

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ShowCall shows a call.
func (h *CallHandler) ShowCall(w http.ResponseWriter, r *http.Request) {
	h.answerWithCall(w, r, http.StatusOK, shown{})
}

// shown says how to show a call, in addition to the request.
type shown struct {
	notice  *view.Notice
	confirm bool            // the second step
	prove   bool            // the second step, which needs a recent sign-in
	reveal  bool            // secrets are shown
	draft   string          // of the reason
	err     text.Message    // about draft
	editing *view.Editing   // the editor is open
	edited  json.RawMessage // these are to be sent instead

	comment      string       // the draft of a comment
	commentError text.Message // about comment, or about an assignment

	question int // draft and err are about this question, not about the call
	revealed int // the secrets of this question's answer are shown

	glass bool // draft, err and confirm are about an approval that one person gives alone
}

// answerWithCall renders the page of a call, or the part of it that changes.
func (h *CallHandler) answerWithCall(w http.ResponseWriter, r *http.Request, status int, s shown) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	subject, err := h.reader.loadSubject(r.Context(), access, id)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if shell.PartOnly(r) && r.Method == http.MethodGet && r.URL.Query().Get("known") == subject.hashState() {
		w.WriteHeader(http.StatusNoContent) // the page is current
		return
	}
	known, err := h.reader.completeShown(r.Context(), subject)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if err := h.noteLook(r, access, subject); err != nil {
		h.Fail(w, r, err)
		return
	}
	presented, err := h.reader.presentCall(r.Context(), subject, known, formatOf(r), s)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if shell.PartOnly(r) {
		h.Render(w, r, status, CallArticle(presented))
		return
	}
	page, err := h.reader.newPage(r, text.Literal(subject.call.Skill+": "+view.Printable(subject.call.Tool)))
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if presented.Live && subject.call.Status != call.Parked && !subject.asksReviewer() {
		page.RefreshAfter = 2 // seconds, without JavaScript; never while the reader may be typing
	}
	h.Render(w, r, status, CallPage(page, presented))
}

// newPage returns a page of the queue.
func (h *reader) newPage(r *http.Request, title text.Message) (view.Page, error) {
	pulse, err := h.calls.ReadPulse(r.Context())
	return h.Page(r, view.SectionQueue, title, pulse), err
}

// presentCall makes the view model of a call for its reader.
func (h *reader) presentCall(ctx context.Context, s *subject, known *surroundings, f format, how shown) (Call, error) {
	access := s.access
	var edited *Edited
	var err error
	pending := s.isPending()
	if how.edited != nil && pending && !bytes.Equal(how.edited, s.call.Arguments) {
		if edited, err = s.previewEdit(how.edited); err != nil {
			return Call{}, err
		}
		f.full = true // the editor shows all of it
	}
	if how.reveal {
		f.full = true // a call can be approved only if it was shown completely
	}
	if pending {
		if s.evidence, err = h.calls.ReadEvidenceUpTo(ctx, &s.call, known.newest); err != nil {
			return Call{}, err
		}
	}
	presented := presentCall(s, access, f, how)
	presented.Edited, presented.Arguments.Fixed = edited, edited != nil
	if presented.Request, err = h.buildRequest(ctx, s, presented.Arguments, edited != nil); err != nil {
		return Call{}, err
	}
	presented.Arguments.Mapped = presented.Request != nil
	if presented.Request != nil && presented.Request.Folded && presented.Actions.Kind != "" {
		presented.Arguments.Folded = true
		restore := presented.Actions.MayRestore
		presented.Actions = presentActions(s, access, presented.Arguments, how)
		presented.Actions.MayRestore = restore
	}
	if pending && how.editing != nil {
		presented.Editing = how.editing
		presented.Actions.Kind = ActionEdit
	}
	if presented.Questions, err = h.presentQuestions(ctx, s, access, f, how); err != nil {
		return Call{}, err
	}
	if presented.Wait, err = h.presentWait(ctx, access, s); err != nil {
		return Call{}, err
	}
	if err := h.addContext(ctx, s, known, &presented); err != nil {
		return Call{}, err
	}
	s.addVotes(&presented, how)
	if presented.Teamwork != nil {
		presented.Teamwork.Draft, presented.Teamwork.Error = how.comment, how.commentError
	}
	return presented, nil
}

// asksReviewer reports whether a question of the call's server waits for a decision.
func (s *subject) asksReviewer() bool {
	for i := range s.questions {
		if s.questions[i].Status == call.QuestionPending {
			return true
		}
	}
	return false
}

// format is how arguments are to be shown.
type format struct {
	view Format
	full bool
}

func formatOf(r *http.Request) format {
	f := format{view: FormatFields, full: r.FormValue("full") != ""}
	if v := Format(r.FormValue("view")); v == FormatJSON || v == FormatRaw {
		f.view = v
	}
	return f
}

// mayDecide reports whether the person may decide the call, and if not, why.
func (s *subject) mayDecide(who identity.Access) (why text.Message, ok bool) {
	switch {
	case !who.Has(identity.Reviewer):
		return text.ReviewReviewersOnly(), false
	case s.own:
		return text.ReviewOwnCall(), false
	case s.limit != nil:
		return text.ReviewOutsideLimit(s.limit.Limit.String()), false
	case s.invited:
		return text.ReviewInvited(), false
	}
	return text.Message{}, true
}
