package ui

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
)

// queue is what all who look at the same part of the queue have in common. Nobody changes it.
type queue struct {
	rows        []view.Row
	viewers     map[string][]viewer // by row
	next        approval.Position
	pulse       approval.Pulse
	counts      approval.Counts
	facets      call.Facets
	unconnected []call.Unconnected
	last        *view.Decision // when nothing waits
	lastURL     string
}

// readQueue reads what a filter selects, once for all dashboards that ask at the same moment.
func (u *UI) readQueue(ctx context.Context, f approval.QueueFilter) (*queue, error) {
	key := fmt.Sprintf("%q %q %s %s %s", f.Teams, f.Team, f.AgentID, f.SkillID, f.After)
	return u.queues.Get(ctx, key, func(ctx context.Context) (*queue, error) { return u.readQueueNow(ctx, f) })
}

func (u *UI) readQueueNow(ctx context.Context, f approval.QueueFilter) (*queue, error) {
	waiting, next, err := u.cfg.Calls.Queue(ctx, f)
	if err != nil {
		return nil, err
	}
	q := &queue{next: next}
	if q.pulse, err = u.cfg.Calls.Pulse(ctx); err != nil {
		return nil, err
	}
	if err := u.readRows(ctx, q, waiting, f.Teams); err != nil {
		return nil, err
	}
	q.counts = approval.Counts{All: q.pulse.Pending}
	if len(f.Teams) > 0 || f.Team != "" || f.AgentID != uuid.Nil || f.SkillID != uuid.Nil {
		if q.counts, err = u.cfg.Calls.QueueCounts(ctx, f); err != nil {
			return nil, err
		}
	}
	if q.facets, err = u.cfg.Calls.QueueFacets(ctx); err != nil {
		return nil, err
	}
	if q.unconnected, err = u.cfg.Calls.Unconnected(ctx, uuid.Nil, waitWindow); err != nil {
		return nil, err
	}
	if q.counts.All == 0 {
		q.last, q.lastURL, err = u.lastDecision(ctx)
	}
	return q, err
}

// readRows makes the rows, drawn already: most readers see the same.
func (u *UI) readRows(ctx context.Context, q *queue, waiting []call.Waiting, teams []string) error {
	pins, people := make([]tool.Pin, len(waiting)), make([]uuid.UUID, len(waiting))
	for i := range waiting {
		pins[i], people[i] = waiting[i].Call.Pin, waiting[i].Call.PrincipalID
	}
	definitions, err := u.cfg.Discovery.Definitions(ctx, pins)
	if err != nil {
		return err
	}
	names, err := u.names(ctx, people...)
	if err != nil {
		return err
	}
	viewers, err := u.viewers(ctx, callIDs(waiting)...)
	if err != nil {
		return err
	}
	q.rows, q.viewers = make([]view.Row, len(waiting)), make(map[string][]viewer, len(viewers))
	for i := range waiting {
		c := &waiting[i].Call
		risk, err := u.risk(ctx, c, definitions[c.Pin])
		if err != nil {
			return err
		}
		q.rows[i] = presentRow(&waiting[i], definitions[c.Pin], risk, names[c.PrincipalID], q.pulse.Now)
		q.rows[i].Own = waiting[i].Approval.Asks(teams)
		q.viewers[q.rows[i].ID] = viewers[c.ID]
	}
	markLike(waiting, q.rows)
	for i := range q.rows {
		var drawn strings.Builder
		if err := view.RowOf(q.rows[i]).Render(ctx, &drawn); err != nil {
			return fmt.Errorf("draw the row of call %s: %w", q.rows[i].ID, err)
		}
		q.rows[i].Drawn = drawn.String()
	}
	return nil
}

// rowsFor are the rows as a reader sees them: with who else looks at them.
func (q *queue) rowsFor(reader uuid.UUID) []view.Row {
	rows := append([]view.Row(nil), q.rows...)
	for i := range rows {
		if names := others(q.viewers[rows[i].ID], reader); len(names) > 0 {
			rows[i].Viewers, rows[i].Drawn = names, ""
		}
	}
	return rows
}

func callIDs(waiting []call.Waiting) []uuid.UUID {
	ids := make([]uuid.UUID, len(waiting))
	for i := range waiting {
		ids[i] = waiting[i].Call.ID
	}
	return ids
}

// markLike says on the first of calls that differ in their arguments only how many there are.
func markLike(waiting []call.Waiting, rows []view.Row) {
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

// lastDecision is the latest of the newest few; empty when there was none.
func (u *UI) lastDecision(ctx context.Context) (*view.Decision, string, error) {
	const few = 20
	newest, _, err := u.cfg.Calls.Approvals(ctx, call.QueueFilter{Limit: few})
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
	names, err := u.names(ctx, last.Approval.DecidedBy)
	if err != nil {
		return nil, "", err
	}
	decision := presentDecision(last.Approval, names)
	decision.About = last.Call.Skill + ": " + last.Call.Tool
	return decision, callURL(last.Call.ID), nil
}
