package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// verdict is a reviewer's key for a call, and the expected result.
type verdict struct {
	tool   string
	press  func(d *desk, n int)
	status string
	sent   func(n int) string // arguments that the server gets; nil: the agent's
}

func noteOf(n int) string { return fmt.Sprintf("call %d", n) }

// listVerdicts returns the verdicts, which are used in turn.
func listVerdicts() []verdict {
	return []verdict{
		{tool: "record", press: pressApprove, status: "approved"},
		{tool: "record", press: pressReject, status: "rejected"},
		{tool: "record", press: pressEdit, status: "approved", sent: func(n int) string { return callArguments(n, fmt.Sprintf("by hand %d", n)) }},
		{tool: "record", press: pressMoreTime, status: "approved"},
		{tool: "remove", press: pressTwice, status: "approved"},
	}
}

func pressApprove(d *desk, n int) {
	d.Press("a")
	d.WaitText("outcome", fmt.Sprintf("recorded %d", n))
}

func pressReject(d *desk, n int) {
	d.Press("r")
	d.WaitFor("the reason to have the focus", `document.activeElement?.id === "reason"`)
	d.Press(fmt.Sprintf("no %d", n))
	d.PressCtrlEnter()
	d.WaitText("decision", fmt.Sprintf("no %d", n))
}

func pressEdit(d *desk, n int) {
	d.Press("e")
	d.WaitFor("the editor to have the focus", `document.activeElement?.closest("#edit") !== null && document.activeElement?.value !== undefined`)
	d.WaitFor("the editor to take keys", armed)
	d.Press("\t") // from n to note, which is then fully selected
	d.WaitFor("the note to have the focus", `document.activeElement?.value?.startsWith("call ")`)
	d.Press(fmt.Sprintf("by hand %d\r", n))
	d.awaitStep("diff")
	d.WaitText("diff", fmt.Sprintf("by hand %d", n))
	d.Press("a")
	d.WaitText("sent-edited", fmt.Sprintf("by hand %d", n))
	d.WaitText("outcome", fmt.Sprintf("recorded %d", n))
}

const deadlineShown = `Number(document.querySelector("#call [data-deadline]").dataset.deadline)`

func pressMoreTime(d *desk, n int) {
	before := browsertest.Eval[float64](d.Page, deadlineShown)
	d.Press("h")
	d.WaitFor("a later deadline", fmt.Sprintf("%s > %f", deadlineShown, before))
	d.WaitFor("keys to work", armed)
	pressApprove(d, n)
}

func pressTwice(d *desk, n int) {
	d.Press("a")
	d.awaitStep("confirm")
	d.Press("a")
	d.WaitText("outcome", fmt.Sprintf("recorded %d", n))
}

// awaitNext moves to the next waiting call, and returns it once keys act on it.
func (d *desk) awaitNext(last string) string {
	d.t.Helper()
	d.Press("j")
	d.WaitFor("the next call, and keys to work", fmt.Sprintf(`(() => {
		const call = document.querySelector("#call"), row = document.querySelector("#rows > [data-hp-selected]");
		return call.dataset.phase === "parked" && call.dataset.call !== %q && row?.dataset.call === call.dataset.call && %s;
	})()`, last, armed))
	return browsertest.Eval[string](d.Page, `document.querySelector("#call").dataset.call`)
}

// TestReviewByKeyboard decides twenty calls of all kinds with keys only. Each call gets its own verdict.
func TestReviewByKeyboard(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	const total = 20
	plan, calls := listVerdicts(), make(map[string]int, total)
	for n := 1; n <= total; n++ {
		calls[w.parkCall(plan[n%len(plan)].tool, n, noteOf(n)).CallID] = n
	}
	ada := w.openReviewer(t, "ada", browsertest.Options{})
	ada.WaitFor("all calls", fmt.Sprintf(`document.querySelectorAll("[data-testid=row]").length === %d`, total))
	browsertest.Eval[bool](ada.Page, `(window.untouched = true)`)
	last, done := "", map[string]bool{}
	for range total {
		id := ada.awaitNext(last)
		n := calls[id]
		if n == 0 || done[id] {
			t.Fatalf("call %s, %d, is on the screen and waits", id, n)
		}
		ada.WaitText("arguments", noteOf(n))
		plan[n%len(plan)].press(ada, n)
		last, done[id] = id, true
	}
	ada.WaitFor("nothing to wait", `!document.title.startsWith("(")`)
	if !browsertest.Eval[bool](ada.Page, "window.untouched === true") {
		t.Error("the page was loaded again")
	}
	for id, n := range calls {
		w.wantVerdict(id, n, plan[n%len(plan)])
	}
}

// wantVerdict checks the result of a call.
func (w *journey) wantVerdict(id string, n int, v verdict) {
	w.t.Helper()
	w.checkDecided(id, v.status)
	call, err := operatorAPI(w.p).Call(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	sent, ends := callArguments(n, noteOf(n)), "succeeded"
	switch {
	case v.status == "rejected":
		sent, ends = "", "rejected"
		if call.Message != "no "+strconv.Itoa(n) {
			w.t.Errorf("call %d was rejected with %q", n, call.Message)
		}
	case v.sent != nil:
		sent = v.sent(n)
	}
	if call.Status != ends || call.Tool != v.tool {
		w.t.Errorf("call %d of %s is %s; want %s, of %s", n, call.Tool, call.Status, ends, v.tool)
	}
	w.wantSent(n, sent)
	events, err := holdpoint.List[holdpoint.Event](w.t.Context(), operatorAPI(w.p), "audit", "subject="+id)
	if err != nil {
		w.t.Fatal(err)
	}
	extended := slices.ContainsFunc(events, func(e holdpoint.Event) bool { return e.Action == "approval.extended" })
	if wanted := n%len(listVerdicts()) == 3; extended != wanted {
		w.t.Errorf("call %d: more time was given: %t, want %t", n, extended, wanted)
	}
}
