package review

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// CallPolicy is a policy that a call has to meet, in the version of the call, with its progress.
type CallPolicy struct {
	Name         string                `json:"name"`
	Revision     int64                 `json:"revision"`
	Met          bool                  `json:"met"`
	Rejections   int                   `json:"rejections" doc:"The number of people whose rejections end the call."`
	BreakGlass   bool                  `json:"break_glass" doc:"Whether one reviewer may approve alone, with a reason."`
	Alternatives []AlternativeProgress `json:"any" nullable:"false" doc:"One of them has to be met."`
}

// AlternativeProgress is how far an alternative of a policy is met.
type AlternativeProgress struct {
	Missing int            `json:"missing" doc:"Approvals that it still needs."`
	Lines   []LineProgress `json:"all" nullable:"false"`
}

// LineProgress is how far a line of an alternative is met.
type LineProgress struct {
	Count  int                `json:"count"`
	Teams  []string           `json:"teams" nullable:"false"`
	People []string           `json:"people" nullable:"false"`
	By     []*rest.PersonName `json:"by" nullable:"false" doc:"The people whose approvals count for it."`
}

// Vote is what a reviewer said about a call with policies.
type Vote struct {
	By       string           `json:"by"`
	ByPerson *rest.PersonName `json:"by_person"`
	Approves bool             `json:"approves"`
	At       time.Time        `json:"at"`
	Note     string           `json:"note"`
	Counts   bool             `json:"counts" doc:"False: it was taken back, is about other arguments or another version of the policy, or the person may not vote any more."`
}

// PolicyShortage is a line of a policy that too few people can meet.
type PolicyShortage struct {
	Policy string `json:"policy"`
	Needs  string `json:"needs" doc:"The line in its plain form, such as 2 of finance."`
	Able   int    `json:"able" doc:"How many reviewers could approve for it."`
}

// GlassReview is the later review of an approval that one person gave alone.
type GlassReview struct {
	By       string           `json:"by"`
	ByPerson *rest.PersonName `json:"by_person"`
	At       time.Time        `json:"at"`
	Note     string           `json:"note"`
}

// addVotes adds the policies of an approval, and the votes, to its view.
func (h *approvalHandlers) addVotes(ctx context.Context, a *approval.Approval, view *Approval) error {
	tallies, err := h.calls.Tallies(ctx, a)
	if err != nil {
		return err
	}
	t := tallies[a.CallID]
	if t == nil {
		return nil
	}
	var people []uuid.UUID
	for i := range t.Votes {
		people = append(people, t.Votes[i].By)
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return err
	}
	for i := range a.Policies {
		view.Policies = append(view.Policies, newCallPolicy(&a.Policies[i], t, names))
	}
	for i := range t.Votes {
		v := &t.Votes[i]
		view.Votes = append(view.Votes, Vote{
			By: names.NameOf(v.By), ByPerson: names.RefOf(v.By), Approves: v.Approves, At: v.At.UTC(), Note: v.Note, Counts: t.Counts(a, v),
		})
	}
	return nil
}

func newCallPolicy(p *policy.Policy, t *call.Tally, names rest.PersonNames) CallPolicy {
	view := CallPolicy{
		Name: p.Name, Revision: p.Revision, Met: p.IsMet(t.Voters), Rejections: policy.CountRejections([]policy.Policy{*p}), BreakGlass: p.BreakGlass,
	}
	for _, progress := range p.Measure(t.Voters) {
		alternative := AlternativeProgress{Missing: progress.Missing()}
		for i := range progress.Lines {
			line := &progress.Lines[i]
			by := make([]*rest.PersonName, len(line.By))
			for j, person := range line.By {
				by[j] = names.RefOf(person)
			}
			alternative.Lines = append(alternative.Lines, LineProgress{line.Count, rest.OrEmpty(line.Teams), rest.OrEmpty(line.People), by})
		}
		view.Alternatives = append(view.Alternatives, alternative)
	}
	return view
}

// withdrawVote takes the caller's vote back.
func (h *approvalHandlers) withdrawVote(ctx context.Context, input *rest.ByID) (*rest.Output[Approval], error) {
	id, err := rest.ParseID("approval", input.ID)
	if err != nil {
		return nil, err
	}
	undone, err := h.calls.Undo(ctx, id, rest.CallerOf(ctx).PersonID())
	switch {
	case errors.Is(err, approval.ErrNoVote), errors.Is(err, approval.ErrNotDecider), errors.Is(err, approval.ErrTooLate):
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "there is no vote of yours that can be taken back")
	case err != nil:
		return nil, rest.WithName(err, "approval", input.ID)
	}
	return h.approvalView(ctx, undone)
}

type reviewGlassInput struct {
	rest.ByID
	Body *struct {
		Note string `json:"note,omitempty" maxLength:"4000"`
	} `nameHint:"BreakGlassReview"`
}

// reviewGlass records that the caller reviewed an approval that one person gave alone.
func (h *approvalHandlers) reviewGlass(ctx context.Context, input *reviewGlassInput) (*rest.Output[Approval], error) {
	id, err := rest.ParseID("approval", input.ID)
	if err != nil {
		return nil, err
	}
	note := ""
	if input.Body != nil {
		note = input.Body.Note
	}
	if err := rest.CheckStorable("body.note", note); err != nil {
		return nil, err
	}
	reviewed, err := h.calls.ReviewGlass(ctx, id, rest.CallerOf(ctx).PersonID(), note)
	if err != nil {
		return nil, rest.WithName(err, "approval", input.ID)
	}
	return h.approvalView(ctx, reviewed)
}
