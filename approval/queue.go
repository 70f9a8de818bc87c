package approval

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// QueueFilter selects pending approvals. Zero fields select all.
type QueueFilter struct {
	Teams   []string // the reader's teams; approvals that they are asked about come first
	Team    string   // only approvals that this team is asked about
	AgentID uuid.UUID
	SkillID uuid.UUID
	Tool    string   // a tool of the skill
	After   Position // only approvals after this position
	Limit   int
}

// Position is a place in a reader's queue. Positions of readers with different teams cannot be compared.
type Position struct {
	Others   bool // none of the reader's teams is asked; such approvals come last
	Deadline time.Time
	CallID   uuid.UUID // uuid.Nil: the beginning
}

// String returns the form that [ParsePosition] reads; "" is the beginning.
func (p Position) String() string {
	if p.CallID == uuid.Nil {
		return ""
	}
	return fmt.Sprintf("%t.%d.%s", p.Others, p.Deadline.UnixMicro(), p.CallID)
}

var errPosition = errors.New("invalid position: expected one that a page of the queue returned")

// ParsePosition reads the form of [Position.String].
func ParsePosition(text string) (Position, error) {
	if text == "" {
		return Position{}, nil
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return Position{}, errPosition
	}
	others, err1 := strconv.ParseBool(parts[0])
	micros, err2 := strconv.ParseInt(parts[1], 10, 64)
	id, err3 := uuid.Parse(parts[2])
	if errors.Join(err1, err2, err3) != nil || id == uuid.Nil {
		return Position{}, errPosition
	}
	return Position{Others: others, Deadline: time.UnixMicro(micros), CallID: id}, nil
}

// askedTeamSQL is a condition: one of the teams $1 is asked about the approval.
const askedTeamSQL = `(team = ANY($1) OR escalated_at IS NOT NULL AND escalate_to = ANY($1)) IS TRUE`

// queuedSQL is the condition of a [QueueFilter] without its position.
const queuedSQL = `status = 'pending' AND deadline > (SELECT holdpoint_now())
	AND ($2 = '' OR team = $2 OR escalated_at IS NOT NULL AND escalate_to = $2)
	AND ($3::uuid IS NULL OR agent_id = $3) AND ($4::uuid IS NULL OR skill_id = $4) AND ($5 = '' OR tool = $5)`

func (f *QueueFilter) queryArgs() []any {
	teams := f.Teams
	if teams == nil {
		teams = []string{}
	}
	return []any{teams, f.Team, postgres.OrNull(f.AgentID), postgres.OrNull(f.SkillID), f.Tool}
}

// Queue returns pending approvals by deadline. Those that the reader's teams are asked about come first.
func Queue(ctx context.Context, db postgres.Querier, f QueueFilter) ([]Approval, error) {
	order, after := `NOT `+askedTeamSQL+`, deadline, call_id`, `(NOT `+askedTeamSQL+`, deadline, call_id) > ($6, $7, $8)`
	if len(f.Teams) == 0 { // this order can be read from the index
		order, after = `deadline, call_id`, `($6::bool, deadline, call_id) > ($6, $7, $8)`
	}
	var from *uuid.UUID
	if f.After.CallID != uuid.Nil {
		from = &f.After.CallID
	}
	args := append(f.queryArgs(), f.After.Others, f.After.Deadline, from, f.Limit)
	return queryApprovals(ctx, db, `SELECT `+approvalColumns+` FROM approvals WHERE cardinality($1::text[]) >= 0 AND `+queuedSQL+`
		AND ($8::uuid IS NULL OR `+after+`) ORDER BY `+order+` LIMIT $9`, args...)
}

// PositionOf returns the position of an approval in the queue of a reader with these teams.
func PositionOf(a *Approval, teams []string) Position {
	return Position{Others: len(teams) > 0 && !a.Asks(teams), Deadline: a.Deadline, CallID: a.CallID}
}

// Asks reports whether one of the teams is asked about the approval.
func (a *Approval) Asks(teams []string) bool {
	for _, team := range teams {
		if team == a.Team || a.EscalatedAt != nil && team == a.EscalateTo {
			return true
		}
	}
	return false
}

// Counts are numbers of pending approvals.
type Counts struct {
	All int
	Own int // those that the reader's teams are asked about
}

// Count counts the approvals that a filter selects. It ignores the filter's position.
func Count(ctx context.Context, db postgres.Querier, f QueueFilter) (Counts, error) {
	return queryRow[Counts](ctx, db, "count approvals", `SELECT count(*), count(*) FILTER (WHERE `+askedTeamSQL+`) FROM approvals
		WHERE `+queuedSQL, f.queryArgs()...)
}

// ListSimilar returns at most limit pending approvals of the same agent, principal, skill and tool, a itself included, by
// deadline.
func ListSimilar(ctx context.Context, db postgres.Querier, a *Approval, limit int) ([]Approval, error) {
	return queryApprovals(ctx, db, `SELECT `+approvalColumns+` FROM approvals
		WHERE status = 'pending' AND deadline > (SELECT holdpoint_now()) AND agent_id = $1 AND principal_id IS NOT DISTINCT FROM $2::uuid
			AND skill_id = $3 AND tool = $4
		ORDER BY deadline, call_id LIMIT $5`, a.AgentID, postgres.OrNull(a.PrincipalID), a.SkillID, a.Tool, limit)
}

// Facet counts the pending approvals of one agent, skill and team.
type Facet struct {
	AgentID uuid.UUID
	SkillID uuid.UUID
	Team    string // empty: none
	Count   int
}

const maxFacets = 200

// Facets returns the values that a reader of the queue can filter by, the most frequent first.
func Facets(ctx context.Context, db postgres.Querier) ([]Facet, error) {
	rows, _ := db.Query(ctx, `SELECT agent_id, skill_id, coalesce(team, ''), count(*) FROM approvals
		WHERE status = 'pending' AND deadline > (SELECT holdpoint_now()) GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT $1`, maxFacets)
	facets, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Facet])
	if err != nil {
		return nil, fmt.Errorf("count approvals: %w", err)
	}
	return facets, nil
}

// Pulse summarizes the queue. Two equal pulses, Now aside, mean that the queue has not changed.
type Pulse struct {
	Pending     int
	Newest      time.Time // when the newest pending approval was created
	Oldest      time.Time // when the oldest was created; Now if none is pending
	LastDecided time.Time
	Moved       int64     // changes when a deadline is extended, a second team is asked, or an edit is proposed
	Now         time.Time // by the database's clock
}

// Waited returns how long the oldest approval has been pending.
func (p Pulse) Waited() time.Duration { return max(0, p.Now.Sub(p.Oldest)) }

// ReadPulse reads the pulse. It is cheap enough to be called several times a second.
func ReadPulse(ctx context.Context, db postgres.Querier) (Pulse, error) {
	return queryRow[Pulse](ctx, db, "read pulse", `SELECT count(*), coalesce(max(created_at), 'epoch'), coalesce(min(created_at), holdpoint_now()),
		coalesce((SELECT max(decided_at) FROM approvals), 'epoch'),
		coalesce(sum(extended_ms + CASE WHEN escalated_at IS NULL THEN 0 ELSE 1 END + coalesce(extract(epoch FROM edited_at) * 1000, 0)), 0)::bigint, holdpoint_now()
		FROM approvals WHERE status = 'pending' AND deadline > (SELECT holdpoint_now())`)
}
