package present_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/present"
)

// TestGateOutcomes: of a call that its caller executes, pages never say that Holdpoint sent it.
func TestGateOutcomes(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]call.Call{
		"released to its caller when":      {Status: call.Approved},
		"has not reported the outcome yet": {Status: call.Executing},
		"reported that it executed":        {Status: call.Succeeded},
		"The outcome was not reported":     {Status: call.Unknown, Code: call.CodeNotReported},
		"did not execute":                  {Status: call.Failed, Code: call.CodeNotRun, Failure: tool.TransportFailure},
		"reported an error":                {Status: call.Failed, Failure: tool.ToolError, Effect: tool.EffectPossible},
	} {
		c.GateOnly = true
		if got := present.DescribeOutcome(&c).String(); !strings.Contains(got, want) || strings.Contains(got, "sent") {
			t.Errorf("%s: %q, want %q", c.Status, got, want)
		}
	}
	if by := present.ExecutedBy(&call.Call{GateOnly: true, Host: "evil\u202e" + strings.Repeat("x", 100)}); strings.Contains(by, "\u202e") || len(by) > 100 {
		t.Errorf("the host: %q", by)
	}
}
