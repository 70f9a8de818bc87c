package e2e_test

import (
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
)

// checkCalls compares the API with the reviewers' responses and the calls that reached the skill server.
func (c *chaos) checkCalls(calls []holdpoint.Call) {
	c.t.Helper()
	if len(calls) != len(c.parked) {
		c.t.Errorf("there are %d calls, want %d", len(calls), len(c.parked))
	}
	arrivals := c.counting.All()
	count := map[string]int{}
	for _, call := range calls {
		n := argumentN(call.Arguments)
		count[call.Status]++
		if told := c.said[call.ID]; len(told) != 1 || !told[decisionOf(call)] {
			c.t.Errorf("call %s is %s, and reviewers were told %v", n, call.Status, told)
		}
		switch arrived := arrivals[n]; {
		case call.Status == "succeeded" && arrived == 1:
		case call.Status == "unknown" && arrived <= 1:
		case call.Status == "rejected" && arrived == 0:
		default:
			c.t.Errorf("call %s is %s (%s) and arrived %d times", n, call.Status, call.Message, arrived)
		}
	}
	c.t.Logf("calls: %v", count)
}

// decisionOf returns the decision that a call's status implies.
func decisionOf(call holdpoint.Call) string {
	if call.Status == "rejected" {
		return "rejected"
	}
	return "approved"
}

// checkAudit compares each call's audit events with its end.
func (c *chaos) checkAudit(calls []holdpoint.Call) {
	c.t.Helper()
	events, err := holdpoint.List[holdpoint.Event](c.t.Context(), operatorAPI(c.serverAt(1)), "audit", "")
	if err != nil {
		c.t.Fatal(err)
	}
	story := map[string][]string{}
	for _, e := range slices.Backward(events) { // oldest first
		if strings.HasPrefix(e.Action, "call.") || strings.HasPrefix(e.Action, "approval.") {
			story[e.Subject] = append(story[e.Subject], e.Action)
		}
	}
	for _, call := range calls {
		want := "call.parked approval.approved call.executing call." + call.Status
		if call.Status == "rejected" {
			want = "call.parked approval.rejected"
		}
		// A claim whose commit got no answer was given back.
		if got := strings.ReplaceAll(strings.Join(story[call.ID], " "), " call.executing call.given_back", ""); got != want {
			c.t.Errorf("call %s is %s; the audit says %s", call.ID, call.Status, got)
		}
	}
}
