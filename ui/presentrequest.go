package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// presentRequest is the request of a call to an HTTP API; nil: it is none.
func presentRequest(s *subject, o *tool.Outgoing, a view.Arguments) *view.Request {
	if o == nil {
		return nil
	}
	v := &view.Request{
		Method: o.Method, Hidden: a.Secrets > 0 && !a.Revealed,
		Sent: s.call.Status.Final() && !unsent(s.call.Status) || s.call.Status == call.Executing,
	}
	if s.approval != nil && s.approval.Status == approval.Pending && s.definition != nil && s.definition.Previewed() && !v.Hidden {
		v.BeforeURL = callURL(s.call.ID) + "/before"
	}
	if v.Hidden {
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

func unsent(status call.Status) bool {
	switch status {
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
		if after, whole, ok := changedBy(o, state.Body); ok {
			if diff, err := hostile.ReadDiff(state.Body, after, limits); err == nil {
				b.Diff, b.Whole = &diff, whole
				return b
			}
		}
	}
	b.Body, _ = presentBody(state.Body, limits)
	return b
}

// changedBy is what a request makes of the JSON object that is there: all of it for a PUT, the members that it names for a PATCH
// (RFC 7396, which plain JSON mostly means too). Members stand in the order that they have now.
func changedBy(o *tool.Outgoing, present []byte) (after []byte, whole, ok bool) {
	media := ""
	for _, h := range o.Headers {
		if strings.EqualFold(h.Name, "Content-Type") {
			media, _, _ = strings.Cut(strings.ToLower(h.Value), ";")
		}
	}
	media = strings.TrimSpace(media)
	if media != "application/json" && media != "application/merge-patch+json" || o.Method != http.MethodPut && o.Method != http.MethodPatch {
		return nil, false, false
	}
	after, ok = merged(present, o.Body, o.Method == http.MethodPatch, 0)
	return after, o.Method == http.MethodPut, ok
}

const maxMerged = 32 // levels

// merged puts the members of one object in the place of those of another; keep: what the second does not name stays.
func merged(present, change []byte, keep bool, depth int) ([]byte, bool) {
	now, err := membersOf(present)
	if err != nil || depth > maxMerged {
		return nil, false
	}
	wanted, err := membersOf(change)
	if err != nil {
		return nil, false
	}
	of := make(map[string]member, len(wanted))
	for _, w := range wanted {
		of[string(w.name)] = w
	}
	var list []member
	for _, m := range now {
		w, named := of[string(m.name)]
		delete(of, string(m.name))
		switch {
		case !named && keep:
			list = append(list, m)
		case named && (!keep || string(w.value) != "null"):
			if inner, ok := merged(m.value, w.value, keep, depth+1); ok {
				w.value = inner
			}
			list = append(list, w)
		}
	}
	for _, w := range wanted {
		if _, added := of[string(w.name)]; added && (!keep || string(w.value) != "null") {
			list = append(list, w)
		}
	}
	return object(list), true
}
