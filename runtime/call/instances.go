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
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	beatInterval = 2 * time.Second
	// silence is how long an instance may miss its heartbeats before its claims are taken away.
	silence = 15 * time.Second
	// After an outage of the database everyone's heartbeat is old. So an instance that missed
	// beats itself judges others only after as many in a row as they have time for, and nobody
	// does while the database has just started.
	steadyBeats   = int(silence/beatInterval) + 1
	databaseGrace = silence + 3*beatInterval

	sweepBeats = 150 // five minutes
)

// beat writes this instance's heartbeat.
func (s *Service) beat(ctx context.Context) error {
	_, err := s.Pool.Exec(ctx, `INSERT INTO instances (id) VALUES ($1)
		ON CONFLICT (id) DO UPDATE SET heartbeat_at = holdpoint_now()`, s.Instance)
	if err != nil {
		return fmt.Errorf("write heartbeat of instance %s: %w", s.Instance, err)
	}
	return nil
}

// keepBeating writes the heartbeat and, while it is steady, takes over from instances that fell silent.
func (s *Service) keepBeating() {
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	steady, beats := steadyBeats, 0
	last := s.Now()
	for {
		select {
		case <-s.running.Done():
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(s.running, silence/2)
		err := s.beat(ctx)
		now := s.Now()
		if err != nil || now.Sub(last) > 3*beatInterval {
			steady = 0 // the database, or this process, was away
		}
		last = now
		if err == nil {
			if steady++; steady >= steadyBeats {
				err = errors.Join(s.takeOver(ctx), s.reconcile(ctx))
				if beats%sweepBeats == 0 {
					err = errors.Join(err, s.sweep(ctx))
				}
				beats++
			}
		}
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			s.Logger.Warn("heartbeat", "instance", s.Instance, "error", err)
		}
	}
}

// takeOver ends the claims of instances that fell silent: their calls become
// unknown, and approved calls that nobody claimed get a new job, since theirs may
// have died with the instance.
func (s *Service) takeOver(ctx context.Context) error {
	var lost []uuid.UUID
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		dead, err := readIDs(ctx, tx, `DELETE FROM instances WHERE id IN (
			SELECT id FROM instances WHERE heartbeat_at < holdpoint_now() - $1 * interval '1 second' AND id <> $2
				AND pg_postmaster_start_time() < clock_timestamp() - $3 * interval '1 second'
			FOR UPDATE SKIP LOCKED) RETURNING id`, silence.Seconds(), s.Instance, databaseGrace.Seconds())
		if err != nil {
			return fmt.Errorf("find silent instances: %w", err)
		}
		if len(dead) == 0 {
			return nil
		}
		s.Logger.Warn("instances fell silent; taking over", "instances", dead)
		if lost, err = s.markUnknown(ctx, tx, dead); err != nil {
			return err
		}
		return s.enqueueApproved(ctx, tx, 0)
	})
	if err != nil {
		return fmt.Errorf("take over from silent instances: %w", err)
	}
	s.tellOf(ctx, lost...)
	for _, id := range lost {
		s.hub.wake(id, nil)
	}
	return nil
}

const lostMessage = "the process that sent the call stopped before an answer came; the call may have been executed"

func (s *Service) markUnknown(ctx context.Context, tx pgx.Tx, dead []uuid.UUID) ([]uuid.UUID, error) {
	lost, err := readIDs(ctx, tx, `UPDATE calls SET status = 'unknown', code = $2, effect = $3, message = $4,
			finished_at = holdpoint_now()
		WHERE claimed_by = ANY($1) AND status = 'executing' RETURNING id`,
		dead, CodeOutcomeUnknown, tool.EffectPossible, lostMessage)
	if err != nil {
		return nil, fmt.Errorf("mark calls unknown: %w", err)
	}
	for _, id := range lost {
		event := audit.Event{Actor: audit.System(), Action: "call.unknown", Subject: id}
		if err := s.ended(ctx, tx, id, event); err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// reconcile takes care of claims of this instance that it is not sending: their
// commit was never confirmed, so they were never sent. A call is in flight from before
// its claim until after its outcome is written, so what is not in flight here is truly idle.
//
// There are such claims only after an error that left a commit in doubt; the search reads the whole table.
func (s *Service) reconcile(ctx context.Context) (err error) {
	if !s.doubtful.Swap(false) {
		return nil
	}
	defer func() {
		if err != nil {
			s.doubtful.Store(true)
		}
	}()
	claimed, err := readIDs(ctx, s.Pool, `SELECT id FROM calls WHERE claimed_by = $1 AND status = 'executing'`, s.Instance)
	if err != nil {
		return fmt.Errorf("find claims of instance %s: %w", s.Instance, err)
	}
	for _, id := range claimed {
		if !s.flights.add(id) {
			continue
		}
		err := s.giveBack(ctx, id)
		s.flights.release(id)
		if err != nil {
			return err
		}
		s.hub.wake(id, nil)
	}
	return nil
}

// giveBack lets an approved call be claimed again, and ends an auto-approved one unsent.
func (s *Service) giveBack(ctx context.Context, id uuid.UUID) error {
	c, err := s.load(ctx, id)
	if err != nil {
		return err
	}
	if c.Status != Executing || c.claimedBy != s.Instance {
		return nil
	}
	s.Logger.Warn("a call was claimed and never sent", "call", id, "gated", c.Gated)
	if !c.Gated {
		return s.deny(ctx, c, &refusal{
			status: Failed, code: string(tool.TransportFailure), failure: tool.TransportFailure,
			message: "the call was recorded but never sent",
		})
	}
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE calls SET status = 'approved', claimed_by = NULL, claimed_at = NULL
			WHERE id = $1 AND status = 'executing' AND claimed_by = $2`, id, s.Instance)
		if err != nil {
			return fmt.Errorf("give back call %s: %w", id, err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		event := audit.Event{Actor: audit.System(), Action: "call.given_back", Subject: id}
		if err := audit.Write(ctx, tx, event); err != nil {
			return err
		}
		return s.enqueue(ctx, tx, []uuid.UUID{id})
	})
}

// sweep looks, now and then, for what no single event tells of: claims of instances that are gone
// (one that was frozen while it was judged may still have claimed), and approved calls whose job is gone. It
// reads the whole table.
func (s *Service) sweep(ctx context.Context) error {
	var lost []uuid.UUID
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		gone, err := readIDs(ctx, tx, `SELECT DISTINCT claimed_by FROM calls
			WHERE status = 'executing' AND claimed_at < holdpoint_now() - $1 * interval '1 second'
				AND NOT EXISTS (SELECT FROM instances WHERE instances.id = calls.claimed_by)`, silence.Seconds())
		if err != nil {
			return fmt.Errorf("find claims of nobody: %w", err)
		}
		if len(gone) > 0 {
			if lost, err = s.markUnknown(ctx, tx, gone); err != nil {
				return err
			}
		}
		return s.enqueueApproved(ctx, tx, silence)
	})
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	s.tellOf(ctx, lost...)
	for _, id := range lost {
		s.hub.wake(id, nil)
	}
	return nil
}

// enqueueApproved gives every call that was approved that long ago and that
// nobody claimed a job. Jobs beyond the first find the call claimed.
func (s *Service) enqueueApproved(ctx context.Context, tx pgx.Tx, age time.Duration) error {
	ids, err := readIDs(ctx, tx, `SELECT id FROM calls WHERE status = 'approved'`)
	if err != nil {
		return fmt.Errorf("find approved calls: %w", err)
	}
	if len(ids) > 0 && age > 0 {
		if ids, err = approval.DecidedBefore(ctx, tx, ids, age); err != nil {
			return err
		}
	}
	return s.enqueue(ctx, tx, ids)
}

func (s *Service) enqueue(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	jobs := make([]river.InsertManyParams, len(ids))
	for i, id := range ids {
		jobs[i] = river.InsertManyParams{Args: executeArgs{CallID: id}}
	}
	if _, err := s.river.InsertManyFastTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("insert execute jobs: %w", err)
	}
	return nil
}

func readIDs(ctx context.Context, db approval.Querier, sql string, args ...any) ([]uuid.UUID, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
