package callback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Delivery is a message to a callback and its result.
type Delivery struct {
	ID             uuid.UUID // the webhook-id
	Type           MessageType
	At             time.Time // of the event
	CallID         uuid.UUID // uuid.Nil: a test
	ConversationID uuid.UUID
	Tool           string
	Status         string
	Code           string
	State          string    // waiting, delivered, failed
	Error          string    // why it, or the last attempt, failed
	Attempts       int       // in all
	Log            []Attempt // the last [keepAttempts] attempts, the newest first

	seq int64
}

// Attempt is an attempt to send a message.
type Attempt struct {
	Number     int
	At         time.Time     // its end
	Duration   time.Duration // zero without an answer: it would tell open ports from closed ones
	HTTPStatus int           // zero: no answer
	Error      string        // empty: the message was accepted
}

const (
	defaultPage = 50
	maxPage     = 200
)

// Deliveries returns the messages to a callback before a cursor (zero: all), the newest first, and the cursor of the next
// page; zero: this is the last page.
func (s *Service) Deliveries(ctx context.Context, callback uuid.UUID, before int64, limit int) ([]Delivery, int64, error) {
	if limit <= 0 || limit > maxPage {
		limit = defaultPage
	}
	found, err := queryDeliveries(ctx, s.Pool, `callback_id = $1 AND ($2 = 0 OR seq < $2) ORDER BY seq DESC LIMIT $3`, callback, before, limit+1)
	if err != nil || len(found) <= limit {
		return found, 0, err
	}
	return found[:limit], found[limit-1].seq, nil
}

// Resend sends a message again at once, with its webhook-id and all retries, even if it was delivered or waits for a retry.
// Errors: [ErrNotFound], [ErrDisabled].
func (s *Service) Resend(ctx context.Context, by audit.Actor, a *agent.Agent, name string, id uuid.UUID) (d Delivery, err error) {
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		c, err := s.findCallback(ctx, tx, a.ID, name)
		if err != nil {
			return err
		}
		if c.DisabledAt != nil {
			return ErrDisabled
		}
		tag, err := tx.Exec(ctx, `UPDATE callback_deliveries SET state = 'due', round = round + 1, not_before = holdpoint_now()
			WHERE callback_id = $1 AND id = $2`, c.ID, id)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		if _, err := tx.Exec(ctx, `SELECT pg_notify($1, '')`, Channel); err != nil {
			return err
		}
		if d, err = findDelivery(ctx, tx, c.ID, id); err != nil {
			return err
		}
		event := c.auditEvent(by, a, audit.CallbackResent)
		event.Data["delivery"] = id
		return audit.Write(ctx, tx, event)
	})
	if err != nil {
		return Delivery{}, fmt.Errorf("resend message %s: %w", id, err)
	}
	s.HandleNotification()
	return d, nil
}

// Test sends a test message once, also to a disabled callback, and returns the result. Error: [ErrNotFound].
func (s *Service) Test(ctx context.Context, by audit.Actor, a *agent.Agent, name string) (Delivery, error) {
	d, err := s.sendTest(ctx, by, a, name)
	if err != nil {
		return Delivery{}, fmt.Errorf("test callback of agent %s: %w", a.Name, err)
	}
	return d, nil
}

func (s *Service) sendTest(ctx context.Context, by audit.Actor, a *agent.Agent, name string) (Delivery, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Delivery{}, err
	}
	var c Callback
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if c, err = s.findCallback(ctx, tx, a.ID, name); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO callback_deliveries (id, callback_id, type, state) VALUES ($1, $2, $3, $4)`,
			id, c.ID, TypeTest, statePending)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, c.auditEvent(by, a, audit.CallbackTested))
	})
	if err != nil {
		return Delivery{}, err
	}
	m, err := s.readMessage(ctx, id)
	if err != nil {
		return Delivery{}, err
	}
	if state, err := s.attemptDelivery(ctx, m, true); err != nil && state == statePending {
		_, failure := s.Pool.Exec(context.WithoutCancel(ctx), `UPDATE callback_deliveries SET state = 'failed', error = 'it was broken off'
			WHERE id = $1 AND state = 'pending'`, id)
		return Delivery{}, errors.Join(err, failure)
	}
	return findDelivery(ctx, s.Pool, c.ID, id)
}

func findDelivery(ctx context.Context, db postgres.Querier, callback, id uuid.UUID) (Delivery, error) {
	found, err := queryDeliveries(ctx, db, `callback_id = $1 AND id = $2`, callback, id)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Delivery{}, err
	}
	return found[0], nil
}

func queryDeliveries(ctx context.Context, db postgres.Querier, where string, args ...any) ([]Delivery, error) {
	rows, _ := db.Query(ctx, `SELECT `+deliveryColumns+` FROM callback_deliveries WHERE `+where, args...)
	found, err := pgx.CollectRows(rows, scanDelivery)
	if err != nil {
		return nil, fmt.Errorf("read callback messages: %w", err)
	}
	ids := make([]uuid.UUID, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	if rows, err = db.Query(ctx, `SELECT delivery_id, number, at, duration_ms, coalesce(http_status, 0), coalesce(error, '')
		FROM callback_attempts WHERE delivery_id = ANY($1) ORDER BY number DESC`, ids); err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	var id uuid.UUID
	var a Attempt
	var ms int64
	_, err = pgx.ForEachRow(rows, []any{&id, &a.Number, &a.At, &ms, &a.HTTPStatus, &a.Error}, func() error {
		a.Duration = 0
		if a.HTTPStatus != 0 {
			a.Duration = time.Duration(ms) * time.Millisecond
		}
		if i := slices.Index(ids, id); i >= 0 {
			found[i].Log = append(found[i].Log, a)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	return found, nil
}

const deliveryColumns = `seq, id, type, at, call_id, conversation_id, coalesce(tool, ''), coalesce(status, ''), coalesce(code, ''),
	CASE WHEN state IN ('due', 'pending') THEN 'waiting' ELSE state END, coalesce(error, ''), attempts`

func scanDelivery(row pgx.CollectableRow) (Delivery, error) {
	var d Delivery
	var call, conversation *uuid.UUID
	err := row.Scan(&d.seq, &d.ID, &d.Type, &d.At, &call, &conversation, &d.Tool, &d.Status, &d.Code, &d.State, &d.Error, &d.Attempts)
	d.CallID, d.ConversationID = postgres.OrNil(call), postgres.OrNil(conversation)
	return d, err
}
