package ui

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// showBefore answers with what a call would change, as it is now: the page, or the part of the call's page that asked for it.
func (u *UI) showBefore(w http.ResponseWriter, r *http.Request) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	s, err := u.subject(r.Context(), access, id)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	outgoing, err := s.call.Outgoing()
	if err == nil && (outgoing == nil || s.definition == nil || !s.definition.Previewed()) {
		err = call.ErrNotFound
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	before := &view.Before{Hidden: true, CallURL: callURL(id)}
	if s.hidden == 0 || s.revealed { // else it could hold them: in its address, or under the API's own names
		state, err := u.cfg.Calls.Before(r.Context(), &s.call)
		if before, err = u.before(s, outgoing, state, err); err != nil {
			u.fail(w, r, err)
			return
		}
	}
	url := callURL(id)
	request := view.Request{BeforeURL: url + "/before", Before: before}
	if partOnly(r) {
		u.render(w, r, http.StatusOK, view.BeforePart(request))
		return
	}
	u.render(w, r, http.StatusOK, view.BeforePage(u.page(r, view.SectionQueue, "What a call changes", s.pulse), request, url, id.String()))
}

// before presents what was read, or why it was not: nothing depends on it.
func (u *UI) before(s *subject, o *tool.Outgoing, state *tool.State, err error) (*view.Before, error) {
	failure, failed := errors.AsType[*tool.Failure](err)
	switch {
	case failed:
		return presentBefore(s, o, nil, failure.Message+"."), nil
	case errors.Is(err, call.ErrState):
		return presentBefore(s, o, nil, "the call does not wait for a decision any more."), nil
	case errors.Is(err, call.ErrNoPreview):
		return presentBefore(s, o, nil, "the skill was changed since the call was made."), nil
	case err != nil:
		return nil, err
	}
	return presentBefore(s, o, state, ""), nil
}

// request is what goes out, for these arguments, and what was read a moment ago of what it changes.
func (u *UI) request(ctx context.Context, s *subject, a view.Arguments, edited bool) (*view.Request, error) {
	outgoing, err := s.call.Outgoing()
	if err == nil && edited {
		outgoing, err = u.cfg.Calls.OutgoingWith(ctx, &s.call, s.call.Arguments)
	}
	if err != nil {
		return nil, err
	}
	masked := ""
	if outgoing != nil && hidesRequest(a) {
		masked = u.maskedURL(ctx, s)
	}
	v := presentRequest(s, outgoing, a, masked)
	if v == nil || v.BeforeURL == "" {
		return v, nil
	}
	if edited {
		v.BeforeURL = "" // it is about what was submitted
		return v, nil
	}
	if state, err, known := u.cfg.Calls.BeforeKnown(&s.call); known {
		v.Before, err = u.before(s, outgoing, state, err)
		return v, err
	}
	return v, nil
}

// maskedURL is the URL of a call's request with a word in place of each secret among the arguments, as the skill makes it of
// them. Empty: it cannot be told any more, or not without them.
func (u *UI) maskedURL(ctx context.Context, s *subject) string {
	skill, _, err := u.cfg.Agents.FreshSkill(ctx, s.call.SkillID)
	if err != nil || skill.Revision != s.call.SkillRevision {
		return ""
	}
	masked, err := u.cfg.Calls.OutgoingWith(ctx, &s.call, s.secrets().Masked(s.call.Arguments, "hidden"))
	if err != nil || masked == nil {
		return ""
	}
	return masked.URL
}
