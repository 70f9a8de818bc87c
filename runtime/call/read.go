package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

const columns = `id, agent_id, principal_id, conversation_id, skill_id, skill_revision, created_at, finished_at,
	delivered_at, claimed_by, gated, status, tool, exposed_name, pin, arguments, coalesce(code, ''),
	coalesce(failure, ''), coalesce(effect, ''), coalesce(message, ''), result, late::text, resolution`

func scan(row pgx.CollectableRow) (Call, error) {
	var c Call
	var principal, conversation, claimant *uuid.UUID
	var pin, arguments, result []byte
	var late *string
	err := row.Scan(&c.ID, &c.AgentID, &principal, &conversation, &c.SkillID, &c.SkillRevision, &c.CreatedAt, &c.FinishedAt,
		&c.DeliveredAt, &claimant, &c.Gated, &c.Status, &c.Tool, &c.ExposedName, &pin, &arguments, &c.Code,
		&c.Failure, &c.Effect, &c.Message, &result, &late, &c.Resolution)
	if err != nil {
		return c, err
	}
	if copy(c.Pin[:], pin) != len(pin) {
		return c, fmt.Errorf("pin of %d bytes", len(pin))
	}
	c.PrincipalID, c.ConversationID, c.claimedBy = deref(principal), deref(conversation), deref(claimant)
	c.Arguments, c.Result = arguments, result
	if late != nil {
		c.Late = json.RawMessage(*late)
	}
	return c, nil
}

func deref(id *uuid.UUID) uuid.UUID {
	if id == nil {
		return uuid.Nil
	}
	return *id
}

// load reads a call without the names of its agent and skill.
func (s *Service) load(ctx context.Context, id uuid.UUID) (*Call, error) {
	calls, err := s.query(ctx, `SELECT `+columns+` FROM calls WHERE id = $1`, id)
	if err != nil {
		return nil, fmt.Errorf("read call %s: %w", id, err)
	}
	if len(calls) == 0 {
		return nil, ErrNotFound
	}
	return &calls[0], nil
}

func (s *Service) query(ctx context.Context, sql string, args ...any) ([]Call, error) {
	rows, err := s.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// name fills in the names of agents and skills.
func (s *Service) name(ctx context.Context, calls []Call) error {
	ids := make([]uuid.UUID, 0, 2*len(calls))
	for i := range calls {
		ids = append(ids, calls[i].AgentID, calls[i].SkillID)
	}
	names, err := s.Agents.Names(ctx, ids)
	if err != nil {
		return err
	}
	for i := range calls {
		calls[i].Agent, calls[i].Skill = names[calls[i].AgentID], names[calls[i].SkillID]
	}
	return nil
}

// Get returns a call that the viewer may see, or ErrNotFound. One that is
// overdue is expired first.
func (s *Service) Get(ctx context.Context, viewer Viewer, id uuid.UUID) (Call, error) {
	c, err := s.load(ctx, id)
	if err != nil {
		return Call{}, err
	}
	if !viewer.sees(c) {
		return Call{}, ErrNotFound
	}
	if c.Status == Parked {
		if err := s.Expire(ctx, id); err != nil {
			return Call{}, err
		}
		if c, err = s.load(ctx, id); err != nil {
			return Call{}, err
		}
	}
	calls := []Call{*c}
	err = s.name(ctx, calls)
	return calls[0], err
}

func (v Viewer) sees(c *Call) bool {
	return v.AgentID == uuid.Nil || v.AgentID == c.AgentID && v.PrincipalID == c.PrincipalID
}

// Filter selects calls. Zero fields select all.
type Filter struct {
	Viewer  Viewer
	AgentID uuid.UUID
	Status  Status
	Before  uuid.UUID // only calls older than this one: the cursor
	Limit   int       // at most 200; zero: 50
}

// List returns calls, newest first, and the cursor of the next page (uuid.Nil: none).
func (s *Service) List(ctx context.Context, f Filter) ([]Call, uuid.UUID, error) {
	limit := clampLimit(f.Limit)
	if f.Viewer.AgentID != uuid.Nil {
		if f.AgentID != uuid.Nil && f.AgentID != f.Viewer.AgentID {
			return nil, uuid.Nil, nil
		}
		f.AgentID = f.Viewer.AgentID
	}
	calls, err := s.query(ctx, `SELECT `+columns+` FROM calls
		WHERE ($1::uuid IS NULL OR agent_id = $1) AND ($2 = '' OR status = $2) AND ($3::uuid IS NULL OR id < $3)
			AND (NOT $4 OR principal_id IS NOT DISTINCT FROM $5::uuid)
		ORDER BY id DESC LIMIT $6`,
		nullable(f.AgentID), string(f.Status), nullable(f.Before),
		f.Viewer.AgentID != uuid.Nil, nullable(f.Viewer.PrincipalID), limit+1)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list calls: %w", err)
	}
	var next uuid.UUID
	if len(calls) > limit {
		calls, next = calls[:limit], calls[limit-1].ID
	}
	return calls, next, s.name(ctx, calls)
}

func clampLimit(limit int) int {
	switch {
	case limit <= 0:
		return 50
	case limit > 200:
		return 200
	}
	return limit
}

// Delivered says that the call's outcome reached its agent: a repeat is a new
// call from then on.
func (s *Service) Delivered(ctx context.Context, id uuid.UUID) error {
	failpoint.Hit(failpoint.DeliverBefore)
	_, err := s.Pool.Exec(ctx, `UPDATE calls SET delivered_at = holdpoint_now(), attach_key = NULL
		WHERE id = $1 AND finished_at IS NOT NULL AND delivered_at IS NULL`, id)
	if err != nil {
		return fmt.Errorf("mark call %s delivered: %w", id, err)
	}
	return nil
}

// The outcomes that an operator may find.
const (
	ResolvedSucceeded = "succeeded"
	ResolvedFailed    = "failed"
)

// Resolve records, once, what an operator found out about an unknown outcome.
// Errors: ErrNotFound, ErrState.
func (s *Service) Resolve(ctx context.Context, id uuid.UUID, r Resolution) (Call, error) {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE calls SET resolution = jsonb_build_object(
				'outcome', $2::text, 'note', $3::text, 'by', $4::uuid, 'at', holdpoint_now())
			WHERE id = $1 AND status = 'unknown' AND resolution IS NULL`, id, r.Outcome, r.Note, r.By)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errNothingToResolve
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(r.By), Action: "call.resolved", Subject: id,
			Data: map[string]any{"outcome": r.Outcome, "note": r.Note},
		})
	})
	if errors.Is(err, errNothingToResolve) {
		c, loadErr := s.load(ctx, id)
		if loadErr != nil {
			return Call{}, loadErr
		}
		return Call{}, fmt.Errorf("resolve call %s: %w: it is %s%s", id, ErrState, c.Status, resolvedBefore(c))
	}
	if err != nil {
		return Call{}, fmt.Errorf("resolve call %s: %w", id, err)
	}
	return s.Get(ctx, Viewer{}, id)
}

var errNothingToResolve = errors.New("nothing to resolve")

func resolvedBefore(c *Call) string {
	if c.Resolution != nil {
		return ", resolved before as " + c.Resolution.Outcome
	}
	return ""
}

// QueueFilter selects approvals.
type QueueFilter struct {
	Status approval.Status // empty: all
	Before uuid.UUID       // only older ones: the cursor
	Limit  int             // at most 200; zero: 50
}

// Approvals returns approvals with their calls, newest first, and the cursor of the next page.
func (s *Service) Approvals(ctx context.Context, f QueueFilter) ([]Waiting, uuid.UUID, error) {
	limit := clampLimit(f.Limit)
	approvals, err := approval.List(ctx, s.Pool, approval.Filter{Status: f.Status, Before: f.Before, Limit: limit + 1})
	if err != nil {
		return nil, uuid.Nil, err
	}
	var next uuid.UUID
	if len(approvals) > limit {
		approvals, next = approvals[:limit], approvals[limit-1].CallID
	}
	waiting, err := s.withCalls(ctx, approvals)
	return waiting, next, err
}

// Queue returns up to limit pending approvals by deadline, and how many are pending in all.
func (s *Service) Queue(ctx context.Context, limit int) ([]Waiting, int, error) {
	approvals, err := approval.Queue(ctx, s.Pool, limit)
	if err != nil {
		return nil, 0, err
	}
	pulse, err := s.Pulse(ctx)
	if err != nil {
		return nil, 0, err
	}
	waiting, err := s.withCalls(ctx, approvals)
	return waiting, pulse.Pending, err
}

// Pulse changes when the queue does; it is cheap to ask.
func (s *Service) Pulse(ctx context.Context) (approval.Pulse, error) {
	return approval.ReadPulse(ctx, s.Pool)
}

// Approval returns one approval with its call, or approval.ErrNotFound. One that is
// overdue is expired first.
func (s *Service) Approval(ctx context.Context, callID uuid.UUID) (Waiting, error) {
	if err := s.Expire(ctx, callID); err != nil {
		return Waiting{}, err
	}
	found, err := approval.Get(ctx, s.Pool, callID)
	if err != nil {
		return Waiting{}, err
	}
	waiting, err := s.withCalls(ctx, []approval.Approval{found})
	if err != nil {
		return Waiting{}, err
	}
	return waiting[0], nil
}

// withCalls joins approvals with their calls, in their order.
func (s *Service) withCalls(ctx context.Context, approvals []approval.Approval) ([]Waiting, error) {
	ids := make([]uuid.UUID, len(approvals))
	for i := range approvals {
		ids[i] = approvals[i].CallID
	}
	calls, err := s.query(ctx, `SELECT `+columns+` FROM calls WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read calls of approvals: %w", err)
	}
	if err := s.name(ctx, calls); err != nil {
		return nil, err
	}
	byID := make(map[uuid.UUID]Call, len(calls))
	for i := range calls {
		byID[calls[i].ID] = calls[i]
	}
	waiting := make([]Waiting, 0, len(approvals))
	for _, a := range approvals {
		c, ok := byID[a.CallID]
		if !ok {
			return nil, fmt.Errorf("approval %s has no call", a.CallID)
		}
		waiting = append(waiting, Waiting{Call: c, Approval: a})
	}
	return waiting, nil
}
