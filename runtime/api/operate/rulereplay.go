package operate

import (
	"context"
	"time"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// RuleReplay is the judgement of a rule on recorded calls.
type RuleReplay struct {
	Judged      int              `json:"judged" doc:"The recorded calls in the rule's scope that were judged, at most 100,000, the newest ones."`
	Matched     int              `json:"matched" doc:"Of these, those for which the condition holds."`
	Failed      int              `json:"failed" doc:"Those for which it cannot be evaluated."`
	Since       *time.Time       `json:"since" doc:"When the oldest judged call was made; null: none was judged."`
	Complete    bool             `json:"complete" doc:"Whether all recorded calls were considered."`
	Differing   int              `json:"differing" doc:"Calls with another verdict than they got."`
	Rejected    int              `json:"rejected" doc:"Of these, calls that a reviewer rejected."`
	Differences []RuleDifference `json:"differences" nullable:"false" doc:"At most 200 of each: calls that a reviewer rejected first, then by time, the newest first."`
}

// RuleDifference is a call whose verdict would have been another one.
type RuleDifference struct {
	CallID    string    `json:"call_id" format:"uuid"`
	Agent     string    `json:"agent"`
	Skill     string    `json:"skill"`
	Tool      string    `json:"tool"`
	CreatedAt time.Time `json:"created_at"`
	Before    string    `json:"before" enum:"allow,park,deny"`
	After     string    `json:"after" enum:"allow,park,deny"`
	Decision  *string   `json:"decision" doc:"How the approval ended; null: the call was not parked."`
	Failure   *string   `json:"failure" doc:"Why the condition cannot be evaluated."`
}

type replayRuleInput struct {
	Body struct {
		Name string `json:"name" doc:"The rule of this name is left out, as if it were replaced."`
		RuleText
	} `nameHint:"RuleReplayRequest"`
}

func (h *ruleHandlers) replayRule(ctx context.Context, input *replayRuleInput) (*rest.Output[RuleReplay], error) {
	spec := input.Body.spec(input.Body.Name)
	if err := h.Agents.CheckSpec(spec); err != nil {
		return nil, rest.InPart("body", err)
	}
	found, err := h.calls.ReplayRule(ctx, spec)
	if err != nil {
		return nil, err
	}
	view := RuleReplay{
		Judged: found.Judged, Matched: found.Matched, Failed: found.Failed, Since: rest.UTCOrNull(found.Since), Complete: found.Complete,
		Differing: found.Differing, Rejected: found.Rejected, Differences: make([]RuleDifference, len(found.Differences)),
	}
	for i, d := range found.Differences {
		view.Differences[i] = newRuleDifference(&d)
	}
	return rest.NewOutput(view), nil
}

func newRuleDifference(d *call.Difference) RuleDifference {
	return RuleDifference{
		CallID: d.CallID.String(), Agent: d.Agent, Skill: d.Skill, Tool: d.Tool, CreatedAt: d.CreatedAt.UTC(),
		Before: nameAction(d.Before), After: nameAction(d.After), Decision: rest.OrNull(string(d.Decision)), Failure: rest.OrNull(d.Failure),
	}
}

func nameAction(a approval.Action) string {
	switch a {
	case approval.Allow:
		return string(rule.Allow)
	case approval.Park:
		return string(rule.Park)
	case approval.Deny:
	}
	return string(rule.Deny)
}
