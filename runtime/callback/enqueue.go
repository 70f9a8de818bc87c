package callback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

const (
	pollInterval = 5 * time.Second  // in case a notification is missed
	tidyInterval = 10 * time.Minute // at least
	maxEnqueued  = 500              // messages in one transaction

	// Bounds of the log of a callback.
	keepSettled  = 1000        // delivered or failed messages
	keepWaiting  = 10_000      // unsent messages; older ones are given up
	lostAfter    = "3 days"    // an unsent message of this age has lost its job
	keepAttempts = 20          // of a message
	tidyTimeout  = time.Minute // of one run
)

// runEnqueueing inserts jobs for new messages and tidies the log, until ctx ends.
func (s *Service) runEnqueueing(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var tidied time.Time
	for {
		if err := s.enqueueAll(ctx); err != nil && !errors.Is(err, context.Canceled) {
			s.Logger.Warn("enqueue callbacks", "error", err)
		}
		if now := s.Now(); now.Sub(tidied) >= tidyInterval {
			tidied = now
			if err := s.Tidy(ctx); err != nil && !errors.Is(err, context.Canceled) {
				s.Logger.Warn("tidy callbacks", "error", err)
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
		n, err := s.enqueueDue(ctx)
		if err != nil || n < maxEnqueued {
			return err
		}
	}
}

// enqueueDue inserts jobs for messages without one, the oldest first, and returns their number. Several processes can run it
// at once: each takes different messages.
func (s *Service) enqueueDue(ctx context.Context) (n int, err error) {
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `WITH due AS (SELECT seq FROM callback_deliveries WHERE state = 'due' ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED),
				taken AS (UPDATE callback_deliveries d SET state = 'pending' FROM due WHERE d.seq = due.seq RETURNING d.seq, d.id, d.round)
			SELECT id, round FROM taken ORDER BY seq`, maxEnqueued)
		var jobs []river.InsertManyParams
		var id uuid.UUID
		var round int
		_, err := pgx.ForEachRow(rows, []any{&id, &round}, func() error {
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
		return 0, fmt.Errorf("enqueue callbacks: %w", err)
	}
	return n, nil
}

// Tidy bounds the log: for each callback it keeps [keepSettled] delivered or failed messages, none older than [Config.Keep], unless a legal hold covers them. It
// gives up the oldest unsent messages beyond [keepWaiting], and those that lost their job.
func (s *Service) Tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	for _, step := range []struct {
		sql  string
		args []any
	}{
		// The age of a message that was sent again counts from then.
		{`UPDATE callback_deliveries d SET state = 'failed', error = 'it was given up: no attempt was made for days'
			WHERE state = 'pending' AND at < holdpoint_now() - interval '` + lostAfter + `'
				AND coalesce(greatest(not_before, (SELECT max(t.at) FROM callback_attempts t WHERE t.delivery_id = d.id))
					< holdpoint_now() - interval '` + lostAfter + `', true)`, nil},
		{`WITH last AS MATERIALIZED (` + beyondSQL("'due', 'pending'") + `)
			UPDATE callback_deliveries d SET state = 'failed', error = 'it was given up: too many messages wait' FROM last
			WHERE d.callback_id = last.id AND d.seq <= last.seq AND d.state IN ('due', 'pending')`, []any{keepWaiting}},
		{`WITH last AS MATERIALIZED (` + beyondSQL("'delivered', 'failed'") + `)
			DELETE FROM callback_deliveries d USING last
			WHERE d.callback_id = last.id AND d.seq <= last.seq AND d.state IN ('delivered', 'failed') AND NOT ` + heldSQL(), []any{keepSettled}},
		{`DELETE FROM callback_deliveries d WHERE state IN ('delivered', 'failed') AND at < holdpoint_now() - $1 * interval '1 second' AND NOT ` + heldSQL() + `
			OR NOT EXISTS (SELECT FROM callbacks k WHERE k.id = d.callback_id)`, []any{s.Keep.Seconds()}},
		{`DELETE FROM callback_secrets WHERE expires_at < holdpoint_now()`, nil},
	} {
		if err := legalhold.Exec(ctx, s.Pool, step.sql, step.args...); err != nil {
			return fmt.Errorf("tidy callbacks: %w", err)
		}
	}
	return nil
}

// heldSQL is an SQL condition: a legal hold covers the message d.
func heldSQL() string {
	return legalhold.HeldSQL("(SELECT k.agent_id FROM callbacks k WHERE k.id = d.callback_id)", "d.at", "d.at")
}

// beyondSQL selects, for each callback, the newest message beyond the first $1 in these states.
func beyondSQL(states string) string {
	return `SELECT k.id, (SELECT seq FROM callback_deliveries w WHERE w.callback_id = k.id AND w.state IN (` + states + `)
		ORDER BY seq DESC OFFSET $1 LIMIT 1) AS seq FROM callbacks k`
}
