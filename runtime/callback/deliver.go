package callback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// deliverArgs is a job that sends a message.
type deliverArgs struct {
	Delivery uuid.UUID `json:"delivery"`
	Round    int       `json:"round"`
}

func (deliverArgs) Kind() string { return "callback_deliver" }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (deliverArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: JobQueue, MaxAttempts: len(retryDelays()) + 1}
}

// retryDelays are the delays before retries: about a day in all.
func retryDelays() []time.Duration {
	return []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 10 * time.Hour,
	}
}

// retryDelay returns the delay after an attempt, the first being 1. It adds up to a fifth at random, so that messages that
// failed together are not retried together.
func retryDelay(attempt int) time.Duration {
	all := retryDelays()
	d := all[min(max(attempt-1, 0), len(all)-1)]
	return d + time.Duration(rand.Int64N(int64(d)/5)) //nolint:gosec // only spreads load
}

const (
	// crowdedPause is the delay of a message while its callback has maxInFlight requests.
	crowdedPause = 5 * time.Second
	// jobMargin is the time of a job besides the request.
	jobMargin = 15 * time.Second
)

type deliverWorker struct {
	river.WorkerDefaults[deliverArgs]
	service *Service
}

// Timeout implements [river.Worker].
func (w *deliverWorker) Timeout(*river.Job[deliverArgs]) time.Duration {
	return w.service.Timeout + jobMargin
}

// NextRetry implements [river.Worker].
func (w *deliverWorker) NextRetry(job *river.Job[deliverArgs]) time.Time {
	return w.service.Now().Add(retryDelay(job.Attempt))
}

// Work sends a message once. A message that is not accepted is retried, unless the receiver is gone.
func (w *deliverWorker) Work(ctx context.Context, job *river.Job[deliverArgs]) error {
	s := w.service
	m, err := s.readMessage(ctx, job.Args.Delivery)
	if errors.Is(err, ErrNotFound) {
		return nil // it was deleted
	}
	if err != nil {
		return err
	}
	if m.state != statePending || m.round != job.Args.Round {
		return nil // it was given up, or another job sends it
	}
	if m.wait > 0 {
		return river.JobSnooze(m.wait)
	}
	if !s.acquireSlot(m.callback) {
		return river.JobSnooze(crowdedPause)
	}
	defer s.releaseSlot(m.callback)
	state, err := s.attemptDelivery(ctx, m, job.Attempt >= job.MaxAttempts)
	switch {
	case err == nil || state == statePending:
		return err
	default: // the error is in the log
		return river.JobCancel(err)
	}
}

// acquireSlot takes one of a callback's slots for requests. It returns false if all are taken.
func (s *Service) acquireSlot(callback uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[callback] >= maxInFlight {
		return false
	}
	s.busy[callback]++
	return true
}

func (s *Service) releaseSlot(callback uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[callback]--; s.busy[callback] == 0 {
		delete(s.busy, callback)
	}
}

// The states of a message.
const (
	statePending   = "pending"
	stateDelivered = "delivered"
	stateFailed    = "failed"
)

// attemptDelivery sends a message once and records the result. It returns the new state and the error. last: there is no
// retry.
func (s *Service) attemptDelivery(ctx context.Context, m *message, last bool) (state string, err error) {
	began := s.Now()
	answer := s.postMessage(ctx, m)
	if ctx.Err() != nil && answer.Status == 0 {
		return statePending, fmt.Errorf("send callback %s: %w", m.id, ctx.Err()) // the process is stopping: not an attempt
	}
	state = statePending
	switch {
	case answer.Verdict == receiver.Taken:
		state = stateDelivered
	case last || answer.Status == http.StatusGone:
		state = stateFailed
	}
	// The result is recorded even if the process is stopping.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobMargin/2)
	defer cancel()
	if err := s.recordAttempt(ctx, m, answer, state, s.Now().Sub(began)); err != nil {
		return statePending, fmt.Errorf("record callback %s: %w", m.id, err)
	}
	if answer.Err != nil {
		return state, fmt.Errorf("send callback %s: %w", m.id, answer.Err)
	}
	return state, nil
}

// postMessage signs and posts a message. Each attempt has a new signature with its own time.
func (s *Service) postMessage(ctx context.Context, m *message) receiver.Answer {
	fail := func(text string, err error) receiver.Answer {
		s.Logger.Error("send callback", "callback", m.callback, "message", m.id, "error", err)
		return receiver.Answer{Verdict: receiver.Later, Err: errors.New(text)}
	}
	address, err := s.Box.Open(m.sealed, secret.For(callbackPurpose, m.callback))
	if err != nil {
		return fail("its URL cannot be decrypted with this server's key", err)
	}
	signers, err := s.readSigners(ctx, m.callback)
	if err != nil {
		return fail("its secrets cannot be read", err)
	}
	body, err := json.Marshal(m.payload)
	if err != nil {
		return fail("it cannot be encoded", err)
	}
	now := s.Now()
	signatures := make([]string, len(signers))
	for i, signer := range signers {
		if signatures[i], err = signer.Sign(m.id.String(), now, body); err != nil {
			return fail("it cannot be signed", err)
		}
	}
	if len(signatures) == 0 {
		return fail("it cannot be signed", errors.New("the callback has no secret"))
	}
	header := http.Header{}
	header.Set(standardwebhooks.HeaderWebhookID, m.id.String())
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	answer := receiver.Post(ctx, s.client, string(address), header, body, now)
	if answer.Cause != nil && ctx.Err() == nil {
		s.Logger.Warn("deliver callback", "callback", m.callback, "message", m.id, "error", answer.Cause)
	}
	return answer
}

// recordAttempt records an attempt. It locks the callback's row first.
func (s *Service) recordAttempt(ctx context.Context, m *message, answer receiver.Answer, state string, took time.Duration) error {
	gone := answer.Status == http.StatusGone
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		column, text := "sent_at", ""
		if answer.Err != nil {
			column, text = "failed_at", answer.Err.Error()
		}
		tag, err := tx.Exec(ctx, `UPDATE callbacks SET `+column+` = holdpoint_now(), error = nullif($2, '') WHERE id = $1`, m.callback, text)
		if err != nil || tag.RowsAffected() == 0 {
			return err // the callback and its log were deleted
		}
		var number int
		err = tx.QueryRow(ctx, `UPDATE callback_deliveries SET attempts = attempts + 1, error = nullif($2, ''),
				state = CASE WHEN round = $3 THEN $4 ELSE state END,
				not_before = CASE WHEN $5 > 0 THEN holdpoint_now() + $5 * interval '1 microsecond' END
			WHERE id = $1 RETURNING attempts`, m.id, text, m.round, state, answer.RetryAfter.Microseconds()).Scan(&number)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // the message was deleted
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
		return m.disableReceiver(ctx, tx)
	})
	if err == nil && gone {
		s.Logger.Info("callback disabled: its receiver answered 410 Gone", "callback", m.callback, "agent", m.agent)
		s.Invalidate()
	}
	return err
}

// disableReceiver disables the callback of a message whose receiver answered 410 Gone.
func (m *message) disableReceiver(ctx context.Context, tx pgx.Tx) error {
	if m.disabled {
		return nil // a test of a disabled callback
	}
	changed, err := disableCallback(ctx, tx, m.callback, ByReceiver)
	if err != nil || !changed {
		return err // it was disabled before
	}
	err = audit.Write(ctx, tx, audit.Event{
		Actor: audit.System(), Action: audit.CallbackDisabled, Subject: m.callback,
		Data: map[string]any{"agent": m.agent, "name": m.name, "host": m.host, "reason": ByReceiver},
	})
	if err != nil {
		return err
	}
	return registry.Notify(ctx, tx)
}

// MessageType is the type of a message: a [call.HappeningKind], or [TypeTest].
type MessageType string

// TypeTest is the type of a test message.
const TypeTest MessageType = "callback.test"

// Payload is the body of a message. It holds no arguments or results of the call.
type Payload struct {
	Type      MessageType `json:"type"`
	Timestamp time.Time   `json:"timestamp"` // of the event
	Data      Data        `json:"data"`
}

// Data is the data of a payload. In a test, only the agent is set.
type Data struct {
	CallID         *uuid.UUID `json:"call_id,omitempty"`
	Agent          string     `json:"agent"`
	Status         string     `json:"status,omitempty"`
	Code           string     `json:"code,omitempty"`
	Tool           string     `json:"tool,omitempty"`
	ConversationID *uuid.UUID `json:"conversation_id,omitempty"`
}

// message is a message to be sent.
type message struct {
	id       uuid.UUID
	callback uuid.UUID
	agent    string
	name     string
	host     string
	sealed   []byte // the URL
	disabled bool
	state    string
	round    int
	wait     time.Duration // that the receiver asked for
	payload  Payload
}

// readMessage returns a message, or [ErrNotFound].
func (s *Service) readMessage(ctx context.Context, id uuid.UUID) (*message, error) {
	m := &message{id: id}
	var agentID uuid.UUID
	var seconds float64
	p := &m.payload
	err := s.Pool.QueryRow(ctx, `SELECT k.id, k.agent_id, k.name, k.hint, k.sealed, k.disabled_at IS NOT NULL, d.state, d.round,
			coalesce(extract(epoch FROM d.not_before - holdpoint_now()), 0)::float8,
			d.type, d.at, d.call_id, coalesce(d.status, ''), coalesce(d.code, ''), coalesce(d.tool, ''), d.conversation_id
		FROM callback_deliveries d JOIN callbacks k ON k.id = d.callback_id WHERE d.id = $1`, id).
		Scan(&m.callback, &agentID, &m.name, &m.host, &m.sealed, &m.disabled, &m.state, &m.round, &seconds,
			&p.Type, &p.Timestamp, &p.Data.CallID, &p.Data.Status, &p.Data.Code, &p.Data.Tool, &p.Data.ConversationID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("callback message %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read callback message %s: %w", id, err)
	}
	m.wait = time.Duration(seconds * float64(time.Second))
	names, err := agent.Names(ctx, s.Pool, []uuid.UUID{agentID})
	if err != nil {
		return nil, err
	}
	m.agent = names[agentID]
	p.Data.Agent, p.Timestamp = m.agent, p.Timestamp.UTC()
	return m, nil
}
