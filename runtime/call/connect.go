package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// connectWait is a call's wait for somebody to connect its skill.
type connectWait struct {
	reason  string
	timeout time.Duration // the deadline, unless it waited before
	partial bool          // what is missing is missing for some of the skill's tools only, this one among them
}

// Unconnected is a call that waits for somebody to connect its skill.
type Unconnected struct {
	Call     Call
	Reason   string // what has to be done, in plain words
	Deadline time.Time
}

// insertWait notes that a call waits. Whoever waited before keeps the deadline of then.
const insertWait = `INSERT INTO call_connections AS w (call_id, skill_id, principal_id, reason, deadline, partial, agent_id)
	VALUES ($1, $2, $3, $4, holdpoint_now() + $5 * interval '1 microsecond', $6, $7)
	ON CONFLICT (call_id) DO UPDATE SET agent_id = excluded.agent_id, reason = excluded.reason, partial = excluded.partial, ended_at = NULL
	RETURNING deadline`

func (w *connectWait) insert(ctx context.Context, tx pgx.Tx, c *Call) (deadline time.Time, err error) {
	err = tx.QueryRow(ctx, insertWait, c.ID, c.SkillID, postgres.OrNull(c.PrincipalID), w.reason, w.timeout.Microseconds(), w.partial, c.AgentID).Scan(&deadline)
	if err != nil {
		return deadline, fmt.Errorf("store wait for a connection: %w", err)
	}
	return deadline, nil
}

// submitUnconnected records a call whose skill somebody has to connect first. The verdict comes afterwards.
func (s *Service) submitUnconnected(ctx context.Context, c *Call, sub *Submission, skill *agent.Skill, a *admission) (Ticket, error) {
	connect := a.connect
	c.Status, c.Message, c.Gated = NeedsConnection, connect.Reason, a.verdict.Action == approval.Park
	item := &intakeItem{
		call: c, attachKey: attachKey(sub), keyed: s.keyed(sub), wait: &connectWait{connect.Reason, skill.ApprovalTimeout, false},
		move: submission(ctx, c, sub, map[string]any{"reason": connect.Reason}), pendingLimit: sub.Agent.Limits.PendingCalls(),
	}
	s.recordCall(s.gated, item)
	return item.ticket, item.err
}

// missing asks the skill's source whether somebody has to do something first.
func (s *Service) missing(ctx context.Context, server tool.Server) (*tool.Connect, error) {
	source, err := s.Discovery.Source(server.Transport)
	if err != nil {
		return nil, err
	}
	return source.Ready(ctx, server)
}

// suspend makes a call, approved or claimed by this instance, wait until its skill is connected. Nothing of it was
// executed. It reports false when the call is not there for it any more, or had waited as long as it may.
func (s *Service) suspend(ctx context.Context, c *Call, wait connectWait) (suspended bool, err error) {
	key := callKey(c)
	m := &move{
		event: onSuspend, id: c.ID, agentID: c.AgentID, outcome: outcome{status: NeedsConnection, message: wait.reason},
		data: map[string]any{"reason": wait.reason},
	}
	for retries := false; ; retries = true {
		err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
			suspended = false
			deadline, err := wait.insert(ctx, tx, c)
			if err != nil {
				return err
			}
			var left time.Duration
			if left, err = timeUntil(ctx, tx, deadline); err != nil || left <= 0 {
				return errors.Join(err, errTooLate)
			}
			err = s.moveInTx(ctx, tx, m)
			if err != nil {
				return err
			}
			suspended = m.made || retries // an attempt whose commit was in doubt suspended the call
			if !m.made {
				return errTooLate
			}
			if _, err := tx.Exec(ctx, `UPDATE calls SET attach_key = coalesce(attach_key, $2) WHERE id = $1`, c.ID, key); err != nil {
				return err
			}
			job := expireJob(c.ID, deadline)
			_, err = s.river.InsertTx(ctx, tx, job.Args, job.InsertOpts)
			return err
		})
		switch {
		case errors.Is(err, errTooLate):
			return suspended, nil
		case isUniqueViolation(err) && key != nil:
			key = nil // a call like it waits already
		case err != nil && isRetryable(err) && pause.For(ctx, retryDelay) == nil:
		case err != nil:
			return false, fmt.Errorf("suspend call %s: %w", c.ID, err)
		default:
			s.announceMoves(ctx, m)
			return suspended, nil
		}
	}
}

// errTooLate rolls a suspension back.
var errTooLate = errors.New("too late to wait")

func timeUntil(ctx context.Context, tx pgx.Tx, deadline time.Time) (time.Duration, error) {
	var now time.Time
	if err := tx.QueryRow(ctx, `SELECT holdpoint_now()`).Scan(&now); err != nil {
		return 0, fmt.Errorf("read time: %w", err)
	}
	return deadline.Sub(now), nil
}

// lockWait takes the lock of a call's wait and returns how long it still has. waiting is false when it does not wait.
func lockWait(ctx context.Context, tx pgx.Tx, id uuid.UUID) (waiting bool, left time.Duration, err error) {
	var deadline time.Time
	err = tx.QueryRow(ctx, `SELECT deadline FROM call_connections WHERE call_id = $1 AND ended_at IS NULL FOR UPDATE`, id).Scan(&deadline)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, fmt.Errorf("lock wait of call %s: %w", id, err)
	}
	left, err = timeUntil(ctx, tx, deadline)
	return true, left, err
}

// expireWait ends a call that waited for a connection until its deadline. left is how long it may still
// wait.
func (s *Service) expireWait(ctx context.Context, id uuid.UUID) (left time.Duration, err error) {
	return s.giveUp(ctx, id, expiry(), audit.System(), true)
}

// giveUp ends a call that waits for a connection; overdue: only if its time is up.
func (s *Service) giveUp(ctx context.Context, id uuid.UUID, o outcome, actor audit.Actor, overdue bool) (left time.Duration, err error) {
	o.effect, o.message = tool.EffectNone, MessageUnconnected
	if o.status == Cancelled {
		o.message = "the call was cancelled before its skill was connected"
	}
	m := &move{event: onAbandon, id: id, outcome: o, actor: actor, data: map[string]any{"code": o.code}}
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		waiting, rest, err := lockWait(ctx, tx, id)
		if err != nil || !waiting {
			return err
		}
		if left = rest; overdue && left > 0 {
			return nil
		}
		left = 0
		return s.moveInTx(ctx, tx, m)
	})
	if err != nil {
		return 0, fmt.Errorf("end wait of call %s: %w", id, err)
	}
	s.announceMoves(ctx, m)
	return left, nil
}

// MessageLapsed is the message of a call that was approved and not sent in time.
const MessageLapsed = "the call was approved, and could not be sent before the approval lapsed"

// MessageUnconnected is the message of a call that expired because its skill was not connected.
const MessageUnconnected = "nobody connected the skill before the deadline"

// waitLeft is how long a call may still wait for a connection; approval.ErrNotFound when it does not.
func (s *Service) waitLeft(ctx context.Context, id uuid.UUID) (time.Duration, error) {
	var seconds float64
	err := s.Pool.QueryRow(ctx, `SELECT extract(epoch FROM deadline - holdpoint_now())::float8 FROM call_connections
		WHERE call_id = $1 AND ended_at IS NULL`, id).Scan(&seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, approval.ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("read wait of call %s: %w", id, err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// Unconnected returns the calls that wait for somebody to connect a skill, the most urgent first.
// skillID uuid.Nil: those of all skills.
func (s *Service) Unconnected(ctx context.Context, skillID uuid.UUID, limit int) ([]Unconnected, error) {
	rows, err := s.Pool.Query(ctx, `SELECT call_id, reason, deadline FROM call_connections
		WHERE ended_at IS NULL AND deadline > holdpoint_now() AND ($1::uuid IS NULL OR skill_id = $1)
		ORDER BY deadline LIMIT $2`, postgres.OrNull(skillID), clampLimit(limit))
	if err != nil {
		return nil, fmt.Errorf("list unconnected calls: %w", err)
	}
	var ids []uuid.UUID
	waits := map[uuid.UUID]Unconnected{}
	var id uuid.UUID
	var u Unconnected
	_, err = pgx.ForEachRow(rows, []any{&id, &u.Reason, &u.Deadline}, func() error {
		ids, waits[id] = append(ids, id), u
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list unconnected calls: %w", err)
	}
	calls, err := s.query(ctx, `SELECT `+listColumns+` FROM calls WHERE id = ANY($1) AND status = 'needs_connection'`, ids)
	if err != nil {
		return nil, fmt.Errorf("read unconnected calls: %w", err)
	}
	if err := s.name(ctx, calls); err != nil {
		return nil, err
	}
	for _, c := range calls {
		found := waits[c.ID]
		found.Call = c
		waits[c.ID] = found
	}
	list := make([]Unconnected, 0, len(ids))
	for _, id := range ids {
		if waits[id].Call.ID != uuid.Nil {
			list = append(list, waits[id])
		}
	}
	return list, nil
}

// resumeArgs is the job that lets the calls go on that waited for a connection.
type resumeArgs struct {
	SkillID uuid.UUID `json:"skill_id"`
}

func (resumeArgs) Kind() string { return "call_resume" }

type resumeWorker struct {
	river.WorkerDefaults[resumeArgs]
	service *Service
}

// Timeout leaves room for listing the skill's tools.
func (w *resumeWorker) Timeout(*river.Job[resumeArgs]) time.Duration { return 5 * time.Minute }

func (w *resumeWorker) Work(ctx context.Context, job *river.Job[resumeArgs]) error {
	if w.service.Reconnected != nil {
		if err := w.service.Reconnected(ctx, job.Args.SkillID); err != nil {
			return err
		}
	}
	return w.service.resumeAll(ctx, job.Args.SkillID)
}

// Connected lets the calls of a skill go on that wait for a connection, when tx commits.
func (s *Service) Connected(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error {
	if _, err := s.river.InsertTx(ctx, tx, resumeArgs{skillID}, nil); err != nil {
		return fmt.Errorf("insert resume job: %w", err)
	}
	return nil
}

// resumeAll lets those calls of a skill go on whose connection is there.
func (s *Service) resumeAll(ctx context.Context, skillID uuid.UUID) error {
	waiting, err := readIDs(ctx, s.Pool, `SELECT call_id FROM call_connections
		WHERE ended_at IS NULL AND skill_id = $1 ORDER BY created_at`, skillID)
	if err != nil {
		return fmt.Errorf("find calls that wait for a connection: %w", err)
	}
	var failures error
	for _, id := range waiting {
		if err := s.resume(ctx, id); err != nil {
			failures = errors.Join(failures, fmt.Errorf("resume call %s: %w", id, err))
		}
	}
	return failures
}

const (
	connectionsInterval = 2 * time.Second
	resumeTimeout       = 5 * time.Minute
	maxWaitKeys         = 1000
)

// pollConnections is the safety net under the resume job: it looks for calls whose connection is there, or whose skill was
// changed so that it may be.
func (s *Service) pollConnections() {
	for pause.For(s.running, connectionsInterval) == nil {
		ctx, cancel := context.WithTimeout(s.running, resumeTimeout)
		err := s.pollConnectionsOnce(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			s.Logger.Warn("looking for calls that can go on", "error", err)
		}
	}
}

// held reports whether calls of a skill, for a person, still have to wait. Those of a skill that is gone have not.
func (s *Service) held(ctx context.Context, skillID, principal uuid.UUID, partial bool) (bool, error) {
	_, server, err := s.Agents.Skill(ctx, skillID)
	if errors.Is(err, agent.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	connect, err := s.missing(ctx, server.For(principal))
	return holds(connect, partial), err
}

// holds reports whether what is missing holds a call back: what only some tools need, one that waits for just that.
func holds(connect *tool.Connect, partial bool) bool {
	return connect != nil && (!connect.Partial || partial)
}

func (s *Service) pollConnectionsOnce(ctx context.Context) error {
	rows, err := s.Pool.Query(ctx, `SELECT skill_id, principal_id, partial FROM call_connections WHERE ended_at IS NULL
		GROUP BY skill_id, principal_id, partial ORDER BY min(deadline) LIMIT $1`, maxWaitKeys)
	if err != nil {
		return fmt.Errorf("find connections that calls wait for: %w", err)
	}
	ready := map[uuid.UUID]bool{}
	type key struct {
		Skill     uuid.UUID
		Principal *uuid.UUID
		Partial   bool
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[key])
	if err != nil {
		return fmt.Errorf("find connections that calls wait for: %w", err)
	}
	var failures error
	for _, k := range keys {
		held, err := s.held(ctx, k.Skill, deref(k.Principal), k.Partial)
		failures = errors.Join(failures, err)
		if err == nil && !held {
			ready[k.Skill] = true
		}
	}
	for skill := range ready {
		failures = errors.Join(failures, s.resumeAll(ctx, skill))
	}
	return failures
}
