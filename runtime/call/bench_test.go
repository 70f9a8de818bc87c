package call_test

import (
	"testing"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// BenchmarkAutoApproved measures a call's way through the gate without a skill server.
func BenchmarkAutoApproved(b *testing.B) {
	w := newWorld(b)
	sub := w.newSubmission("open__echo", `{"message":"sixty-four bytes of arguments are what the other figures have"}`)
	b.ReportAllocs()
	for b.Loop() {
		ticket, err := w.calls.Submit(b.Context(), sub)
		check(b, err)
		c, err := w.calls.Wait(b.Context(), ticket.ID, call.Listener{})
		check(b, err)
		if c.Status != call.Succeeded {
			b.Fatalf("call ended as %s", c.Status)
		}
	}
}
