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
	"github.com/holdpoint/holdpoint/internal/telemetry"
)

// columns are those of one call; briefColumns leave out arguments and results; listColumns leave out arguments and results
// that are larger than 64 KiB: a list of them would not fit into memory.
const (
	briefColumns = headColumns + noBytes + noBytes + noBytes + noBytes + noBytes + noBytes + tailColumns
	columns      = headColumns + `, arguments, submitted, result, NULL::bytea, made, request` + tailColumns
	listColumns  = headColumns + `, CASE WHEN octet_length(arguments) <= 65536 THEN arguments END,
	CASE WHEN octet_length(submitted) <= 65536 THEN submitted END,
	CASE WHEN octet_length(result) <= 65536 THEN result END,
	CASE WHEN greatest(octet_length(arguments), octet_length(submitted), octet_length(result)) > 65536 THEN sha256(arguments) END, NULL::bytea, NULL::bytea` + tailColumns
)

const noBytes = `, NULL::bytea`

const headColumns = `id, agent_id, principal_id, conversation_id, skill_id, skill_revision, created_at, finished_at,
	delivered_at, claimed_by, gated, status, tool, exposed_name, pin, caller, trace, made IS NOT NULL`

const tailColumns = `, coalesce(code, ''), coalesce(failure, ''), coalesce(effect, ''), coalesce(message, ''), late::text, resolution, measured`

func scan(row pgx.CollectableRow) (Call, error) {
	var c Call
	var principal, conversation, claimant *uuid.UUID
	var pin, arguments, submitted, result, sum, unfrozen, request, trace []byte
	var late *string
	var caller *Caller
	var measured []*int64
	err := row.Scan(&c.ID, &c.AgentID, &principal, &conversation, &c.SkillID, &c.SkillRevision, &c.CreatedAt, &c.FinishedAt,
		&c.DeliveredAt, &claimant, &c.Gated, &c.Status, &c.Tool, &c.ExposedName, &pin, &caller, &trace, &c.hasFiles,
		&arguments, &submitted, &result, &sum, &unfrozen, &request, &c.Code, &c.Failure, &c.Effect, &c.Message, &late, &c.Resolution, &measured)
	if err != nil {
		return c, err
	}
	if copy(c.Pin[:], pin) != len(pin) {
		return c, fmt.Errorf("pin of %d bytes", len(pin))
	}
	c.PrincipalID, c.ConversationID, c.claimedBy = deref(principal), deref(conversation), deref(claimant)
	c.Arguments, c.Submitted, c.Result, c.unfrozen = arguments, submitted, result, unfrozen
	c.request = request
	c.trace, c.began, c.Measures = telemetry.ReadPending(trace), c.CreatedAt, readMeasures(measured)
	if c.Partial = sum != nil; c.Partial {
		copy(c.sum[:], sum)
	}
	if caller != nil {
		c.caller = *caller
	}
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
	return &calls[0], s.readFiles(ctx, calls)
}

func (s *Service) query(ctx context.Context, sql string, args ...any) ([]Call, error) {
	rows, err := s.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// name fills in the names of agents and skills, and what files there are.
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
	return s.readFiles(ctx, calls)
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
	if c.waitsForPeople() {
		switch left, err := s.timeLeft(ctx, c); {
		case err == nil && left > 0:
			return s.named(ctx, c)
		case errors.Is(err, approval.ErrNotFound): // decided meanwhile
		case err != nil:
			return Call{}, err
		default:
			if err := s.Expire(ctx, id); err != nil {
				return Call{}, err
			}
		}
		if c, err = s.load(ctx, id); err != nil {
			return Call{}, err
		}
	}
	return s.named(ctx, c)
}

// Listed returns those of some calls that there are, as [Service.Search] has them: without arguments and results that are large.
func (s *Service) Listed(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Call, error) {
	calls, err := s.query(ctx, `SELECT `+listColumns+` FROM calls WHERE id = ANY($1)`, ids)
	if err == nil {
		err = s.name(ctx, calls)
	}
	if err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	known := make(map[uuid.UUID]Call, len(calls))
	for i := range calls {
		known[calls[i].ID] = calls[i]
	}
	return known, nil
}

// named is a call with the names of its agent and skill.
func (s *Service) named(ctx context.Context, c *Call) (Call, error) {
	calls := []Call{*c}
	err := s.name(ctx, calls)
	return calls[0], err
}

func (v Viewer) sees(c *Call) bool {
	return v.AgentID == uuid.Nil || v.AgentID == c.AgentID && v.PrincipalID == c.PrincipalID
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
// call from then on, unless it has the same idempotency key.
func (s *Service) Delivered(ctx context.Context, id uuid.UUID) error {
	failpoint.Hit(failpoint.DeliverBefore)
	_, err := s.Pool.Exec(ctx, `UPDATE calls SET delivered_at = holdpoint_now(),
			attach_key = CASE WHEN keyed_until IS NOT NULL THEN attach_key END
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
