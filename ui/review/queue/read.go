package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

func presentRow(w *call.Waiting, secrets *secretfield.Rules, risk present.Risk, names map[uuid.UUID]string, now time.Time) Row {
	c, principal := &w.Call, names[w.Call.PrincipalID]
	fields := hostile.Decisive(c.Arguments, present.RowArguments, present.BriefOf(secrets))
	row := Row{
		ID: c.ID.String(), URL: present.CallURL(c.ID), Digest: w.Approval.Digest.String(),
		Skill: c.Skill, Tool: c.Tool, Agent: c.Agent, Principal: principal,
		Risk: risk.Badge, Decisive: fields.List, MoreArgs: fields.More,
		Countdown: present.Countdown(w.Approval.Deadline, now), Team: w.Approval.Team,
	}
	if w.Approval.HeldBy != uuid.Nil {
		row.Holder, row.Assigned = present.PersonName(w.Approval.HeldBy, names), w.Approval.AssignedBy != uuid.Nil
	}
	row.teams = w.Approval.ListTeams()
	if w.Approval.EscalatedAt != nil {
		for _, step := range w.Approval.Plan() {
			if step.Taken {
				row.Team = present.StepNames(step.EscalationStep)
			}
		}
		row.Warnings = append(row.Warnings, view.Badge{Word: text.QueueEscalated(), Icon: "bell", Level: view.Warn})
	}
	if c.PrincipalID != uuid.Nil && principal == "" {
		row.Principal = c.PrincipalID.String()
	}
	if c.GateOnly {
		badge := view.Badge{Word: text.GateByCaller(), Icon: "info", Level: view.Info, Note: text.GateTitle()}
		if host := present.ExecutedBy(c); host != "" {
			badge.Word = text.GateBy(host)
		}
		row.Warnings = append(row.Warnings, badge)
	}
	switch w.Approval.Rule {
	case approval.RuleDefinitionChanged:
		row.Warnings = append(row.Warnings, view.Badge{Word: text.QueueToolChanged(), Icon: "changed", Level: view.Danger})
	case approval.RuleNewTool:
		row.Warnings = append(row.Warnings, view.Badge{Word: text.QueueNewTool(), Icon: "new", Level: view.Warn})
	case approval.RuleParked:
		row.Warnings = append(row.Warnings, view.Badge{Word: text.QueueRuleParked(), Icon: "info", Level: view.Info})
	case approval.RuleFailed:
		row.Warnings = append(row.Warnings, view.Badge{Word: text.QueueRuleFailed(), Icon: "changed", Level: view.Warn})
	case approval.RuleGated, approval.RuleHighRisk: // the row's badge says so
	case approval.RuleAutoApproved, approval.RuleDisabled, approval.RuleToolGone, approval.RuleRefused, approval.RuleDenied, approval.RuleAllowed: // these park nothing
	}
	if w.Approval.Unusual > 0 {
		row.Warnings = append(row.Warnings, view.Badge{Word: text.QueueUnusual(w.Approval.Unusual), Icon: "changed", Level: view.Warn})
	}
	if w.Approval.EditedBy != uuid.Nil {
		row.Warnings = append(row.Warnings, view.Badge{Word: text.QueueEditWaits(), Icon: "edit", Level: view.Info})
	}
	if c.Partial {
		row.Warnings = append(row.Warnings, view.Badge{Word: text.QueueLargeArguments(), Icon: "hidden", Level: view.Warn})
	}
	if len(secrets.NamedByAgent(c.Arguments)) > 0 {
		row.Warnings = append(row.Warnings, present.NamedBadge())
	}
	if fields.Hidden > 0 {
		row.Warnings = append(row.Warnings, view.Badge{Word: text.QueueHiddenCharacters(), Icon: "hidden", Level: view.Danger})
	}
	if fields.Suspect > 0 {
		row.Warnings = append(row.Warnings, view.Badge{Word: text.QueueLookAlikes(), Icon: "hidden", Level: view.Warn})
	}
	// The row has one line for them, so the most important ones come first.
	slices.SortStableFunc(row.Warnings, func(a, b view.Badge) int {
		return cmp.Compare(warningRank(a.Level), warningRank(b.Level))
	})
	return row
}

func warningRank(l view.Level) int {
	return slices.Index([]view.Level{view.Danger, view.Warn, view.Info}, l)
}

// list is the part of the queue that readers with the same filter share. It is not changed after it was read.
type list struct {
	rows        []Row
	viewers     map[string][]shell.Viewer // by row
	voters      map[string][]uuid.UUID    // by row
	alone       []AloneApproval
	next        approval.Position
	pulse       approval.Pulse
	counts      approval.Counts
	facets      call.Facets
	unconnected []call.Unconnected
	last        *view.Decision // set if no call is pending
	lastURL     string
}

// readQueue reads the calls that a filter selects, once for all dashboards in a language that ask at the same moment.
func (h *Handler) readQueue(ctx context.Context, f approval.QueueFilter) (*list, error) {
	language := text.LanguageOf(ctx)
	key := fmt.Sprintf("%q %s %q %s %s %s %s %t %s %s", f.Teams, f.People, f.Team, f.AgentID, f.SkillID, f.HeldBy, f.Order, f.ByTool, f.After, language)
	return h.queues.Get(ctx, key, func(ctx context.Context) (*list, error) {
		return h.readQueueNow(text.WithLanguage(ctx, language), f) // for the rows that it draws
	})
}

func (h *Handler) readQueueNow(ctx context.Context, f approval.QueueFilter) (*list, error) {
	waiting, next, err := h.calls.ListQueue(ctx, f)
	if err != nil {
		return nil, err
	}
	q := &list{next: next}
	if q.pulse, err = h.calls.ReadPulse(ctx); err != nil {
		return nil, err
	}
	if err := h.readRows(ctx, q, waiting, f); err != nil {
		return nil, err
	}
	q.counts = approval.Counts{All: q.pulse.Pending}
	if len(f.Teams)+len(f.People) > 0 || f.Team != "" || f.AgentID != uuid.Nil || f.SkillID != uuid.Nil || f.HeldBy != uuid.Nil {
		if q.counts, err = h.calls.CountQueue(ctx, f); err != nil {
			return nil, err
		}
	}
	if q.facets, err = h.calls.ListFacets(ctx); err != nil {
		return nil, err
	}
	if q.unconnected, err = h.calls.ListUnconnected(ctx, uuid.Nil, present.WaitWindow); err != nil {
		return nil, err
	}
	if q.alone, err = h.readAlone(ctx); err != nil {
		return nil, err
	}
	if q.counts.All == 0 {
		q.last, q.lastURL, err = h.readLastDecision(ctx)
	}
	return q, err
}

// readRows makes the rows and renders them once, because most readers see the same.
func (h *Handler) readRows(ctx context.Context, q *list, waiting []call.Waiting, f approval.QueueFilter) error {
	pins, people, ids := make([]tool.Pin, len(waiting)), make([]uuid.UUID, 0, 2*len(waiting)), make([]uuid.UUID, len(waiting))
	calls := make([]call.Call, len(waiting))
	for i := range waiting {
		c := &waiting[i].Call
		calls[i], pins[i], ids[i] = *c, c.Pin, c.ID
		people = append(people, c.PrincipalID, waiting[i].Approval.HeldBy)
	}
	definitions, err := h.discovery.Definitions(ctx, pins)
	if err != nil {
		return err
	}
	secrets, err := h.calls.ReadSecrets(ctx, calls...)
	if err != nil {
		return err
	}
	names, err := h.Names(ctx, people...)
	if err != nil {
		return err
	}
	viewers, err := h.viewers.Viewers(ctx, ids...)
	if err != nil {
		return err
	}
	approvals := make([]*approval.Approval, len(waiting))
	for i := range waiting {
		approvals[i] = &waiting[i].Approval
	}
	tallies, err := h.calls.Tallies(ctx, approvals...)
	if err != nil {
		return err
	}
	q.rows, q.viewers, q.voters = make([]Row, len(waiting)), make(map[string][]shell.Viewer, len(viewers)), make(map[string][]uuid.UUID, len(tallies))
	for i := range waiting {
		c := &waiting[i].Call
		risk, err := present.ReadRisk(ctx, h.agents, c, definitions[c.Pin])
		if err != nil {
			return err
		}
		q.rows[i] = presentRow(&waiting[i], secrets[c.ID], risk, names, q.pulse.Now)
		q.rows[i].Own = waiting[i].Approval.Asks(f.Teams, f.People...)
		if t := tallies[c.ID]; t != nil {
			q.rows[i].Progress = text.VotesProgress(policy.CountApprovals(approvals[i].Policies, t.Voters))
			q.voters[q.rows[i].ID] = listVoters(approvals[i], t)
		}
		if f.ByTool && (i == 0 || waiting[i-1].Call.SkillID != c.SkillID || waiting[i-1].Call.Tool != c.Tool) {
			q.rows[i].Group = c.Skill + ": " + c.Tool
		}
		q.viewers[q.rows[i].ID] = viewers[c.ID]
	}
	countSimilar(waiting, q.rows)
	for i := range q.rows {
		var drawn strings.Builder
		if err := RowOf(q.rows[i]).Render(ctx, &drawn); err != nil {
			return fmt.Errorf("draw the row of call %s: %w", q.rows[i].ID, err)
		}
		q.rows[i].Drawn = drawn.String()
	}
	return nil
}

// listVoters returns the people who have a vote on a pending approval.
func listVoters(a *approval.Approval, t *call.Tally) []uuid.UUID {
	var people []uuid.UUID
	for i := range t.Votes {
		if a.Counts(&t.Votes[i]) {
			people = append(people, t.Votes[i].By)
		}
	}
	return people
}

// rowsFor returns the rows for a reader, with the other people who have each call open, and with a mark on calls that the reader may not decide
// because of the limit of their role. Calls on which the reader has voted come last, unless the rows are grouped.
func (q *list) rowsFor(reader *identity.Person, grouped bool) []Row {
	rows := append([]Row(nil), q.rows...)
	for i := range rows {
		r := &rows[i]
		if names := shell.Others(q.viewers[r.ID], reader.ID); len(names) > 0 {
			r.Viewers, r.Drawn = names, ""
		}
		if !reader.Limit.Covers(identity.Scope{Teams: r.teams, Skill: r.Skill, Agent: r.Agent}) {
			outside := view.Badge{Word: text.QueueOutsideLimit(), Icon: "team", Level: view.Quiet, Note: text.ReviewOutsideLimit(reader.Limit.String())}
			r.Warnings, r.Drawn = append([]view.Badge{outside}, r.Warnings...), ""
		}
		if slices.Contains(q.voters[r.ID], reader.ID) {
			r.Voted, r.Drawn = true, ""
		}
	}
	if !grouped {
		slices.SortStableFunc(rows, func(a, b Row) int {
			switch {
			case a.Voted == b.Voted:
				return 0
			case b.Voted:
				return -1
			}
			return 1
		})
	}
	return rows
}

// readAlone reads the approvals that one person gave alone and that nobody has reviewed.
func (h *Handler) readAlone(ctx context.Context) ([]AloneApproval, error) {
	waiting, err := h.calls.ListUnreviewed(ctx, queueWindow)
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	people := make([]uuid.UUID, len(waiting))
	for i := range waiting {
		people[i] = waiting[i].Approval.DecidedBy
	}
	names, err := h.Names(ctx, people...)
	if err != nil {
		return nil, err
	}
	list := make([]AloneApproval, len(waiting))
	for i := range waiting {
		c, a := &waiting[i].Call, &waiting[i].Approval
		list[i] = AloneApproval{
			ID: c.ID.String(), URL: present.CallURL(c.ID), Skill: c.Skill, Tool: c.Tool, By: present.PersonName(a.DecidedBy, names), Reason: a.Note,
		}
		if a.DecidedAt != nil {
			list[i].At = *a.DecidedAt
		}
	}
	return list, nil
}

// countSimilar sets Like on the first of several calls that differ only in their arguments.
func countSimilar(waiting []call.Waiting, rows []Row) {
	type kind struct {
		agent, principal, skill uuid.UUID
		tool                    string
	}
	first, count := map[kind]int{}, map[kind]int{}
	for i := range waiting {
		c := &waiting[i].Call
		k := kind{c.AgentID, c.PrincipalID, c.SkillID, c.Tool}
		if count[k]++; count[k] == 1 {
			first[k] = i
		}
	}
	for k, i := range first {
		if count[k] > 1 {
			rows[i].Like = count[k]
		}
	}
}

// readLastDecision returns the latest decision among the newest calls with its URL, or nil.
func (h *Handler) readLastDecision(ctx context.Context) (*view.Decision, string, error) {
	const few = 20
	newest, _, err := h.calls.ListApprovals(ctx, call.QueueFilter{Limit: few})
	if err != nil {
		return nil, "", err
	}
	var last *call.Waiting
	for i := range newest {
		if at := newest[i].Approval.DecidedAt; at != nil && (last == nil || at.After(*last.Approval.DecidedAt)) {
			last = &newest[i]
		}
	}
	if last == nil {
		return nil, "", nil
	}
	names, err := h.Names(ctx, last.Approval.DecidedBy)
	if err != nil {
		return nil, "", err
	}
	decision := present.Decision(last.Approval, names)
	decision.About = last.Call.Skill + ": " + last.Call.Tool
	return decision, present.CallURL(last.Call.ID), nil
}
