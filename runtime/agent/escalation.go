package agent

import (
	"strings"

	"github.com/holdpoint/holdpoint/approval"
)

// EscalationStep is a step of the escalation of calls that wait.
type EscalationStep = approval.EscalationStep

// normalizeEscalation returns nil for no steps.
func normalizeEscalation(steps []EscalationStep) []EscalationStep {
	if len(steps) == 0 {
		return nil
	}
	return steps
}

// listEscalation lists the steps as one field.
func listEscalation(steps []EscalationStep) []field {
	var list fieldList
	list.add("escalation", strings.ReplaceAll(approval.FormatEscalation(steps), "\n", "; "))
	return list
}

// checkEscalation validates steps, and refuses an escalation to the team that is asked first.
func (r report) checkEscalation(team, escalateTo string, steps []EscalationStep) {
	r.check(escalateTo == "" || escalateTo != team, "escalate_to", "must differ from team")
	r.check(escalateTo == "" || len(steps) == 0, "escalate_to", "must be left out if there is an escalation")
	approval.CheckEscalation(steps, func(path, expected string) { r.add("escalation"+path, expected) })
}
