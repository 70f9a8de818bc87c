package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// presentRequest is the request of a call to an HTTP API; nil: it is none.
// maskedURL is its URL where the rest of it is hidden.
func presentRequest(s *subject, o *tool.Outgoing, a view.Arguments, maskedURL string) *view.Request {
	if o == nil {
		return nil
	}
	v := &view.Request{
		Method: o.Method, Hidden: hidesRequest(a),
		Sent: s.call.Status.Final() && !unsent(&s.call) || s.call.Status == call.Executing, Unsent: unsent(&s.call),
	}
	if s.approval != nil && s.approval.Status == approval.Pending && s.definition != nil && s.definition.Previewed() && !v.Hidden {
		v.BeforeURL = callURL(s.call.ID) + "/before"
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

// hidesRequest reports whether a request is hidden with the secrets among its arguments. Whoever edited them knows them all.
func hidesRequest(a view.Arguments) bool { return a.Secrets > 0 && !a.Revealed && !a.Fixed }

// unsent reports whether a call ended without its request: undecided, refused, or for want of a server that could be reached.
func unsent(c *call.Call) bool {
	switch c.Status {
	case call.Failed:
		return c.Effect == tool.EffectNone && (c.Measures == nil || c.Measures.HTTPStatus == 0)
	case call.Rejected, call.Expired, call.Cancelled, call.Denied, call.Invalid:
		return true
	default:
		return false
	}
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
	text := hostile.Fold(string(content), limits)
	b.Text = &text
	return b, text.Cut != nil
}

// presentBefore is what the call would change. failure is why that cannot be told.
func presentBefore(s *subject, o *tool.Outgoing, state *tool.State, failure string) *view.Before {
	if failure != "" {
		return &view.Before{Failure: failure}
	}
	b := &view.Before{URL: hostile.Fold(state.Request.URL, hostile.Brief()), Status: state.Status, Cut: state.Cut, Deletion: o.Method == http.MethodDelete}
	switch {
	case state.Status == http.StatusNotFound || state.Status == http.StatusGone:
		b.Gone = true
		return b
	case state.Status < 200 || state.Status > 299:
		b.Failure = strings.TrimSpace(fmt.Sprintf("the server answered HTTP %d %s", state.Status, http.StatusText(state.Status))) + "."
		return b
	}
	limits := hostile.Folded()
	limits.Secrets = s.secrets()
	if !b.Cut && !b.Deletion {
		after, how, err := changedBy(o, state.Body)
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
