package call_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/evidence"
)

// A waiting call is compared with the calls that were approved and sent, and with no others.
func TestEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	judge := func(arguments string) evidence.Entry {
		t.Helper()
		ticket := w.submit("files__write", arguments)
		c, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID)
		check(t, err)
		entries, err := w.calls.ReadEvidence(t.Context(), &c)
		check(t, err)
		if len(entries) != 1 {
			t.Fatalf("%d entries for %s", len(entries), arguments)
		}
		check(t, w.decide(ticket.ID, false))
		return entries[0]
	}
	if e := judge(`{"n":1000}`); e.Verdict != evidence.NoHistory || e.Calls != 0 {
		t.Errorf("without approved calls: %+v", e)
	}
	for n := range 3 {
		ticket := w.submit("files__write", fmt.Sprintf(`{"n":%d}`, n))
		check(t, w.decide(ticket.ID, true))
		w.waitForEnd(ticket.ID)
		check(t, w.calls.MarkDelivered(t.Context(), ticket.ID)) // or the same call would attach to this one
	}
	if e := judge(`{"n":2}`); e.Verdict != evidence.Usual || e.Same != 1 || e.Calls != 3 {
		t.Errorf("a usual value: %+v", e)
	}
	if e := judge(`{"n":1001}`); !slices.Equal(e.Reasons, []evidence.Reason{evidence.AboveRange}) {
		t.Errorf("an unusual value: %+v", e)
	}
	w.db.MoveClock("91 days")
	if e := judge(`{"n":1002}`); e.Verdict != evidence.NoHistory {
		t.Errorf("after 91 days: %+v", e)
	}
}
