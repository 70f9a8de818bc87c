package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// webhookPurpose binds an encrypted URL to its row.
const webhookPurpose = "webhook"

// Webhook is an incoming webhook of a chat. Its URL is a credential and is never shown.
type Webhook struct {
	ID        uuid.UUID
	Name      string
	Team      string // that it is notified for; empty: all teams
	Host      string // of the URL
	CreatedAt time.Time
	CreatedBy uuid.UUID  // uuid.Nil: the system
	SentAt    *time.Time // the last successful message
	FailedAt  *time.Time
	Error     string // of the last attempt; empty: it succeeded, or there was none
}

// State returns the result of the last attempt: new (no attempt), working or failing.
func (w Webhook) State() string {
	switch {
	case w.Error != "":
		return "failing"
	case w.SentAt == nil:
		return "new"
	}
	return "working"
}

// NewWebhook describes a webhook to be made.
type NewWebhook struct {
	Name string
	URL  string
	Team string
}

const (
	maxTeam     = 128
	maxWebhooks = 100
)

// CreateWebhook adds a webhook. Error: *[fault.InvalidError].
func (s *Service) CreateWebhook(ctx context.Context, by audit.Actor, n NewWebhook) (Webhook, error) {
	host, err := n.validateFields(s.TrustedHosts)
	if err != nil {
		return Webhook{}, fmt.Errorf("create webhook: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Webhook{}, fmt.Errorf("create webhook %s: %w", n.Name, err)
	}
	sealed, err := s.Box.Seal([]byte(n.URL), secret.For(webhookPurpose, id))
	if err != nil {
		return Webhook{}, fmt.Errorf("create webhook %s: %w", n.Name, err)
	}
	var created Webhook
	err = s.changeTargets(ctx, func(tx pgx.Tx) error {
		var count int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM webhooks`).Scan(&count); err != nil {
			return err
		}
		if count >= maxWebhooks {
			return fault.Invalid("name", fmt.Sprintf("there are %d webhooks already; delete one first", count))
		}
		tag, err := tx.Exec(ctx, `INSERT INTO webhooks (id, name, team, sealed, hint, created_by)
			VALUES ($1, $2, nullif($3, ''), $4, $5, $6) ON CONFLICT (name) DO NOTHING`,
			id, n.Name, n.Team, sealed, host, postgres.OrNull(by.ID))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fault.Invalid("name", "another webhook has this name")
		}
		if created, err = s.findWebhook(ctx, tx, n.Name); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: by, Action: audit.WebhookCreated, Subject: id,
			Data: map[string]any{"name": n.Name, "host": host, "team": n.Team},
		})
	})
	if err != nil {
		return Webhook{}, fmt.Errorf("create webhook %s: %w", n.Name, err)
	}
	return created, nil
}

// validateFields validates the fields and returns the URL's host.
func (n NewWebhook) validateFields(trustedHosts []string) (string, error) {
	if !receiver.ValidName(n.Name) {
		return "", fault.Invalid("name", receiver.ErrName.Error())
	}
	if n.Team != strings.TrimSpace(n.Team) || len(n.Team) > maxTeam || plain.Line(n.Team, maxTeam) != n.Team {
		return "", fault.Invalid("team", fmt.Sprintf("must be at most %d bytes of printable text without white space at its ends", maxTeam))
	}
	u, err := receiver.ParseURL(n.URL)
	if err != nil {
		return "", fault.Invalid("url", err.Error())
	}
	if err := receiver.CheckURL(trustedHosts, u); err != nil {
		return "", fault.Invalid("url", u.Host+" "+err.Error())
	}
	return u.Host, nil
}

// DeleteWebhook deletes a webhook and its notices. Error: [ErrNotFound].
func (s *Service) DeleteWebhook(ctx context.Context, by audit.Actor, name string) error {
	err := s.changeTargets(ctx, func(tx pgx.Tx) error {
		w, err := s.findWebhook(ctx, tx, name)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `DELETE FROM webhooks WHERE id = $1`, w.ID)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		if _, err := tx.Exec(ctx, `DELETE FROM notices WHERE target_id = $1`, w.ID); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: by, Action: audit.WebhookDeleted, Subject: w.ID, Data: map[string]any{"name": w.Name, "host": w.Host, "team": w.Team},
		})
	})
	if err != nil {
		return fmt.Errorf("delete webhook %q: %w", plain.Line(name, maxName), err)
	}
	return nil
}

// changeTargets runs f in a transaction and invalidates the caches of all processes.
func (s *Service) changeTargets(ctx context.Context, f func(tx pgx.Tx) error) error {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return registry.Notify(ctx, tx)
	})
	if err != nil {
		return err
	}
	s.Invalidate()
	return nil
}

// TestWebhook sends a test message once and returns the webhook, whose Error says why it failed. Error: [ErrNotFound].
func (s *Service) TestWebhook(ctx context.Context, name string) (Webhook, error) {
	w, err := s.findWebhook(ctx, s.Pool, name)
	if err != nil {
		return Webhook{}, fmt.Errorf("test webhook %q: %w", plain.Line(name, maxName), err)
	}
	row := &webhookRow{id: w.ID}
	if err := s.Pool.QueryRow(ctx, `SELECT sealed FROM webhooks WHERE id = $1`, w.ID).Scan(&row.sealed); err != nil {
		return Webhook{}, fmt.Errorf("test webhook %s: %w", w.Name, err)
	}
	out := s.postWebhook(ctx, row, s.testMessage(w))
	var text *string
	column := "sent_at"
	if out.err != nil {
		message := out.err.Error()
		text, column = &message, "failed_at"
	}
	_, err = s.Pool.Exec(context.WithoutCancel(ctx), `UPDATE webhooks SET `+column+` = holdpoint_now(), error = $2 WHERE id = $1`, w.ID, text)
	if err != nil {
		return Webhook{}, fmt.Errorf("test webhook %s: %w", w.Name, err)
	}
	return s.findWebhook(ctx, s.Pool, name)
}

// Webhooks returns all webhooks, by name.
func (s *Service) Webhooks(ctx context.Context) ([]Webhook, error) {
	return s.readWebhooks(ctx, s.Pool, `TRUE`)
}

// Webhook returns a webhook, or [ErrNotFound].
func (s *Service) Webhook(ctx context.Context, name string) (Webhook, error) {
	return s.findWebhook(ctx, s.Pool, name)
}

func (s *Service) findWebhook(ctx context.Context, db postgres.Querier, name string) (Webhook, error) {
	if !receiver.ValidName(name) {
		return Webhook{}, ErrNotFound
	}
	found, err := s.readWebhooks(ctx, db, `name = $1`, name)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Webhook{}, err
	}
	return found[0], nil
}

func (s *Service) readWebhooks(ctx context.Context, db postgres.Querier, where string, args ...any) ([]Webhook, error) {
	found, err := postgres.Collect(ctx, db, s.scanWebhook, `SELECT `+webhookColumns+` FROM webhooks WHERE `+where+` ORDER BY name`, args...)
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	return found, nil
}

const webhookColumns = `id, name, coalesce(team, ''), hint, created_at, created_by, sent_at, failed_at, coalesce(error, ''), sealed`

// scanWebhook reads a row. If the present rules refuse the URL, for instance after an upgrade, that is the webhook's error
// before any message is sent.
func (s *Service) scanWebhook(row pgx.CollectableRow) (Webhook, error) {
	var w Webhook
	var by *uuid.UUID
	var sealed []byte
	err := row.Scan(&w.ID, &w.Name, &w.Team, &w.Host, &w.CreatedAt, &by, &w.SentAt, &w.FailedAt, &w.Error, &sealed)
	if err != nil {
		return w, err
	}
	if by != nil {
		w.CreatedBy = *by
	}
	address, err := s.Box.Open(sealed, secret.For(webhookPurpose, w.ID))
	if err != nil {
		return w, nil //nolint:nilerr // sending reports it
	}
	if err := receiver.CheckStored(s.TrustedHosts, string(address)); err != nil {
		w.Error = err.Error()
	}
	return w, nil
}

// webhookRow is a webhook to send to.
type webhookRow struct {
	id     uuid.UUID
	sealed []byte
}

func (s *Service) sendWebhook(ctx context.Context, t *turn) outcome {
	if len(t.news) == 0 {
		return outcome{state: nothing}
	}
	return s.postWebhook(ctx, t.webhook, s.chatMessage(t.news))
}

func (s *Service) postWebhook(ctx context.Context, row *webhookRow, message chatPayload) outcome {
	address, err := s.Box.Open(row.sealed, secret.For(webhookPurpose, row.id))
	if err != nil {
		s.Logger.Error("decrypt URL of webhook", "webhook", row.id, "error", err)
		return outcome{state: refused, err: errors.New("its URL cannot be decrypted with this server's key"), wait: refusalPause}
	}
	body, err := receiver.Encode(message)
	if err != nil {
		return outcome{state: refused, err: fmt.Errorf("encode message: %w", err), wait: refusalPause}
	}
	return s.outcomeOf(row.id, receiver.Post(ctx, s.webhooks, string(address), nil, body, s.Now()))
}

// Receivers returns all webhooks with their URLs. It needs no service.
func Receivers(ctx context.Context, db postgres.Querier, box *secret.Box) ([]receiver.Stored, error) {
	rows, err := db.Query(ctx, `SELECT id, name, hint, sealed FROM webhooks ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (receiver.Stored, error) {
		var id uuid.UUID
		var name, host string
		var sealed []byte
		if err := row.Scan(&id, &name, &host, &sealed); err != nil {
			return receiver.Stored{}, err
		}
		address, err := box.Open(sealed, secret.For(webhookPurpose, id))
		return receiver.Stored{Name: "webhook " + name, Host: host, Address: string(address)}, err
	})
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	return found, nil
}
