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
	Teams   []string // of the reader: what these are asked about comes first
	Team    string   // only what this team is asked about
	AgentID uuid.UUID
	SkillID uuid.UUID
	Tool    string   // of the skill
	After   Position // only what comes after this one
	Limit   int
}

// Position is a place in a reader's queue. It is comparable only between readers of the same teams.
type Position struct {
	Others   bool // after what the reader's teams are asked about
	Deadline time.Time
	CallID   uuid.UUID // uuid.Nil: the beginning
}

// String is a form that [ParsePosition] reads; "" is the beginning.
func (p Position) String() string {
	if p.CallID == uuid.Nil {
		return ""
	}
	return fmt.Sprintf("%t.%d.%s", p.Others, p.Deadline.UnixMicro(), p.CallID)
}

var errPosition = errors.New("expected a place in the queue, as a page of it gave it")

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

// asked says, in SQL, that one of the teams $1 is asked about an approval.
const asked = `(team = ANY($1) OR escalated_at IS NOT NULL AND escalate_to = ANY($1)) IS TRUE`

// queued selects by everything but the position.
const queued = `status = 'pending' AND deadline > (SELECT holdpoint_now())
	AND ($2 = '' OR team = $2 OR escalated_at IS NOT NULL AND escalate_to = $2)
	AND ($3::uuid IS NULL OR agent_id = $3) AND ($4::uuid IS NULL OR skill_id = $4) AND ($5 = '' OR tool = $5)`

func (f *QueueFilter) args() []any {
	teams := f.Teams
	if teams == nil {
		teams = []string{}
	}
	return []any{teams, f.Team, postgres.OrNull(f.AgentID), postgres.OrNull(f.SkillID), f.Tool}
}

// Queue returns pending approvals by deadline, the most urgent first, those that the reader's teams are asked
// about before all others.
func Queue(ctx context.Context, db postgres.Querier, f QueueFilter) ([]Approval, error) {
	order, after := `NOT `+asked+`, deadline, call_id`, `(NOT `+asked+`, deadline, call_id) > ($6, $7, $8)`
	if len(f.Teams) == 0 { // so that the index gives the order
		order, after = `deadline, call_id`, `($6::bool, deadline, call_id) > ($6, $7, $8)`
	}
	var from *uuid.UUID
	if f.After.CallID != uuid.Nil {
		from = &f.After.CallID
	}
	args := append(f.args(), f.After.Others, f.After.Deadline, from, f.Limit)
	return collect(ctx, db, `SELECT `+columns+` FROM approvals WHERE cardinality($1::text[]) >= 0 AND `+queued+`
		AND ($8::uuid IS NULL OR `+after+`) ORDER BY `+order+` LIMIT $9`, args...)
}

// PositionOf is the place of an approval in the queue of a reader of these teams.
func PositionOf(a *Approval, teams []string) Position {
	return Position{Others: len(teams) > 0 && !a.Asks(teams), Deadline: a.Deadline, CallID: a.CallID}
}

// Asks reports whether one of these teams is asked about the approval.
func (a *Approval) Asks(teams []string) bool {
	for _, team := range teams {
		if team == a.Team || a.EscalatedAt != nil && team == a.EscalateTo {
			return true
		}
	}
	return false
}

// Counts are how many pending approvals a filter selects, whatever its position, and how many of them the
// reader's teams are asked about.
type Counts struct {
	All, Own int
}

// Count counts what a filter selects.
func Count(ctx context.Context, db postgres.Querier, f QueueFilter) (Counts, error) {
	rows, err := db.Query(ctx, `SELECT count(*), count(*) FILTER (WHERE `+asked+`) FROM approvals WHERE `+queued, f.args()...)
	if err != nil {
		return Counts{}, fmt.Errorf("count approvals: %w", err)
	}
	counts, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Counts])
	if err != nil {
		return Counts{}, fmt.Errorf("count approvals: %w", err)
	}
	return counts, nil
}

// Like returns up to limit pending approvals of the same agent, principal, skill and tool, the most urgent first. The
// given one is among them.
func Like(ctx context.Context, db postgres.Querier, a *Approval, limit int) ([]Approval, error) {
	return collect(ctx, db, `SELECT `+columns+` FROM approvals
		WHERE status = 'pending' AND deadline > (SELECT holdpoint_now()) AND agent_id = $1 AND principal_id IS NOT DISTINCT FROM $2::uuid
			AND skill_id = $3 AND tool = $4
		ORDER BY deadline, call_id LIMIT $5`, a.AgentID, postgres.OrNull(a.PrincipalID), a.SkillID, a.Tool, limit)
}
