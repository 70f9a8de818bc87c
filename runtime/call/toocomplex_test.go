package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// triplingTool has a schema whose validation cost triples with each level of the arguments and results.
const triplingTool = `{"name":"tree","inputSchema":{"type":"object","allOf":[{"$ref":"#/$defs/n"}],"$defs":{"n":{"required":["q"],"properties":{"x":{"anyOf":[
	{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}},
	"outputSchema":{"type":"object","allOf":[{"$ref":"#/$defs/n"}],"$defs":{"n":{"required":["q"],"properties":{"x":{"anyOf":[
	{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}}}`

func TestTooComplexArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Offer(triplingTool)
	deep := strings.Repeat(`{"x":`, 33) + `{"q":1}` + strings.Repeat(`}`, 33)
	ticket := w.submit("files__tree", deep)
	if c := w.waitForEnd(ticket.ID); c.Status != call.Invalid || c.Code != call.CodeTooComplex || !strings.Contains(c.Message, "too complex to check") {
		t.Errorf("call ended as %s, %s: %q", c.Status, c.Code, c.Message)
	}
	// A reviewer's arguments have the same limit.
	parked, err := w.calls.Get(t.Context(), call.Viewer{}, w.submit("files__tree", `{"q":1}`).ID)
	check(t, err)
	var refused *call.EditError
	if _, err := w.calls.CheckEdit(t.Context(), &parked, []byte(deep)); !errors.As(err, &refused) || !strings.Contains(err.Error(), "too complex to check") {
		t.Errorf("edit: %v, want an *EditError", err)
	}
	// A result that is too complex is a protocol failure.
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		return tool.Result{Raw: json.RawMessage(`{"content":[],"structuredContent":` + deep + `}`)}, nil
	})
	if c := w.waitForEnd(w.submit("open__tree", `{"q":1}`).ID); c.Code != string(tool.ProtocolFailure) || !strings.Contains(c.Message, "too complex to check") {
		t.Errorf("result: %s, %s: %q", c.Status, c.Code, c.Message)
	}
	// A cancelled request records nothing.
	over, cancel := context.WithCancel(t.Context())
	sub := w.newSubmission("open__tree", deep)
	cancel()
	if _, err := w.calls.Submit(over, sub); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want a context error", err)
	}
}
