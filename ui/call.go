package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

func (u *UI) showCall(w http.ResponseWriter, r *http.Request) {
	u.answerWithCall(w, r, http.StatusOK, shown{})
}

// shown is how a call is to be shown, besides what the request says.
type shown struct {
	notice  *view.Notice
	confirm bool            // the second step
	prove   bool            // the second step, and before it the person has to prove who they are
	reveal  bool            // secrets are shown
	draft   string          // what was typed
	err     string          // what is missing in it
	editing *view.Editing   // the editor is open
	edited  json.RawMessage // these are to be sent instead

	question int // draft and err are about this question, not about the call
	revealed int // the secrets of this question's answer are shown
}

// answerWithCall answers with the page of the call that the request is about, or
// with the part of it that changes.
func (u *UI) answerWithCall(w http.ResponseWriter, r *http.Request, status int, s shown) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	subject, err := u.subject(r.Context(), access, id)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if partOnly(r) && r.Method == http.MethodGet && r.URL.Query().Get("known") == subject.state() {
		w.WriteHeader(http.StatusNoContent) // it is on the screen
		return
	}
	presented, err := u.presented(r.Context(), subject, access, formatOf(r), s)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if partOnly(r) {
		u.render(w, r, status, view.CallArticle(presented))
		return
	}
	page := u.page(r, view.SectionQueue, subject.call.Skill+": "+printable(subject.call.Tool), subject.pulse)
	if presented.Live && subject.call.Status != call.Parked && !subject.asksReviewer() {
		page.RefreshAfter = 2 // seconds, without JavaScript; never while somebody may be writing
	}
	u.render(w, r, status, view.CallPage(page, presented))
}

// presented is a call as this person gets to see it.
func (u *UI) presented(ctx context.Context, s *subject, access identity.Access, f format, how shown) (view.Call, error) {
	var edited *view.Edited
	var err error
	pending := s.approval != nil && s.approval.Status == approval.Pending
	if how.edited != nil && pending && !bytes.Equal(how.edited, s.call.Arguments) {
		if edited, err = s.preview(how.edited); err != nil {
			return view.Call{}, err
		}
		f.full = true // whoever wrote it knows all of it
	}
	if how.reveal && s.withheld > 0 {
		f.full = true // approving needs all of it to have been shown
	}
	presented := presentCall(s, access, f, how)
	presented.Edited, presented.Arguments.Fixed = edited, edited != nil
	if presented.Request, err = u.request(ctx, s, presented.Arguments, edited != nil); err != nil {
		return view.Call{}, err
	}
	presented.Arguments.Mapped = presented.Request != nil
	if presented.Request != nil && presented.Request.Folded && presented.Actions.Kind != "" {
		presented.Arguments.Folded = true
		restore := presented.Actions.MayRestore
		presented.Actions = actions(s, access, presented.Arguments, how)
		presented.Actions.MayRestore = restore
	}
	if pending && how.editing != nil {
		presented.Editing = how.editing
		presented.Actions.Kind = view.ActionEdit
	}
	if presented.Questions, err = u.presentQuestions(ctx, s, access, f, how); err != nil {
		return view.Call{}, err
	}
	if presented.Wait, err = u.wait(ctx, access, s); err != nil {
		return view.Call{}, err
	}
	return presented, u.context(ctx, access, s, &presented)
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
	view view.Format
	full bool
}

func formatOf(r *http.Request) format {
	f := format{view: view.FormatFields, full: r.FormValue("full") != ""}
	if v := view.Format(r.FormValue("view")); v == view.FormatJSON || v == view.FormatRaw {
		f.view = v
	}
	return f
}

const invitedWords = "Your identity is not verified: only the person who invited you vouches for it. The call is on behalf of that person, or that person made " +
	"a key of the agent. Another reviewer has to decide about it."

// mayDecide reports whether the person may decide about the call, and if not, why.
func (s *subject) mayDecide(who identity.Access) (why string, ok bool) {
	switch {
	case !who.Has(identity.Reviewer):
		return "You may look at this call. Deciding takes the role reviewer.", false
	case s.own:
		return "This call was made on your behalf. Somebody else has to decide about it.", false
	case s.invited:
		return invitedWords, false
	}
	return "", true
}
