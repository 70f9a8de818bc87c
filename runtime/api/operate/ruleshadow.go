package operate

import (
	"time"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// RuleShadow is what a rule in shadow mode would have done with the calls that it matched, beside what people decided.
type RuleShadow struct {
	_        struct{}            `nullable:"true"`
	Since    time.Time           `json:"since" doc:"Older calls were not considered."`
	Complete bool                `json:"complete" doc:"Whether these are all calls since the rule says what it says. Otherwise they are the newest ones, at most 20,000."`
	Matched  int                 `json:"matched"`
	Failed   int                 `json:"failed" doc:"Of these, calls for which the condition could not be evaluated."`
	Outcomes []RuleShadowOutcome `json:"outcomes" nullable:"false" doc:"One for allow, park and deny each: what would have become of the calls."`
	Rejected []RuleShadowCall    `json:"rejected" nullable:"false" doc:"The calls that would have been allowed and that a reviewer rejected, the newest first, at most 100."`
}

// RuleShadowOutcome is what became of the calls with which a rule would have done the same.
type RuleShadowOutcome struct {
	Would     string `json:"would" enum:"allow,park,deny"`
	Calls     int    `json:"calls"`
	Approved  int    `json:"approved" doc:"Without edits."`
	Edited    int    `json:"edited" doc:"Approved with edits."`
	Rejected  int    `json:"rejected"`
	Expired   int    `json:"expired"`
	Cancelled int    `json:"cancelled"`
	Waiting   int    `json:"waiting"`
	NotAsked  int    `json:"not_asked" doc:"They needed no approval."`
}

// RuleShadowCall is a call that a rule in shadow mode matched.
type RuleShadowCall struct {
	CallID    string    `json:"call_id" format:"uuid"`
	Agent     string    `json:"agent"`
	Skill     string    `json:"skill"`
	Tool      string    `json:"tool"`
	CreatedAt time.Time `json:"created_at"`
}

func newRuleShadow(record *call.ShadowRecord) *RuleShadow {
	view := &RuleShadow{
		Since: record.Since.UTC(), Complete: record.Complete, Matched: record.Matched, Failed: record.Failed,
		Outcomes: []RuleShadowOutcome{}, Rejected: []RuleShadowCall{},
	}
	for _, o := range record.Outcomes {
		view.Outcomes = append(view.Outcomes, RuleShadowOutcome{
			Would: nameAction(o.Action), Calls: o.Calls, Approved: o.Approved, Edited: o.Edited, Rejected: o.Rejected, Expired: o.Expired, Cancelled: o.Cancelled,
			Waiting: o.Waiting, NotAsked: o.NotAsked,
		})
	}
	for i := range record.Rejected {
		c := &record.Rejected[i]
		view.Rejected = append(view.Rejected, RuleShadowCall{c.ID.String(), c.Agent, c.Skill, c.Tool, c.CreatedAt.UTC()})
	}
	return view
}
