package mcpserver_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/file"
)

// A file that cannot be attached is an error of the request, with a pointer to the argument.
func TestAttachmentsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.calls.submitErr = fmt.Errorf("submit: %w", &file.AttachmentError{Pointer: "/attachments/0/file_id", Expected: "must be the id of a file"})
	got := b.post(callBody("1", "echo", `{"attachments":[{"file_id":"x"}]}`), b.startSession()...)
	answer := decodeJSON(t, got.body)
	if got.status != http.StatusOK || memberAt(answer, "error", "code") != -32602.0 ||
		memberAt(answer, "error", "message") != "/params/arguments/attachments/0/file_id: must be the id of a file" ||
		memberAt(answer, "error", "data", "pointer") != "/params/arguments/attachments/0/file_id" {
		t.Errorf("%d %s", got.status, got.body)
	}
}
