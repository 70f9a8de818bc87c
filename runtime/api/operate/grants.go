package operate

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

type grantHandlers struct {
	*rest.Directory

	calls *call.Service
}

// Grant is a standing approval of calls like one that a person saw.
type Grant struct {
	ID        uuid.UUID        `json:"id" format:"uuid"`
	State     agent.GrantState `json:"state" enum:"active,waiting,used_up,ended,revoked,void" doc:"waiting: for a second person. void: its person lost the right to make it, the agent or the skill was deleted, or the tool has another definition."`
	Agent     string           `json:"agent"`
	Principal *rest.PersonName `json:"principal" doc:"Calls on behalf of this person; null: calls that name no person."`
	Skill     string           `json:"skill"`
	Tool      string           `json:"tool" doc:"The skill's own name for the tool."`
	Pin       string           `json:"pin" doc:"The digest of the tool's definition, in hex: calls of another definition do not match."`
	Arguments []GrantMatcher   `json:"arguments" nullable:"false" doc:"A call must have each of these arguments, and no other."`
	Sentence  string           `json:"sentence" doc:"The arguments in English."`
	CallID    *uuid.UUID       `json:"call_id" format:"uuid" doc:"The call that it was made from; null: it belongs to a plan."`
	PlanID    *uuid.UUID       `json:"plan_id" format:"uuid" doc:"The plan that it belongs to; null: none."`
	Wide      bool             `json:"wide" doc:"Whether it leaves an argument open."`
	Unused    bool             `json:"unused" doc:"Whether it was not used for three days."`
	GrantedAt time.Time        `json:"granted_at"`
	GrantedBy *rest.PersonName `json:"granted_by"`
	Second    bool             `json:"needs_second" doc:"Whether another person has to confirm it, because it allows a call that was rejected."`
	SecondAt  *time.Time       `json:"second_at"`
	SecondBy  *rest.PersonName `json:"second_by"`
	EndsAt    time.Time        `json:"ends_at"`
	Uses      *int64           `json:"uses" doc:"How many calls it allows; null: any number."`
	Taken     int64            `json:"taken" doc:"How many calls used it; only counted if uses is set."`
	UsedAt    *time.Time       `json:"used_at" doc:"The last use, to about a minute; null: never."`
	RevokedAt *time.Time       `json:"revoked_at"`
	RevokedBy *rest.PersonName `json:"revoked_by" doc:"Null: it was not revoked, or not by a known person."`
}

// GrantMatcher says which values of an argument a grant allows.
type GrantMatcher struct {
	Argument string            `json:"argument" doc:"The JSON pointer of an argument, or of a member of an object in one: /to, /items/0 is none."`
	Kind     grant.Kind        `json:"kind" enum:"exact,one_of,domain,path_below,prefix,range,anything" doc:"Of a list, domain, path_below, prefix and range compare each element."`
	Values   []json.RawMessage `json:"values,omitempty" doc:"One for exact, several for one_of; texts for domain, path_below and prefix."`
	Min      json.RawMessage   `json:"min,omitempty" doc:"Of a range: the least number."`
	Max      json.RawMessage   `json:"max,omitempty" doc:"Of a range: the greatest number."`
}

func newGrantMatchers(matchers []grant.Matcher) []GrantMatcher {
	views := make([]GrantMatcher, len(matchers))
	for i, m := range matchers {
		views[i] = GrantMatcher{m.Argument, m.Kind, m.Values, json.RawMessage(m.Min), json.RawMessage(m.Max)}
	}
	return views
}

func (h *grantHandlers) grantViews(ctx context.Context, grants ...agent.Grant) (func(agent.Grant) Grant, error) {
	var people []uuid.UUID
	for i := range grants {
		people = append(people, grants[i].PrincipalID, grants[i].GrantedBy, grants[i].SecondBy, grants[i].RevokedBy)
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	return func(g agent.Grant) Grant {
		return Grant{
			ID: g.ID, State: g.State, Agent: g.Agent, Principal: names.RefOf(g.PrincipalID), Skill: g.Skill, Tool: g.Tool, Pin: tool.Pin(g.Pin).String(),
			Arguments: newGrantMatchers(g.Arguments), Sentence: grant.Describe(g.Arguments), CallID: postgres.OrNull(g.CallID), PlanID: postgres.OrNull(g.PlanID), Wide: g.IsWide(), Unused: g.State == agent.GrantActive && g.Unused,
			GrantedAt: g.GrantedAt.UTC(), GrantedBy: names.RefOf(g.GrantedBy), Second: g.NeedsSecond, SecondAt: rest.UTCOrNull(g.SecondAt), SecondBy: names.RefOf(g.SecondBy),
			EndsAt: g.EndsAt.UTC(), Uses: g.Uses, Taken: g.Taken, UsedAt: rest.UTCOrNull(g.UsedAt), RevokedAt: rest.UTCOrNull(g.RevokedAt), RevokedBy: names.RefOf(g.RevokedBy),
		}
	}, nil
}

func (h *grantHandlers) oneGrant(ctx context.Context, g agent.Grant, err error) (*rest.Output[Grant], error) {
	return presentOne(ctx, g, err, h.grantViews)
}

type listGrantsInput struct {
	All bool `query:"all" doc:"Also those that have ended, are used up or were revoked."`
}

// listGrants has no pages: it lists the newest [agent.MaxListedGrants].
func (h *grantHandlers) listGrants(ctx context.Context, input *listGrantsInput) (*rest.ListOutput[Grant], error) {
	grants, err := h.Agents.ListGrants(ctx, !input.All)
	return presentAll(ctx, grants, err, h.grantViews)
}

func (h *grantHandlers) getGrant(ctx context.Context, input *rest.ByID) (*rest.Output[Grant], error) {
	id, err := rest.ParseID("grant", input.ID)
	if err != nil {
		return nil, err
	}
	g, err := h.Agents.GetGrant(ctx, id)
	return h.oneGrant(ctx, g, rest.WithName(err, "grant", input.ID))
}

// GrantText is what a request says about a grant.
type GrantText struct {
	CallID    string          `json:"call_id" format:"uuid" doc:"The call that it is made from."`
	Arguments *[]GrantMatcher `json:"arguments,omitempty" doc:"A call must have each of these arguments, and no other. Omitted: exactly the arguments of the call."`
}

func (t *GrantText) request() (call.GrantRequest, error) {
	id, err := rest.ParseID("call", t.CallID)
	r := call.GrantRequest{CallID: id}
	if t.Arguments == nil || err != nil {
		return r, err
	}
	matchers := make([]grant.Matcher, len(*t.Arguments))
	for i, m := range *t.Arguments {
		matchers[i] = grant.Matcher{Argument: m.Argument, Kind: m.Kind, Values: m.Values, Min: json.Number(m.Min), Max: json.Number(m.Max)}
	}
	r.Arguments = &matchers
	return r, nil
}

// GrantSuggestions are the grants that decisions suggest.
type GrantSuggestions struct {
	Items     []GrantSuggestion `json:"items" nullable:"false" doc:"Those that save most calls first; at most 200. They are up to 5 minutes old."`
	Decisions int               `json:"decisions" doc:"How many decisions of the last 30 days were read: the newest 100,000."`
	Since     *time.Time        `json:"since" doc:"The oldest of them; null: there were none."`
	Complete  bool              `json:"complete" doc:"Whether these are all decisions of the 30 days."`
}

// GrantSuggestion is a grant that would have let calls pass which reviewers approved, and none that they rejected or edited.
type GrantSuggestion struct {
	Reason    string           `json:"reason" doc:"Why it is suggested, in English."`
	CallID    uuid.UUID        `json:"call_id" format:"uuid" doc:"The newest of the calls. To make the grant, send this and arguments to POST grants."`
	Agent     string           `json:"agent"`
	Principal *rest.PersonName `json:"principal" doc:"Calls on behalf of this person; null: calls that name no person."`
	Skill     string           `json:"skill"`
	Tool      string           `json:"tool" doc:"The skill's own name for the tool."`
	Arguments []GrantMatcher   `json:"arguments" nullable:"false"`
	Sentence  string           `json:"sentence" doc:"The arguments in English."`
	Varying   []string         `json:"varying" nullable:"false" doc:"The arguments that were not the same in all calls."`
	Covered   int              `json:"covered" doc:"Approved calls that it would have let pass."`
	Approved  int              `json:"approved" doc:"Approved calls of this agent and tool on behalf of the same person."`
	Refused   int              `json:"refused" doc:"Rejected and edited calls of this agent and tool. The grant covers none of them."`
	Deciders  int              `json:"deciders" doc:"People who approved the covered calls."`
	First     time.Time        `json:"first" doc:"The first decision about a covered call."`
	Last      time.Time        `json:"last"`
}

func (h *grantHandlers) suggestGrants(ctx context.Context, _ *struct{}) (*rest.Output[GrantSuggestions], error) {
	found, err := h.calls.SuggestGrants(ctx)
	if err != nil {
		return nil, err
	}
	var people []uuid.UUID
	for i := range found.Found {
		people = append(people, found.Found[i].PrincipalID)
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	view := GrantSuggestions{Items: make([]GrantSuggestion, len(found.Found)), Decisions: found.Decisions, Since: rest.UTCOrNull(found.Since), Complete: found.Complete}
	for i := range found.Found {
		one := &found.Found[i]
		view.Items[i] = GrantSuggestion{
			Reason: one.Describe(one.Agent), CallID: one.CallID, Agent: one.Agent, Principal: names.RefOf(one.PrincipalID), Skill: one.Skill, Tool: one.Tool,
			Arguments: newGrantMatchers(one.Arguments), Sentence: grant.Describe(one.Arguments), Varying: append([]string{}, one.Varying()...),
			Covered: one.Covered, Approved: one.Approved, Refused: one.Refused, Deciders: one.Deciders, First: one.First.UTC(), Last: one.Last.UTC(),
		}
	}
	return rest.NewOutput(view), nil
}

type previewGrantInput struct {
	Body GrantText `nameHint:"GrantPreviewRequest"`
}

// GrantPreview says what a grant would allow.
type GrantPreview struct {
	Sentence  string          `json:"sentence" doc:"The arguments in English."`
	Arguments []GrantMatcher  `json:"arguments" nullable:"false"`
	Proposals []GrantProposal `json:"proposals" nullable:"false" doc:"The arguments of the call with the matchers that fit them."`
	Matching  int             `json:"matching" doc:"The recorded calls that it would have allowed: all that were rejected or are pending, and of the others those among the last 1,000."`
	Rejected  int             `json:"rejected" doc:"Those of them that a reviewer rejected."`
	Pending   int             `json:"pending" doc:"Those of them that wait. A grant does not decide them."`
	Second    bool            `json:"needs_second" doc:"Whether another person will have to confirm it."`
	Calls     []GrantMatch    `json:"calls" nullable:"false" doc:"At most 50 of them: rejected ones first, then pending ones, then the newest."`
}

// GrantProposal is an argument of a call with the matchers that fit it.
type GrantProposal struct {
	Argument string          `json:"argument"`
	Value    json.RawMessage `json:"value"`
	Matchers []GrantMatcher  `json:"matchers" nullable:"false" doc:"From the narrowest to the widest."`
}

// GrantMatch is a call that a grant would have allowed.
type GrantMatch struct {
	CallID    uuid.UUID       `json:"call_id" format:"uuid"`
	CreatedAt time.Time       `json:"created_at"`
	Decision  approval.Status `json:"decision" enum:"pending,approved,rejected,expired,cancelled"`
}

func (h *grantHandlers) previewGrant(ctx context.Context, input *previewGrantInput) (*rest.Output[GrantPreview], error) {
	asked, err := input.Body.request()
	if err != nil {
		return nil, err
	}
	p, err := h.calls.PreviewGrant(ctx, rest.CallerOf(ctx).PersonID(), asked)
	if err != nil {
		return nil, rest.InPart("body", rest.WithName(err, "call", input.Body.CallID))
	}
	view := GrantPreview{
		Sentence: grant.Describe(p.Arguments), Arguments: newGrantMatchers(p.Arguments), Proposals: make([]GrantProposal, len(p.Proposals)),
		Matching: p.Matching, Rejected: p.Rejected, Pending: p.Pending, Second: p.NeedsSecond, Calls: make([]GrantMatch, len(p.Matches)),
	}
	for i, one := range p.Proposals {
		view.Proposals[i] = GrantProposal{one.Argument, one.Value, newGrantMatchers(one.Matchers)}
	}
	for i, m := range p.Matches {
		view.Calls[i] = GrantMatch{m.CallID, m.CreatedAt.UTC(), m.Decision}
	}
	return rest.NewOutput(view), nil
}

type createGrantInput struct {
	Body struct {
		GrantText
		Time agent.Duration `json:"time,omitempty" doc:"How long it lasts: 8h, the default. At most the server's max_grant_time."`
		Uses *int64         `json:"uses,omitempty" doc:"How many calls it allows. Omitted: any number."`
	} `nameHint:"GrantRequest"`
}

func (h *grantHandlers) createGrant(ctx context.Context, input *createGrantInput) (*rest.Output[Grant], error) {
	asked, err := input.Body.request()
	if err != nil {
		return nil, err
	}
	asked.Time, asked.Uses = time.Duration(input.Body.Time), input.Body.Uses
	g, err := h.calls.Grant(ctx, rest.CallerOf(ctx).PersonID(), asked)
	return h.oneGrant(ctx, g, rest.InPart("body", rest.WithName(err, "call", input.Body.CallID)))
}

func (h *grantHandlers) confirmGrant(ctx context.Context, input *rest.ByID) (*rest.Output[Grant], error) {
	id, err := rest.ParseID("grant", input.ID)
	if err != nil {
		return nil, err
	}
	g, err := h.calls.ConfirmGrant(ctx, rest.CallerOf(ctx).PersonID(), id)
	return h.oneGrant(ctx, g, rest.WithName(err, "grant", input.ID))
}

func (h *grantHandlers) revokeGrant(ctx context.Context, input *rest.ByID) (*rest.Output[Grant], error) {
	id, err := rest.ParseID("grant", input.ID)
	if err != nil {
		return nil, err
	}
	g, err := h.Agents.RevokeGrant(ctx, rest.CallerOf(ctx).Actor(), id)
	return h.oneGrant(ctx, g, rest.WithName(err, "grant", input.ID))
}
