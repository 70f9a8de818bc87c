package converse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/call"
)

const (
	pollInterval = 2 * time.Second // the safety net under notifications
	lease        = 8 * time.Second // how long a process may say nothing of a turn before another takes it
	enqueueMost  = 500             // in one transaction
	recheckMost  = 2000            // calls, at once

	// recheckPolls is how often, in polls, it is looked for what no notification tells of.
	recheckPolls = 4
	// stale is how long something that should take moments may take before somebody looks what became of it.
	stale = 10 * time.Second
	// calmAttempts of a turn are made at once, the next ones after ever longer pauses, and maxAttempts at all.
	calmAttempts = 3
	maxAttempts  = 25
	longestPause = 30 * time.Second
)

// keepEnqueueing gives turns that are due their jobs, and takes over what other processes left behind.
func (s *Service) keepEnqueueing() {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for polls := 0; ; {
		if err := s.enqueueAll(s.running); err != nil && !errors.Is(err, context.Canceled) {
			s.Logger.Warn("queueing turns", "error", err)
		}
		select {
		case <-s.running.Done():
			return
		case <-s.wake:
			continue
		case <-ticker.C:
		}
		err := s.takeOver(s.running)
		if polls++; polls%recheckPolls == 0 {
			err = errors.Join(err, s.recheck(s.running))
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			s.Logger.Warn("taking over turns", "error", err)
		}
	}
}

func (s *Service) enqueueAll(ctx context.Context) error {
	for {
		n, err := s.enqueue(ctx)
		if err != nil || n < enqueueMost {
			return err
		}
	}
}

// enqueue gives turns that are due a job, those that are so for longest first. Several processes may do so at once: each takes others.
func (s *Service) enqueue(ctx context.Context) (n int, err error) {
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT conversation_id, step, attempts FROM loops WHERE status = 'due'
			ORDER BY moved_at LIMIT $1 FOR UPDATE SKIP LOCKED`, enqueueMost)
		if err != nil {
			return err
		}
		var ids []uuid.UUID
		var jobs []river.InsertManyParams
		var id uuid.UUID
		var step int64
		var attempts int
		_, err = pgx.ForEachRow(rows, []any{&id, &step, &attempts}, func() error {
			ids = append(ids, id)
			jobs = append(jobs, river.InsertManyParams{Args: turnArgs{Conversation: id, Step: step + 1}, InsertOpts: s.when(attempts)})
			return nil
		})
		if n = len(jobs); err != nil || n == 0 {
			return err
		}
		inserted, err := s.river.InsertManyTx(ctx, tx, jobs)
		if err != nil {
			return err
		}
		numbers := make([]int64, n)
		for i := range inserted {
			numbers[i] = inserted[i].Job.ID
		}
		_, err = tx.Exec(ctx, `UPDATE loops SET status = 'queued', step = step + 1, job_id = j.job, moved_at = holdpoint_now()
			FROM unnest($1::uuid[], $2::bigint[]) AS j(id, job) WHERE conversation_id = j.id`, ids, numbers)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("queue turns: %w", err)
	}
	return n, nil
}

// when is the time of a turn that broke off before: at once, at first.
func (s *Service) when(attempts int) *river.InsertOpts {
	if attempts < calmAttempts {
		return nil
	}
	pause := min(time.Second<<min(attempts-calmAttempts, 10), longestPause)
	return &river.InsertOpts{ScheduledAt: s.Now().Add(pause)}
}

// keepLeases says of the turns that this process runs that it does.
func (s *Service) keepLeases() {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.running.Done():
			return
		case <-ticker.C:
		}
		ours := s.turns.ids()
		if len(ours) == 0 {
			continue
		}
		_, err := s.Pool.Exec(s.running, `UPDATE loops SET leased_at = holdpoint_now()
			WHERE conversation_id = ANY($1) AND status = 'running' AND claimed_by = $2`, ours, s.Instance)
		if err != nil && s.running.Err() == nil {
			s.Logger.Warn("keeping turns", "error", err)
		}
	}
}

// takeOver makes turns due again whose process says nothing of them any more, and those that this process claimed and does not
// run. A process that was only slow finds that the turn is another's: at worst a model was asked twice.
func (s *Service) takeOver(ctx context.Context) error {
	rows, err := s.Pool.Query(ctx, `SELECT conversation_id, step, claimed_by = $1 FROM loops
		WHERE status = 'running' AND (claimed_by = $1 OR coalesce(leased_at, '-infinity') < holdpoint_now() - $2 * interval '1 second')`, s.Instance, lease.Seconds())
	if err != nil {
		return fmt.Errorf("look for abandoned turns: %w", err)
	}
	type claim struct {
		ID   uuid.UUID
		Step int64
		Ours bool
	}
	claims, err := pgx.CollectRows(rows, pgx.RowToStructByPos[claim])
	if err != nil {
		return fmt.Errorf("look for abandoned turns: %w", err)
	}
	for _, c := range claims {
		if c.Ours && s.turns.has(c.ID) {
			continue
		}
		if err := s.giveBack(ctx, c.ID, c.Step, false); err != nil {
			return err
		}
	}
	return nil
}

// giveBack makes a turn due again that is running as a step. One that was only interrupted does not count as an attempt.
func (s *Service) giveBack(ctx context.Context, id uuid.UUID, step int64, interrupted bool) error {
	err := s.change(ctx, id, func(tx pgx.Tx, l *loop) error {
		if l.Status != Running || l.step != step {
			return nil
		}
		if interrupted && l.attempts > 0 {
			l.attempts--
		}
		if l.attempts >= maxAttempts {
			l.attempts = 0
			return s.finishRun(ctx, tx, l, ending{
				code: CodeModelFailed, notice: "The turn broke off again and again. Say something to try once more, or ask an operator to look at the log.",
			})
		}
		l.move(Due)
		return nil
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("give back turn of conversation %s: %w", id, err)
	}
	return nil
}

// recheck finds what got stuck although nothing was lost: turns whose job died with its process before it began, and
// conversations whose calls have ended without their having been told.
func (s *Service) recheck(ctx context.Context) error {
	return errors.Join(s.recheckQueued(ctx), s.recheckWaiting(ctx))
}

func (s *Service) recheckQueued(ctx context.Context) error {
	stuck, err := s.loops(ctx, `status = 'queued' AND moved_at < holdpoint_now() - $1 * interval '1 second'
		ORDER BY moved_at LIMIT 100`, stale.Seconds())
	if err != nil || len(stuck) == 0 {
		return err
	}
	alive, err := s.alive(ctx)
	if err != nil {
		return err
	}
	for _, l := range stuck {
		if l.jobID == nil || s.jobLives(ctx, l, alive) {
			continue
		}
		step := l.step
		err := s.change(ctx, l.ID, func(_ pgx.Tx, l *loop) error {
			if l.Status == Queued && l.step == step {
				l.move(Due)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) alive(ctx context.Context) ([]string, error) {
	rows, err := s.Pool.Query(ctx, call.LiveInstances)
	if err != nil {
		return nil, fmt.Errorf("read instances: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("read instances: %w", err)
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	return names, nil
}

// jobLives reports whether a queued turn's job will begin, or is about to. An error means: it is asked again. A running job of this
// process without a turn here is lost: River fetched it, and the answer got lost.
func (s *Service) jobLives(ctx context.Context, l *loop, alive []string) bool {
	job, err := s.river.JobGet(ctx, *l.jobID)
	if errors.Is(err, rivertype.ErrNotFound) {
		return false
	}
	if err != nil {
		return true
	}
	switch job.State {
	case rivertype.JobStateAvailable, rivertype.JobStateScheduled, rivertype.JobStateRetryable, rivertype.JobStatePending:
		return true
	case rivertype.JobStateRunning:
		if len(job.AttemptedBy) == 0 {
			return false
		}
		by := job.AttemptedBy[len(job.AttemptedBy)-1]
		return slices.Contains(alive, by) && (by != s.Instance.String() || s.turns.has(l.ID))
	default:
		return false
	}
}

// recheckWaiting looks at calls that conversations wait for, some at a time, in turn.
func (s *Service) recheckWaiting(ctx context.Context) error {
	rows, err := s.Pool.Query(ctx, `SELECT l.call_id, l.conversation_id FROM loop_calls l JOIN loops ON loops.conversation_id = l.conversation_id
		WHERE loops.status = 'waiting' AND NOT l.ended AND loops.moved_at < holdpoint_now() - $1 * interval '1 second' AND l.call_id > $2
		ORDER BY l.call_id LIMIT $3`, stale.Seconds(), s.checked, recheckMost)
	if err != nil {
		return fmt.Errorf("look for conversations that wait: %w", err)
	}
	of := map[uuid.UUID]uuid.UUID{}
	var ids []uuid.UUID
	var callID, conversation uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&callID, &conversation}, func() error {
		of[callID] = conversation
		ids = append(ids, callID)
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for conversations that wait: %w", err)
	}
	if s.checked = uuid.Nil; len(ids) == recheckMost {
		s.checked = ids[len(ids)-1]
	}
	ended, err := s.Calls.Ended(ctx, ids)
	if err != nil {
		return err
	}
	for callID := range ended {
		s.Logger.Warn("a call ended and its conversation had not been told", "call", callID, "conversation", of[callID])
		if err := s.missed(ctx, of[callID], callID); err != nil {
			return err
		}
	}
	return nil
}

// missed makes good for a call whose end a conversation had not been told.
func (s *Service) missed(ctx context.Context, conversation, callID uuid.UUID) error {
	known, err := s.Calls.Known(ctx, []uuid.UUID{callID})
	if err != nil {
		return err
	}
	return s.change(ctx, conversation, func(tx pgx.Tx, l *loop) error {
		tag, err := tx.Exec(ctx, `UPDATE loop_calls SET ended = true WHERE call_id = $1 AND NOT ended`, callID)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		c := known[callID]
		l.add(Entry{Kind: KindCall, Call: &CallNews{ID: callID, Tool: c.ExposedName, Status: string(c.Status), Code: c.Code}})
		if l.OpenCalls--; l.Status == Waiting && l.OpenCalls == 0 {
			l.move(Due)
		}
		return nil
	})
}
