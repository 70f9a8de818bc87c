package rules

import (
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
)

// presentReplay presents the judgement of a rule on recorded calls.
func presentReplay(found *call.Replay) *Replay {
	v := &Replay{
		Judged: found.Judged, Since: found.Since, Complete: found.Complete, Matched: found.Matched, Failed: found.Failed, Differ: found.Differing, Rejected: found.Rejected,
	}
	for i := range found.Differences {
		d := &found.Differences[i]
		one := newRuledCall(d.CallID, d.Skill, d.Tool)
		one.Agent, one.At, one.Failure = d.Agent, d.CreatedAt, d.Failure
		one.Was, one.WouldBe, one.Decision = describeAction(d.Before), describeAction(d.After), describeDecision(d.Decision)
		v.Calls = append(v.Calls, one)
	}
	return v
}

// presentShadow presents what a rule in shadow mode would have done, beside what people decided.
func presentShadow(record *call.ShadowRecord) *Shadow {
	v := &Shadow{Since: record.Since, Bounded: !record.Complete, Matched: record.Matched, Failed: record.Failed, AllRejected: record.Outcomes[0].Rejected}
	for _, o := range record.Outcomes {
		row := ShadowRow{Action: describeAction(o.Action)}
		for _, n := range []int{o.Calls, o.Approved, o.Edited, o.Rejected, o.Expired, o.Cancelled, o.Waiting, o.NotAsked} {
			row.Counts = append(row.Counts, text.Number(n))
		}
		v.Rows = append(v.Rows, row)
	}
	for i := range record.Rejected {
		c := &record.Rejected[i]
		one := newRuledCall(c.ID, c.Skill, c.Tool)
		one.Agent, one.At = c.Agent, c.CreatedAt
		v.Rejected = append(v.Rejected, one)
	}
	return v
}

// shadowColumns are the titles of the counts in a [ShadowRow].
func shadowColumns() []text.Message {
	return []text.Message{
		text.RulesShadowCalls(), text.RulesShadowApproved(), text.RulesShadowEdited(), text.RulesShadowRejectedCount(), text.RulesShadowExpired(), text.RulesShadowCancelled(),
		text.RulesShadowWaiting(), text.RulesShadowNotAsked(),
	}
}

func newRuledCall(id uuid.UUID, skill, tool string) RuledCall {
	return RuledCall{URL: present.CallURL(id), Call: skill + ": " + tool}
}

func describeAction(a approval.Action) text.Message {
	switch a {
	case approval.Allow:
		return text.RulesAllowed()
	case approval.Park:
		return text.RulesWaits()
	case approval.Deny:
	}
	return text.RulesDenied()
}

func describeDecision(s approval.Status) text.Message {
	switch s {
	case approval.Approved:
		return text.RulesShadowApproved()
	case approval.Rejected:
		return text.RulesShadowRejectedCount()
	case approval.Expired:
		return text.RulesShadowExpired()
	case approval.Cancelled:
		return text.RulesShadowCancelled()
	case approval.Pending:
		return text.RulesShadowWaiting()
	}
	return text.RulesNoDecision()
}
