package ui_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestTimingOfACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`), Exchange: tool.Exchange{
			Status: 404, Sent: 999, Received: 1_234_567,
			Steps: []tool.Step{{Name: "resolve", Took: 12 * time.Microsecond}, {Name: "call", Took: 1840 * time.Millisecond}},
		}}, nil
	})
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	if part := v.get(callPath(id)).find("timing"); part.Length() != 0 {
		t.Errorf("a call that was not sent has times: %s", part.Text())
	}
	form := v.get(callPath(id)).form("decide")
	form.Set("reason", "")
	v.post(callPath(id)+"/approve", form)
	w.waitForEnd(id)
	part := v.get(callPath(id)).find("timing")
	words := strings.Join(strings.Fields(part.Text()), " ")
	for _, want := range []string{
		"HTTP status 404 Not Found, 999 bytes sent, 1.2 MB received.", "Validate", "Resolve12 µs", "Call1.8 s", "Log",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("the times do not say %q: %s", want, words)
		}
	}
	if strings.Contains(words, "Transform") {
		t.Errorf("a step that was not taken has a time: %s", words)
	}
}
