package callback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

const (
	pollInterval = 5 * time.Second  // the safety net under notifications
	tidyInterval = 10 * time.Minute // about
	enqueueMost  = 500              // in one transaction

	// What is kept of a callback's messages.
	keepSettled  = 1000        // that were taken or given up
	keepWaiting  = 10_000      // that are still to be sent; older ones are given up
	keepFor      = "30 days"   // at most
	lostAfter    = "3 days"    // a message that still waits then has lost its job
	keepAttempts = 20          // of one message
	tidyTimeout  = time.Minute // of one look
)

// keepEnqueueing gives new messages their jobs, and forgets old ones.
func (s *Service) keepEnqueueing(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var tidied time.Time
	for {
		if err := s.enqueueAll(ctx); err != nil && !errors.Is(err, context.Canceled) {
			s.Logger.Warn("queueing callbacks", "error", err)
		}
		if now := s.Now(); now.Sub(tidied) >= tidyInterval {
			tidied = now
			if err := s.Tidy(ctx); err != nil && !errors.Is(err, context.Canceled) {
				s.Logger.Warn("forgetting old callbacks", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.wake:
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

// enqueue gives messages that have none a job, the oldest first. Several processes may do so at once: each takes others.
func (s *Service) enqueue(ctx context.Context) (n int, err error) {
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `WITH due AS (SELECT seq FROM callback_deliveries WHERE state = 'due' ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED),
				taken AS (UPDATE callback_deliveries d SET state = 'pending' FROM due WHERE d.seq = due.seq RETURNING d.seq, d.id, d.round)
			SELECT id, round FROM taken ORDER BY seq`, enqueueMost)
		if err != nil {
			return err
		}
		var jobs []river.InsertManyParams
		var id uuid.UUID
		var round int
		_, err = pgx.ForEachRow(rows, []any{&id, &round}, func() error {
			jobs = append(jobs, river.InsertManyParams{Args: deliverArgs{Delivery: id, Round: round}})
			return nil
		})
		if n = len(jobs); err != nil || n == 0 {
			return err
		}
		_, err = s.river.InsertManyFastTx(ctx, tx, jobs)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("queue callbacks: %w", err)
	}
	return n, nil
}

// Tidy keeps the log bounded: per callback, [keepSettled] messages that were taken or given up, none older than
// [keepFor]. Of what is still to be sent it gives up the oldest beyond [keepWaiting], and what lost its job.
func (s *Service) Tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	for _, step := range []struct {
		sql  string
		args []any
	}{
		// What was sent again lately is as old as that.
		{`UPDATE callback_deliveries d SET state = 'failed', error = 'it was given up: no attempt was made for days'
			WHERE state = 'pending' AND at < holdpoint_now() - interval '` + lostAfter + `'
				AND coalesce(greatest(not_before, (SELECT max(t.at) FROM callback_attempts t WHERE t.delivery_id = d.id))
					< holdpoint_now() - interval '` + lostAfter + `', true)`, nil},
		{`WITH last AS MATERIALIZED (` + beyondSQL("'due', 'pending'") + `)
			UPDATE callback_deliveries d SET state = 'failed', error = 'it was given up: too many messages wait' FROM last
			WHERE d.callback_id = last.id AND d.seq <= last.seq AND d.state IN ('due', 'pending')`, []any{keepWaiting}},
		{`WITH last AS MATERIALIZED (` + beyondSQL("'delivered', 'failed'") + `)
			DELETE FROM callback_deliveries d USING last
			WHERE d.callback_id = last.id AND d.seq <= last.seq AND d.state IN ('delivered', 'failed')`, []any{keepSettled}},
		{`DELETE FROM callback_deliveries d WHERE state IN ('delivered', 'failed') AND at < holdpoint_now() - interval '` + keepFor + `'
			OR NOT EXISTS (SELECT FROM callbacks k WHERE k.id = d.callback_id)`, nil},
		{`DELETE FROM callback_secrets WHERE expires_at < holdpoint_now()`, nil},
	} {
		if _, err := s.Pool.Exec(ctx, step.sql, step.args...); err != nil {
			return fmt.Errorf("tidy callbacks: %w", err)
		}
	}
	return nil
}

// beyondSQL finds, for each callback, the newest message that is one too many of those in some states.
func beyondSQL(states string) string {
	return `SELECT k.id, (SELECT seq FROM callback_deliveries w WHERE w.callback_id = k.id AND w.state IN (` + states + `)
		ORDER BY seq DESC OFFSET $1 LIMIT 1) AS seq FROM callbacks k`
}
