package callback

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// deliverArgs name a message that is to be sent.
type deliverArgs struct {
	Delivery uuid.UUID `json:"delivery"`
	Round    int       `json:"round"`
}

func (deliverArgs) Kind() string { return "callback_deliver" }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (deliverArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: JobQueue, MaxAttempts: len(delays()) + 1}
}

// delays are the pauses before a message is tried again: about a day in all.
func delays() []time.Duration {
	return []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 10 * time.Hour,
	}
}

// delay is the pause after an attempt, the first being 1, with up to a fifth more, so that what failed together does not
// come back together.
func delay(attempt int) time.Duration {
	all := delays()
	d := all[min(max(attempt-1, 0), len(all)-1)]
	return d + time.Duration(rand.Int64N(int64(d)/5)) //nolint:gosec // it spreads load and protects nothing
}

const (
	// crowdedPause is how long a message waits when its callback has as many under way as it may.
	crowdedPause = 5 * time.Second
	// margin is what a job may take besides the request.
	margin = 15 * time.Second
)

type deliverWorker struct {
	river.WorkerDefaults[deliverArgs]
	service *Service
}

// Timeout implements [river.Worker].
func (w *deliverWorker) Timeout(*river.Job[deliverArgs]) time.Duration {
	return w.service.Timeout + margin
}

// NextRetry implements [river.Worker].
func (w *deliverWorker) NextRetry(job *river.Job[deliverArgs]) time.Time {
	return w.service.Now().Add(delay(job.Attempt))
}

// Work sends a message once. Whatever is not taken is tried again, but by a receiver that is gone.
func (w *deliverWorker) Work(ctx context.Context, job *river.Job[deliverArgs]) error {
	s := w.service
	m, err := s.message(ctx, job.Args.Delivery)
	if errors.Is(err, ErrNotFound) {
		return nil // it was forgotten meanwhile
	}
	if err != nil {
		return err
	}
	if m.state != statePending || m.round != job.Args.Round {
		return nil // it was given up, or another job has it
	}
	if m.wait > 0 {
		return river.JobSnooze(m.wait)
	}
	if !s.enter(m.callback) {
		return river.JobSnooze(crowdedPause)
	}
	defer s.leave(m.callback)
	state, err := s.attempt(ctx, m, job.Attempt >= job.MaxAttempts)
	switch {
	case err == nil || state == statePending:
		return err
	default: // the log says why
		return river.JobCancel(err)
	}
}

// The states of a message.
const (
	statePending   = "pending"
	stateDelivered = "delivered"
	stateFailed    = "failed"
)

// attempt sends a message once, and writes down what came of it: the state that it has by then, and what was wrong. last: it
// is not tried again.
func (s *Service) attempt(ctx context.Context, m *message, last bool) (state string, err error) {
	began := s.Now()
	answer := s.send(ctx, m)
	if ctx.Err() != nil && answer.Status == 0 {
		return statePending, fmt.Errorf("send callback %s: %w", m.id, ctx.Err()) // the process stops: it was no attempt
	}
	state = statePending
	switch {
	case answer.Verdict == receiver.Taken:
		state = stateDelivered
	case last || answer.Status == http.StatusGone:
		state = stateFailed
	}
	// What was sent is written down although the process is about to stop.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), margin/2)
	defer cancel()
	if err := s.note(ctx, m, answer, state, s.Now().Sub(began)); err != nil {
		return statePending, fmt.Errorf("note callback %s: %w", m.id, err)
	}
	if answer.Err != nil {
		return state, fmt.Errorf("send callback %s: %w", m.id, answer.Err)
	}
	return state, nil
}

// note writes down an attempt. The lock of the callback comes first.
func (s *Service) note(ctx context.Context, m *message, answer receiver.Answer, state string, took time.Duration) error {
	gone := answer.Status == http.StatusGone
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		column, text := "sent_at", ""
		if answer.Err != nil {
			column, text = "failed_at", answer.Err.Error()
		}
		tag, err := tx.Exec(ctx, `UPDATE callbacks SET `+column+` = holdpoint_now(), error = nullif($2, '') WHERE id = $1`, m.callback, text)
		if err != nil || tag.RowsAffected() == 0 {
			return err // it was deleted, and its log with it
		}
		var number int
		err = tx.QueryRow(ctx, `UPDATE callback_deliveries SET attempts = attempts + 1, error = nullif($2, ''),
				state = CASE WHEN round = $3 THEN $4 ELSE state END,
				not_before = CASE WHEN $5 > 0 THEN holdpoint_now() + $5 * interval '1 microsecond' END
			WHERE id = $1 RETURNING attempts`, m.id, text, m.round, state, answer.RetryAfter.Microseconds()).Scan(&number)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // it was forgotten
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO callback_attempts (delivery_id, number, duration_ms, http_status, error)
			VALUES ($1, $2, $3, nullif($4, 0), nullif($5, ''))`, m.id, number, took.Milliseconds(), answer.Status, text)
		if err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, `DELETE FROM callback_attempts WHERE delivery_id = $1 AND number <= $2`, m.id, number-keepAttempts); err != nil || !gone {
			return err
		}
		return m.disable(ctx, tx)
	})
	if err == nil && gone {
		s.Logger.Info("a callback is disabled: its receiver answered that it is gone", "callback", m.callback, "agent", m.agent)
		s.Invalidate()
	}
	return err
}

// disable disables the callback of a message, whose receiver is gone.
func (m *message) disable(ctx context.Context, tx pgx.Tx) error {
	if m.disabled {
		return nil // a test was sent to it
	}
	changed, err := disable(ctx, tx, m.callback, ByReceiver)
	if err != nil || !changed {
		return err // another message, or an operator, was first
	}
	err = audit.Write(ctx, tx, audit.Event{
		Actor: audit.System(), Action: "callback.disabled", Subject: m.callback,
		Data: map[string]any{"agent": m.agent, "name": m.name, "host": m.host, "reason": ByReceiver},
	})
	if err != nil {
		return err
	}
	return registry.Notify(ctx, tx)
}
