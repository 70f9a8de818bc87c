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
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// columns are all columns of a call. briefColumns omit arguments and results, listColumns those above 64 KiB, so that a list fits into
// memory.
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

const tailColumns = `, coalesce(code, ''), coalesce(failure, ''), coalesce(effect, ''), coalesce(message, ''), late::text, resolution, measured, content_deleted_at, rules, grant_id, gate_host`

func scanCall(row pgx.CollectableRow) (Call, error) {
	var c Call
	var principal, conversation, claimant, granted *uuid.UUID
	var pin, arguments, submitted, result, sum, unfrozen, request, trace []byte
	var late, host *string
	var caller *Caller
	var measured []*int64
	err := row.Scan(&c.ID, &c.AgentID, &principal, &conversation, &c.SkillID, &c.SkillRevision, &c.CreatedAt, &c.FinishedAt,
		&c.DeliveredAt, &claimant, &c.Gated, &c.Status, &c.Tool, &c.ExposedName, &pin, &caller, &trace, &c.hasFiles,
		&arguments, &submitted, &result, &sum, &unfrozen, &request, &c.Code, &c.Failure, &c.Effect, &c.Message, &late, &c.Resolution, &measured, &c.ContentDeletedAt, &c.Rules, &granted, &host)
	if err != nil {
		return c, err
	}
	if copy(c.Pin[:], pin) != len(pin) {
		return c, fmt.Errorf("pin of %d bytes", len(pin))
	}
	c.PrincipalID, c.ConversationID, c.claimedBy = postgres.OrNil(principal), postgres.OrNil(conversation), postgres.OrNil(claimant)
	c.GrantID = postgres.OrNil(granted)
	c.took = c.GrantID
	if c.GateOnly = host != nil; c.GateOnly {
		c.Host = *host
	}
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

// loadCall reads a call without the names of its agent and skill.
func (s *Service) loadCall(ctx context.Context, id uuid.UUID) (*Call, error) {
	calls, err := s.queryCalls(ctx, `SELECT `+columns+` FROM calls WHERE id = $1`, id)
	if err != nil {
		return nil, fmt.Errorf("read call %s: %w", id, err)
	}
	if len(calls) == 0 {
		return nil, ErrNotFound
	}
	return &calls[0], s.readFiles(ctx, calls)
}

// queueCall adds the read of a call without files to a batch. It leaves c as it is if there is no such call.
func queueCall(batch *pgx.Batch, id uuid.UUID, c *Call) {
	batch.Queue(`SELECT `+columns+` FROM calls WHERE id = $1`, id).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanCall)
		if len(found) > 0 {
			*c = found[0]
		}
		return err
	})
	agent.QueueNames(batch, `SELECT agent_id, skill_id FROM calls WHERE id = $1`, id, &c.Agent, &c.Skill)
}

func (s *Service) queryCalls(ctx context.Context, sql string, args ...any) ([]Call, error) {
	return postgres.Collect(ctx, s.Pool, scanCall, sql, args...)
}

// fillNames reads the names of agents and skills, and the files.
func (s *Service) fillNames(ctx context.Context, calls []Call) error {
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

// loadVisible reads a call that the viewer may see, or returns ErrNotFound.
func (s *Service) loadVisible(ctx context.Context, viewer Viewer, id uuid.UUID) (*Call, error) {
	c, err := s.loadCall(ctx, id)
	if err == nil && viewer.AgentID != uuid.Nil && (viewer.AgentID != c.AgentID || viewer.PrincipalID != c.PrincipalID) {
		err = ErrNotFound
	}
	return c, err
}

// Get returns a call that the viewer may see, or ErrNotFound. It expires an overdue call first.
func (s *Service) Get(ctx context.Context, viewer Viewer, id uuid.UUID) (Call, error) {
	c, err := s.loadVisible(ctx, viewer, id)
	if err != nil {
		return Call{}, err
	}
	if c.Status.waitsForPeople() {
		switch left, err := s.timeLeft(ctx, c.ID, c.Status); {
		case err == nil && left > 0:
			return s.withNames(ctx, c)
		case errors.Is(err, approval.ErrNotFound): // decided in the meantime
		case err != nil:
			return Call{}, err
		default:
			if err := s.Expire(ctx, id); err != nil {
				return Call{}, err
			}
		}
		if c, err = s.loadCall(ctx, id); err != nil {
			return Call{}, err
		}
	}
	return s.withNames(ctx, c)
}

// ListCalls returns calls by id, without large arguments and results. It omits unknown ids.
func (s *Service) ListCalls(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Call, error) {
	return s.readByID(ctx, listColumns, ids, s.fillNames)
}

// ReadCalls returns calls by id, without the names of agents and skills. It omits unknown ids.
func (s *Service) ReadCalls(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Call, error) {
	return s.readByID(ctx, columns, ids, s.readFiles)
}

// ListCallsFrom is [Service.ListCalls] for the past: the calls are read by a reader.
func (s *Service) ListCallsFrom(ctx context.Context, from *postgres.Reader, ids []uuid.UUID) (map[uuid.UUID]Call, error) {
	calls, err := readCallsFrom(ctx, from, listColumns, ids)
	return completeCalls(ctx, calls, err, s.fillNames)
}

// ReadCallsFrom is [Service.ReadCalls] for the past: the calls are read by a reader.
func (s *Service) ReadCallsFrom(ctx context.Context, from *postgres.Reader, ids []uuid.UUID) (map[uuid.UUID]Call, error) {
	calls, err := readCallsFrom(ctx, from, columns, ids)
	return completeCalls(ctx, calls, err, s.readFiles)
}

func readCallsFrom(ctx context.Context, from *postgres.Reader, columns string, ids []uuid.UUID) (calls []Call, err error) {
	err = from.InTx(ctx, func(tx pgx.Tx) (err error) {
		calls, err = postgres.Collect(ctx, tx, scanCall, `SELECT `+columns+` FROM calls WHERE id = ANY($1)`, ids)
		return err
	})
	return calls, err
}

// readByID reads calls, and completes them with names or files.
func (s *Service) readByID(ctx context.Context, columns string, ids []uuid.UUID, complete func(context.Context, []Call) error) (map[uuid.UUID]Call, error) {
	calls, err := s.queryCalls(ctx, `SELECT `+columns+` FROM calls WHERE id = ANY($1)`, ids)
	return completeCalls(ctx, calls, err, complete)
}

// completeCalls completes calls that were read, unless there was an error.
func completeCalls(ctx context.Context, calls []Call, err error, complete func(context.Context, []Call) error) (map[uuid.UUID]Call, error) {
	if err == nil {
		err = complete(ctx, calls)
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

// ReadEnded returns the statuses of those calls that have ended.
func (s *Service) ReadEnded(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Status, error) {
	rows, _ := s.Pool.Query(ctx, `SELECT id, status FROM calls WHERE id = ANY($1) AND finished_at IS NOT NULL`, ids)
	ended := map[uuid.UUID]Status{}
	var id uuid.UUID
	var status Status
	if _, err := pgx.ForEachRow(rows, []any{&id, &status}, func() error { ended[id] = status; return nil }); err != nil {
		return nil, fmt.Errorf("read ended calls: %w", err)
	}
	return ended, nil
}

// ReadApprovals returns the approvals of gated calls, by the id of the call.
func (s *Service) ReadApprovals(ctx context.Context, calls []Call) (map[uuid.UUID]approval.Approval, error) {
	var gated []uuid.UUID
	for i := range calls {
		if calls[i].Gated {
			gated = append(gated, calls[i].ID)
		}
	}
	byID := make(map[uuid.UUID]approval.Approval, len(gated))
	if len(gated) == 0 {
		return byID, nil
	}
	approvals, err := approval.ListByCall(ctx, s.Pool, gated...)
	if err != nil {
		return nil, err
	}
	for _, a := range approvals {
		byID[a.CallID] = a
	}
	return byID, nil
}

// withNames is a call with the names of its agent and skill.
func (s *Service) withNames(ctx context.Context, c *Call) (Call, error) {
	calls := []Call{*c}
	err := s.fillNames(ctx, calls)
	return calls[0], err
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

// RecordReveal writes an audit event before a person sees hidden values of a call. Errors: ErrNotFound.
func (s *Service) RecordReveal(ctx context.Context, id, by uuid.UUID, values int, form string) error {
	if _, err := s.loadCall(ctx, id); err != nil {
		return err
	}
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(by), Action: audit.CallRevealed, Subject: id,
			Data: map[string]any{"values": values, "form": form},
		})
	})
	if err != nil {
		return fmt.Errorf("record that call %s was revealed: %w", id, err)
	}
	return nil
}

// MarkDelivered records that the outcome of a call reached its agent. From then on a repeat without an idempotency key is a new call.
func (s *Service) MarkDelivered(ctx context.Context, id uuid.UUID) error {
	failpoint.Hit(failpoint.DeliverBefore)
	_, err := s.Pool.Exec(ctx, `UPDATE calls SET delivered_at = holdpoint_now(),
			attach_key = CASE WHEN keyed_until IS NOT NULL THEN attach_key END
		WHERE id = $1 AND finished_at IS NOT NULL AND delivered_at IS NULL`, id)
	if err != nil {
		return fmt.Errorf("mark call %s delivered: %w", id, err)
	}
	return nil
}

// The outcomes of a [Resolution].
const (
	ResolvedSucceeded = "succeeded"
	ResolvedFailed    = "failed"
)

// Resolve records an operator's finding about an unknown outcome, once.
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
			Actor: audit.Person(r.By), Action: audit.CallResolved, Subject: id,
			Data: map[string]any{"outcome": r.Outcome, "note": r.Note},
		})
	})
	if errors.Is(err, errNothingToResolve) {
		c, loadErr := s.loadCall(ctx, id)
		if loadErr != nil {
			return Call{}, loadErr
		}
		err = fmt.Errorf("resolve call %s: %w: it is %s", id, ErrState, c.Status)
		if c.Resolution != nil {
			err = fmt.Errorf("%w, resolved before as %s", err, c.Resolution.Outcome)
		}
		return Call{}, err
	}
	if err != nil {
		return Call{}, fmt.Errorf("resolve call %s: %w", id, err)
	}
	return s.Get(ctx, Viewer{}, id)
}

var errNothingToResolve = errors.New("nothing to resolve")
