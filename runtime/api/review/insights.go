package review

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
)

type insightHandlers struct {
	*rest.Directory

	figures *figures.Service
}

// Insights are figures of the calls made in a range of time, and of their approvals.
type Insights struct {
	From            time.Time       `json:"from" doc:"The start of the range, a whole hour."`
	To              time.Time       `json:"to" doc:"The end of the range (exclusive), a whole hour."`
	Bucket          string          `json:"bucket" enum:"hour,day,week" doc:"The length of an interval in the series, which depends on the range; days and weeks are in the zone."`
	BeforeFrom      time.Time       `json:"before_from" doc:"The range of the …_before figures: as long as the elapsed part of the range, and directly before it."`
	BeforeTo        time.Time       `json:"before_to"`
	Calls           CallFigures     `json:"calls"`
	CallsBefore     CallFigures     `json:"calls_before"`
	Approvals       ApprovalFigures `json:"approvals"`
	ApprovalsBefore ApprovalFigures `json:"approvals_before"`
	Series          []InsightBucket `json:"series" nullable:"false"`
	BySkill         []ApprovalShare `json:"by_skill" nullable:"false" doc:"Most approvals first."`
	ByTool          []ApprovalShare `json:"by_tool" nullable:"false"`
	ByRule          []ApprovalShare `json:"by_rule" nullable:"false"`
	ByPerson        []DeciderFigure `json:"by_person" doc:"Decisions by person, and how many took less than 3 seconds; null except for operators."`
	Unusual         UnusualFigures  `json:"unusual"`
	Hours           [][]int         `json:"hours" nullable:"false" doc:"Calls by weekday, Monday first, and hour, in the zone. Older calls are counted by hours in UTC: in a zone whose offset is no whole hour, those belong to the hour in which they begin."`
}

// CallFigures are numbers of calls.
type CallFigures struct {
	Total    int            `json:"total"`
	ByStatus map[string]int `json:"by_status" doc:"All statuses of a call."`
	Failures map[string]int `json:"failures" doc:"Failed calls by kind: tool_error, jsonrpc_error, transport, protocol, session_invalid."`
}

// ApprovalCounts are numbers of approvals by outcome.
type ApprovalCounts struct {
	Asked         int      `json:"asked"`
	Pending       int      `json:"pending"`
	Approved      int      `json:"approved"`
	Rejected      int      `json:"rejected"`
	Expired       int      `json:"expired"`
	Cancelled     int      `json:"cancelled"`
	ApprovedShare *float64 `json:"approved_share" doc:"The share of approved decisions, from 0 to 1; null if there were no decisions."`
	Fast          int      `json:"fast" doc:"Decisions in less than 3 seconds."`
}

// ApprovalFigures are figures of approvals asked for in a range.
type ApprovalFigures struct {
	ApprovalCounts
	Waiting  Spread `json:"waiting" doc:"From the request to its end."`
	Deciding Spread `json:"deciding" doc:"The time to decide: from the request, or from the person's previous decision if that was later, to the decision."`
}

// Spread says how long half, and nine tenths, took at most.
type Spread struct {
	Count int      `json:"count"`
	P50   *float64 `json:"p50_seconds" doc:"Null if there are none."`
	P90   *float64 `json:"p90_seconds"`
}

// InsightBucket is one part of the range.
type InsightBucket struct {
	From      time.Time       `json:"from"`
	To        time.Time       `json:"to"`
	Calls     map[string]int  `json:"calls" doc:"By status; statuses without calls are omitted."`
	Approvals ApprovalFigures `json:"approvals"`
}

// ApprovalShare counts the approvals with a common skill, tool or rule.
type ApprovalShare struct {
	Skill *string `json:"skill"`
	Tool  *string `json:"tool"`
	Rule  *string `json:"rule" doc:"Why the calls were parked: gated, high_risk, definition_changed, new_tool, rule_parked, rule_failed."`
	ApprovalCounts
}

// DeciderFigure is how one person decided.
type DeciderFigure struct {
	Person    rest.PersonName `json:"person"`
	Decisions int             `json:"decisions"`
	Fast      int             `json:"fast"`
}

// UnusualFigures are about decisions on calls with unusual values, as far as the dashboard measured them.
type UnusualFigures struct {
	ByTime   []UnusualTime     `json:"by_time" nullable:"false" doc:"Decisions by the time that the call was on the reviewer's screen."`
	ByPerson []UnusualReviewer `json:"by_person" doc:"Most decisions first; null except for operators."`
}

// UnusualTime counts the decisions that took a similar time.
type UnusualTime struct {
	From     float64  `json:"from_seconds"`
	To       *float64 `json:"to_seconds" doc:"Exclusive; null: no limit."`
	Approved int      `json:"approved"`
	Rejected int      `json:"rejected"`
}

// UnusualReviewer is how one person decided about calls with unusual values.
type UnusualReviewer struct {
	Person    rest.PersonName `json:"person"`
	Decisions int             `json:"decisions"`
	Median    float64         `json:"median_seconds"`
	Hasty     int             `json:"hasty" doc:"Decisions in less than 2 seconds."`
}

type insightsInput struct {
	From  string `query:"from" doc:"Calls made at or after this time: RFC 3339, or a day, or a day and a time in the zone; rounded down to a whole hour. Default: seven days before to; at most 400 days before it."`
	To    string `query:"to" doc:"Calls made before this time; a day is included as a whole. Default: now."`
	Zone  string `query:"zone" doc:"The time zone of days, weeks and hours, such as Europe/Berlin. Default: UTC."`
	Skill string `query:"skill" doc:"Only calls of the skill with this name or id, even if it was deleted."`
	Agent string `query:"agent" doc:"Only calls of the agent with this name or id, even if it was deleted."`
}

func (h *insightHandlers) getInsights(ctx context.Context, input *insightsInput) (*rest.Output[Insights], error) {
	found, err := h.figures.ReadInsights(ctx, figures.Query{From: input.From, To: input.To, Zone: input.Zone, Skill: input.Skill, Agent: input.Agent})
	if errors.Is(err, figures.ErrTimeout) {
		return nil, rest.NewProblem(http.StatusServiceUnavailable, rest.CodeNotAvailable, "the figures of this range take too long: choose a shorter range")
	}
	if err != nil {
		return nil, rest.InPart("query", err)
	}
	view := newInsights(&found)
	if rest.CallerOf(ctx).HasRole(identity.Operator) {
		if view.ByPerson, err = h.nameDeciders(ctx, found.Approvals.Deciders); err != nil {
			return nil, err
		}
		if view.Unusual.ByPerson, err = h.nameUnusual(ctx, found.Approvals.Unusual.Reviewers); err != nil {
			return nil, err
		}
	}
	return rest.NewOutput(view), nil
}

func newInsights(i *figures.Insights) Insights {
	view := Insights{
		From: i.Window.From, To: i.Window.To, Bucket: string(i.Window.Bucket),
		BeforeFrom: i.Window.BeforeFrom, BeforeTo: i.Window.BeforeTo,
		Calls: callFigures(&i.Calls), CallsBefore: callFigures(&i.CallsBefore),
		Approvals: approvalFigures(&i.Approvals.Totals), ApprovalsBefore: approvalFigures(&i.ApprovalsBefore),
		BySkill: approvalShares(i.Approvals.Skills, i.SkillNames), ByTool: approvalShares(i.Approvals.Tools, i.SkillNames),
		ByRule:  approvalShares(i.Approvals.Rules, i.SkillNames),
		Unusual: UnusualFigures{ByTime: unusualTimes(i.Approvals.Unusual.Bands)},
	}
	for _, s := range i.Series {
		counts := make(map[string]int, len(s.Calls))
		for status, n := range s.Calls {
			counts[string(status)] = n
		}
		view.Series = append(view.Series, InsightBucket{From: s.From, To: s.To, Calls: counts, Approvals: approvalFigures(&s.Approvals)})
	}
	for _, hours := range i.Calls.Hours {
		view.Hours = append(view.Hours, hours[:])
	}
	return view
}

func callFigures(f *figures.Calls) CallFigures {
	view := CallFigures{Total: f.ByStatus.Total(), ByStatus: map[string]int{}, Failures: map[string]int{}}
	for _, status := range call.AllStatuses() {
		view.ByStatus[string(status)] = f.ByStatus[status]
	}
	for _, kind := range figures.FailureKinds() {
		view.Failures[string(kind)] = f.Failures[kind]
	}
	return view
}

func approvalCounts(t *approval.Totals) ApprovalCounts {
	counts := ApprovalCounts{
		Asked: t.Asked, Pending: t.Pending, Approved: t.Approved, Rejected: t.Rejected, Expired: t.Expired, Cancelled: t.Cancelled, Fast: t.Fast,
	}
	if decisions := t.Decisions(); decisions > 0 {
		share := float64(t.Approved) / float64(decisions)
		counts.ApprovedShare = &share
	}
	return counts
}

func approvalFigures(t *approval.Totals) ApprovalFigures {
	return ApprovalFigures{ApprovalCounts: approvalCounts(t), Waiting: newSpread(t.Waiting), Deciding: newSpread(t.Deciding)}
}

func newSpread(s approval.Spread) Spread {
	if s.Count == 0 {
		return Spread{}
	}
	p50, p90 := s.P50.Seconds(), s.P90.Seconds()
	return Spread{Count: s.Count, P50: &p50, P90: &p90}
}

func approvalShares(shares []approval.Share, names map[uuid.UUID]string) []ApprovalShare {
	views := make([]ApprovalShare, len(shares))
	for i := range shares {
		s := &shares[i]
		views[i] = ApprovalShare{
			Skill: rest.OrNull(names[s.SkillID]), Tool: rest.OrNull(s.Tool), Rule: rest.OrNull(string(s.Rule)), ApprovalCounts: approvalCounts(&s.Totals),
		}
	}
	return views
}

// nameDeciders names the people who decided.
func (h *insightHandlers) nameDeciders(ctx context.Context, found []approval.Decider) ([]DeciderFigure, error) {
	ids := make([]uuid.UUID, len(found))
	for i, d := range found {
		ids[i] = d.PersonID
	}
	names, err := h.NamePeople(ctx, ids...)
	if err != nil {
		return nil, err
	}
	views := make([]DeciderFigure, len(found))
	for i, d := range found {
		views[i] = DeciderFigure{Person: names.Find(d.PersonID), Decisions: d.Decisions, Fast: d.Fast}
	}
	return views, nil
}

func unusualTimes(bands []approval.UnusualBand) []UnusualTime {
	bounds := approval.UnusualBounds()
	views := make([]UnusualTime, len(bands))
	for i, b := range bands {
		views[i] = UnusualTime{Approved: b.Approved, Rejected: b.Rejected}
		if i > 0 {
			views[i].From = bounds[i-1].Seconds()
		}
		if i < len(bounds) {
			to := bounds[i].Seconds()
			views[i].To = &to
		}
	}
	return views
}

// nameUnusual names the people who decided about unusual values.
func (h *insightHandlers) nameUnusual(ctx context.Context, found []approval.UnusualReviewer) ([]UnusualReviewer, error) {
	ids := make([]uuid.UUID, len(found))
	for i, r := range found {
		ids[i] = r.PersonID
	}
	names, err := h.NamePeople(ctx, ids...)
	if err != nil {
		return nil, err
	}
	views := make([]UnusualReviewer, len(found))
	for i, r := range found {
		views[i] = UnusualReviewer{Person: names.Find(r.PersonID), Decisions: r.Decisions, Median: r.Median.Seconds(), Hasty: r.Hasty}
	}
	return views, nil
}
