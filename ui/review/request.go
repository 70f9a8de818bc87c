package review

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/review/jsonobject"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// ShowBefore previews the changes of a call to the current state: as a page, or as the part of the call's page that asked for it.
func (h *CallHandler) ShowBefore(w http.ResponseWriter, r *http.Request) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	s, err := h.reader.readSubject(r.Context(), access, id)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	outgoing, err := s.call.Outgoing()
	if err == nil && (outgoing == nil || s.definition == nil || !s.definition.Previewed()) {
		err = call.ErrNotFound
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	before := &view.Before{Hidden: true, CallURL: present.CallURL(id)}
	if s.hidden == 0 || s.revealed { // otherwise the state may contain them, in its URL or under other names
		state, err := h.calls.ReadBefore(r.Context(), &s.call)
		if before, err = h.reader.presentState(s, outgoing, state, err); err != nil {
			h.Fail(w, r, err)
			return
		}
	}
	url := present.CallURL(id)
	request := view.Request{BeforeURL: url + "/before", Before: before}
	if shell.PartOnly(r) {
		h.Render(w, r, http.StatusOK, view.BeforePart(request))
		return
	}
	page, err := h.reader.newPage(r, text.ReviewBeforeTitle())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, BeforePage(page, request, url, id.String()))
}

// presentState presents the current state, or why it could not be read. A decision does not depend on it.
func (h *reader) presentState(s *subject, o *tool.Outgoing, state *tool.State, err error) (*view.Before, error) {
	failure, failed := errors.AsType[*tool.Failure](err)
	switch {
	case failed:
		return presentBefore(s, o, nil, text.Literal(failure.Message+".")), nil
	case errors.Is(err, call.ErrState):
		return presentBefore(s, o, nil, text.ReviewBeforeNotPending()), nil
	case errors.Is(err, call.ErrNoPreview):
		return presentBefore(s, o, nil, text.ReviewBeforeSkillChanged()), nil
	case err != nil:
		return nil, err
	}
	return presentBefore(s, o, state, text.Message{}), nil
}

// buildRequest presents the request for these arguments and the state that was read recently.
func (h *reader) buildRequest(ctx context.Context, s *subject, a Arguments, edited bool) (*view.Request, error) {
	outgoing, err := s.call.Outgoing()
	if err == nil && edited {
		outgoing, err = h.calls.PreviewEdit(ctx, &s.call, s.call.Arguments)
	}
	if err != nil {
		return nil, err
	}
	masked := ""
	if outgoing != nil && hidesRequest(a) {
		masked = h.maskedURL(ctx, s)
	}
	v := presentRequest(s, outgoing, a, masked)
	if v == nil || v.BeforeURL == "" {
		return v, nil
	}
	if edited {
		v.BeforeURL = "" // it shows the submitted call
		return v, nil
	}
	if state, err, known := h.calls.CachedBefore(&s.call); known {
		v.Before, err = h.presentState(s, outgoing, state, err)
		return v, err
	}
	return v, nil
}

// maskedURL returns the URL of a call's request with a word in place of each secret, or "" if the skill has changed or the URL cannot
// be made without the secrets.
func (h *reader) maskedURL(ctx context.Context, s *subject) string {
	skill, _, err := h.agents.FreshSkill(ctx, s.call.SkillID)
	if err != nil || skill.Revision != s.call.SkillRevision {
		return ""
	}
	masked, err := h.calls.PreviewEdit(ctx, &s.call, s.secrets.Replace(s.call.Arguments, func(secretfield.Field) string { return "hidden" }))
	if err != nil || masked == nil {
		return ""
	}
	return masked.URL
}

// presentRequest presents the request of a call to an HTTP API, or returns nil for other calls. It shows only maskedURL if the rest is
// hidden.
func presentRequest(s *subject, o *tool.Outgoing, a Arguments, maskedURL string) *view.Request {
	if o == nil {
		return nil
	}
	v := &view.Request{
		Method: o.Method, Hidden: hidesRequest(a),
		Sent: wasSent(&s.call), Unsent: wasNotSent(&s.call),
	}
	if s.approval != nil && s.approval.Status == approval.Pending && s.definition != nil && s.definition.Previewed() && !v.Hidden {
		v.BeforeURL = present.CallURL(s.call.ID) + "/before"
	}
	if v.Hidden {
		if maskedURL != "" {
			v.URL = hostile.Fold(maskedURL, hostile.Folded())
		}
		return v
	}
	limits := hostile.Folded()
	if a.Full {
		limits = hostile.Limits{}
	}
	v.URL = hostile.Fold(o.URL, limits)
	v.Folded = v.URL.Cut != nil
	for _, h := range o.Headers {
		value := hostile.Fold(h.Value, limits)
		v.Folded = v.Folded || value.Cut != nil
		v.Headers = append(v.Headers, view.RequestHeader{Name: h.Name, Value: value, Secret: h.Secret})
	}
	if len(o.Body) > 0 {
		var folded bool
		v.Body, folded = presentBody(o.Body, limits)
		v.Folded = v.Folded || folded
	}
	return v
}

// hidesRequest reports whether a request is hidden with the secrets in its arguments. The editor of arguments knows them all.
func hidesRequest(a Arguments) bool { return a.Secrets > 0 && !a.Revealed && !a.Fixed }

// wasSent reports whether a call is being sent, or was sent.
func wasSent(c *call.Call) bool {
	return c.Status == call.Executing || c.Status.Final() && !wasNotSent(c)
}

// wasNotSent reports whether a call ended without sending its request: undecided, refused, or because the server was not reachable.
func wasNotSent(c *call.Call) bool {
	switch c.Status {
	case call.Failed:
		return c.Effect == tool.EffectNone && !wasAnswered(c)
	case call.Rejected, call.Expired, call.Cancelled, call.Denied, call.Invalid:
		return true
	default:
		return false
	}
}

// wasAnswered reports whether the server of a failed call answered: with an HTTP status, or over MCP with an error.
func wasAnswered(c *call.Call) bool {
	m := c.Measures
	return m != nil && (m.HTTPStatus > 0 || m.Sent > 0 && (c.Failure == tool.ToolError || c.Failure == tool.JSONRPCError))
}

func presentBody(content []byte, limits hostile.Limits) (b *view.Body, folded bool) {
	b = &view.Body{Bytes: len(content)}
	if !utf8.Valid(content) {
		sum := sha256.Sum256(content)
		b.SHA256 = hex.EncodeToString(sum[:])
		return b, false
	}
	if hostile.IsJSON(content) {
		if pretty, err := hostile.ReadPretty(content, limits); err == nil {
			b.Pretty = &pretty
			return b, pretty.Folded
		}
	}
	value := hostile.Fold(string(content), limits)
	b.Text = &value
	return b, value.Cut != nil
}

// presentBefore previews the changes of a call, or shows why they cannot be previewed.
func presentBefore(s *subject, o *tool.Outgoing, state *tool.State, failure text.Message) *view.Before {
	if !failure.IsZero() {
		return &view.Before{Failure: failure}
	}
	b := &view.Before{URL: hostile.Fold(state.Request.URL, hostile.Brief()), Status: state.Status, Cut: state.Cut, Deletion: o.Method == http.MethodDelete}
	switch {
	case state.Status == http.StatusNotFound || state.Status == http.StatusGone:
		b.Gone = true
		return b
	case state.Status < 200 || state.Status > 299:
		b.Failure = text.ReviewBeforeStatus(present.HTTPStatusWords(state.Status))
		return b
	}
	limits := hostile.Folded()
	limits.Secrets = s.secrets
	if !b.Cut && !b.Deletion {
		after, how, err := jsonobject.Change(o, state.Body)
		b.Ambiguous = errors.Is(err, jsontext.ErrDuplicateName)
		if err == nil {
			if diff, err := hostile.ReadDiff(state.Body, after, limits); err == nil {
				b.Diff, b.Change = &diff, how
				return b
			}
		}
	}
	b.Body, _ = presentBody(state.Body, limits)
	return b
}
