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

// connectWait is a call's wait for a connection of its skill.
type connectWait struct {
	reason  string
	timeout time.Duration // until the deadline, unless the call has one from an earlier wait
	partial bool          // only some tools of the skill need the connection, this one among them
}

// Unconnected is a call that waits for a connection of its skill.
type Unconnected struct {
	Call     Call
	Reason   string // the next step of an operator or the person
	Deadline time.Time
}

// insertWaitSQL stores a wait. A call that waited before keeps its deadline.
const insertWaitSQL = `INSERT INTO call_connections AS w (call_id, skill_id, principal_id, reason, deadline, partial, agent_id)
	VALUES ($1, $2, $3, $4, holdpoint_now() + $5 * interval '1 microsecond', $6, $7)
	ON CONFLICT (call_id) DO UPDATE SET agent_id = excluded.agent_id, reason = excluded.reason, partial = excluded.partial, ended_at = NULL
	RETURNING deadline`

func (w *connectWait) insertWait(ctx context.Context, tx pgx.Tx, c *Call) (deadline time.Time, err error) {
	err = tx.QueryRow(ctx, insertWaitSQL, c.ID, c.SkillID, postgres.OrNull(c.PrincipalID), w.reason, w.timeout.Microseconds(), w.partial, c.AgentID).Scan(&deadline)
	if err != nil {
		return deadline, fmt.Errorf("store wait for a connection: %w", err)
	}
	return deadline, nil
}

// submitUnconnected records a call that waits for a connection. The verdict follows when it resumes.
func (s *Service) submitUnconnected(ctx context.Context, c *Call, sub *Submission, a *admission) (Ticket, error) {
	connect := a.connect
	c.Status, c.Message, c.Gated = NeedsConnection, connect.Reason, a.verdict.Action == approval.Park
	item := &intakeItem{
		call: c, attachKey: attachKey(sub), keyedSum: keyedSum(sub), wait: &connectWait{connect.Reason, a.skill.ApprovalTimeout, false},
		move: newSubmitMove(ctx, c, sub, map[string]any{"reason": connect.Reason}), pendingLimit: sub.Agent.Limits.PendingCalls(),
	}
	s.recordCall(s.gated, item)
	return item.ticket, item.err
}

// checkConnection returns the connection that is missing for a skill. Nil: none.
func (s *Service) checkConnection(ctx context.Context, server tool.Server) (*tool.Connect, error) {
	source, err := s.Discovery.Source(server.Transport)
	if err != nil {
		return nil, err
	}
	return source.Ready(ctx, server)
}

// suspendCall makes a call that is approved, or claimed by this instance, wait for a connection. The call was not executed. It reports
// false if the call has another status, or its deadline has passed.
func (s *Service) suspendCall(ctx context.Context, c *Call, wait connectWait) (suspended bool, err error) {
	key := callKey(c)
	m := &move{
		event: onSuspend, id: c.ID, agentID: c.AgentID, outcome: outcome{status: NeedsConnection, message: wait.reason},
		data: map[string]any{"reason": wait.reason},
	}
	for retries := false; ; retries = true {
		err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
			suspended = false
			deadline, err := wait.insertWait(ctx, tx, c)
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
			suspended = m.made || retries // an earlier attempt may have committed without an answer
			if !m.made {
				return errTooLate
			}
			if _, err := tx.Exec(ctx, `UPDATE calls SET attach_key = coalesce(attach_key, $2) WHERE id = $1`, c.ID, key); err != nil {
				return err
			}
			job := newExpireJob(c.ID, deadline)
			_, err = s.river.InsertTx(ctx, tx, job.Args, job.InsertOpts)
			return err
		})
		switch {
		case errors.Is(err, errTooLate):
			return suspended, nil
		case isUniqueViolation(err) && key != nil:
			key = nil // another call with this key waits
		case err != nil && isRetryable(err) && pause.For(ctx, retryDelay) == nil:
		case err != nil:
			return false, fmt.Errorf("suspend call %s: %w", c.ID, err)
		default:
			s.announceMoves(ctx, m)
			return suspended, nil
		}
	}
}

// errTooLate rolls back a suspension.
var errTooLate = errors.New("too late to wait")

func timeUntil(ctx context.Context, tx pgx.Tx, deadline time.Time) (time.Duration, error) {
	var now time.Time
	if err := tx.QueryRow(ctx, `SELECT holdpoint_now()`).Scan(&now); err != nil {
		return 0, fmt.Errorf("read time: %w", err)
	}
	return deadline.Sub(now), nil
}

// lockWait locks a call's wait and returns the time until its deadline. waiting is false if the call does not wait.
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

// abandonWait ends a call that waits for a connection; if overdue, only after its deadline. It returns the time until the deadline.
func (s *Service) abandonWait(ctx context.Context, id uuid.UUID, o outcome, actor audit.Actor, overdue bool) (left time.Duration, err error) {
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

// MessageLapsed is the message of a call whose approval lapsed.
const MessageLapsed = "the call was approved, and could not be sent before the approval lapsed"

// MessageUnconnected is the message of a call that expired while it waited for a connection.
const MessageUnconnected = "the skill was not connected before the deadline"

// ListUnconnected returns the calls that wait for a connection of a skill (uuid.Nil: any), the most urgent first.
func (s *Service) ListUnconnected(ctx context.Context, skillID uuid.UUID, limit int) ([]Unconnected, error) {
	rows, _ := s.Pool.Query(ctx, `SELECT call_id, reason, deadline FROM call_connections
		WHERE ended_at IS NULL AND deadline > holdpoint_now() AND ($1::uuid IS NULL OR skill_id = $1)
		ORDER BY deadline LIMIT $2`, postgres.OrNull(skillID), clampLimit(limit))
	var ids []uuid.UUID
	waits := map[uuid.UUID]Unconnected{}
	var id uuid.UUID
	var u Unconnected
	_, err := pgx.ForEachRow(rows, []any{&id, &u.Reason, &u.Deadline}, func() error {
		ids, waits[id] = append(ids, id), u
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list unconnected calls: %w", err)
	}
	calls, err := s.ListCalls(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("list unconnected calls: %w", err)
	}
	list := make([]Unconnected, 0, len(ids))
	for _, id := range ids {
		if c, ok := calls[id]; ok && c.Status == NeedsConnection {
			u := waits[id]
			u.Call = c
			list = append(list, u)
		}
	}
	return list, nil
}

// resumeArgs is the job that resumes the calls that wait for a connection of a skill.
type resumeArgs struct {
	SkillID uuid.UUID `json:"skill_id"`
}

func (resumeArgs) Kind() string { return "call_resume" }

type resumeWorker struct {
	river.WorkerDefaults[resumeArgs]
	service *Service
}

// Timeout leaves time for listing the skill's tools.
func (w *resumeWorker) Timeout(*river.Job[resumeArgs]) time.Duration { return 5 * time.Minute }

func (w *resumeWorker) Work(ctx context.Context, job *river.Job[resumeArgs]) error {
	if w.service.Reconnected != nil {
		if err := w.service.Reconnected(ctx, job.Args.SkillID); err != nil {
			return err
		}
	}
	return w.service.resumeAll(ctx, job.Args.SkillID)
}

// ResumeConnected resumes the calls that wait for a connection of a skill, once tx commits.
func (s *Service) ResumeConnected(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error {
	if _, err := s.river.InsertTx(ctx, tx, resumeArgs{skillID}, nil); err != nil {
		return fmt.Errorf("insert resume job: %w", err)
	}
	return nil
}

// resumeAll resumes the calls of a skill whose connection exists now.
func (s *Service) resumeAll(ctx context.Context, skillID uuid.UUID) error {
	waiting, err := readIDs(ctx, s.Pool, `SELECT call_id FROM call_connections
		WHERE ended_at IS NULL AND skill_id = $1 ORDER BY created_at`, skillID)
	if err != nil {
		return fmt.Errorf("find calls that wait for a connection: %w", err)
	}
	var failures error
	for _, id := range waiting {
		if err := s.resumeCall(ctx, id); err != nil {
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

// pollConnections resumes calls without a resume job, for example after a change of the skill's settings.
func (s *Service) pollConnections() {
	for pause.For(s.running, connectionsInterval) == nil {
		ctx, cancel := context.WithTimeout(s.running, resumeTimeout)
		err := s.pollConnectionsOnce(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			s.Logger.Warn("resuming calls that wait for connections", "error", err)
		}
	}
}

// needsConnection reports whether calls of a skill for a principal still have to wait. Calls of a deleted skill do not.
func (s *Service) needsConnection(ctx context.Context, skillID, principal uuid.UUID, partial bool) (bool, error) {
	_, server, err := s.Agents.Skill(ctx, skillID)
	if errors.Is(err, agent.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	connect, err := s.checkConnection(ctx, server.For(principal))
	return blocksCall(connect, partial), err
}

// blocksCall reports whether a missing connection blocks a call. A partial one blocks only calls that wait for it.
func blocksCall(connect *tool.Connect, partial bool) bool {
	return connect != nil && (!connect.Partial || partial)
}

func (s *Service) pollConnectionsOnce(ctx context.Context) error {
	rows, _ := s.Pool.Query(ctx, `SELECT skill_id, principal_id, partial FROM call_connections WHERE ended_at IS NULL
		GROUP BY skill_id, principal_id, partial ORDER BY min(deadline) LIMIT $1`, maxWaitKeys)
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
		held, err := s.needsConnection(ctx, k.Skill, postgres.OrNil(k.Principal), k.Partial)
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
