package ui_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

const (
	fiftyCalls = 50
	mostKeys   = 80 // for all of them
)

// parkFifty parks 45 ordinary calls and 5 unusual ones.
func (w *world) parkFifty() []uuid.UUID {
	w.t.Helper()
	arguments := func(n, amount int) string {
		return fmt.Sprintf(`{"filename":"/srv/shared/report-%d.csv","amount":%d,"note":"as every week"}`, n, amount)
	}
	w.sendApproved("files__save_csv", arguments(1001, 100), arguments(1002, 150), arguments(1003, 400))
	ids := make([]uuid.UUID, fiftyCalls)
	for i := range ids {
		amount := 110 + i
		if i%10 == 9 {
			amount = 9000 + i
		}
		ids[i] = w.submit(uuid.Nil, "files__save_csv", arguments(i, amount))
	}
	w.delayDeadlines()
	return ids
}

// clearFifty approves all calls by one action each, and returns the number of actions.
func (w *world) clearFifty(p *browsertest.Page, ids []uuid.UUID, act func()) (actions int) {
	w.t.Helper()
	for range ids {
		p.WaitFor("a pending call", `document.querySelector("#call")?.dataset.phase === "parked"`)
		p.WaitFor("actions to work", armed)
		shown := browsertest.Eval[string](p, `document.querySelector("#call").dataset.call`)
		act()
		actions++
		eventually.Holds(w.t, "the decision", func() bool { return w.getApproval(uuid.MustParse(shown)).Status == approval.Approved })
		p.WaitFor("another call, or the end", fmt.Sprintf(`document.querySelector("#call")?.dataset.call !== %q || document.querySelector("#call").dataset.phase !== "parked"`, shown))
	}
	for _, id := range ids {
		if a := w.getApproval(id); a.Status != approval.Approved || a.Seen == nil || a.Seen.Rows != a.Seen.Of {
			w.t.Errorf("%s is %s, seen %+v", id, a.Status, a.Seen)
		}
	}
	return actions
}

func TestFiftyCallsByKeyboard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := w.parkFifty()
	p := w.signInWith(browsertest.Options{})
	p.WaitFor("the rows", fmt.Sprintf(`document.querySelectorAll("#rows > .row").length === %d`, fiftyCalls))
	ready(p)
	p.Press("j")
	if keys := 1 + w.clearFifty(p, ids, func() { p.Press("a") }); keys > mostKeys {
		t.Errorf("%d keys, at most %d", keys, mostKeys)
	}
	unusual := 0
	for _, id := range ids {
		unusual += w.getApproval(id).Seen.Unusual
	}
	if unusual != 5 {
		t.Errorf("%d unusual values were recorded, want 5", unusual)
	}
	noComplaints(t, p)
}

func TestFiftyCallsOnAPhone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := w.parkFifty()
	p := w.signInWith(browsertest.Phone())
	p.TapOn("#row-" + ids[0].String() + " a")
	if taps := 1 + w.clearFifty(p, ids, func() { p.Tap("approve") }); taps > mostKeys {
		t.Errorf("%d taps, at most %d", taps, mostKeys)
	}
	noComplaints(t, p)
}
