package notify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// webhookPurpose binds a sealed URL to its row.
const webhookPurpose = "webhook"

// Webhook is a chat's incoming webhook. Its URL is a credential, and not shown again.
type Webhook struct {
	ID        uuid.UUID
	Name      string
	Team      string // whose calls it hears of; empty: everybody's
	Host      string // of the URL
	CreatedAt time.Time
	CreatedBy uuid.UUID  // uuid.Nil: the system
	SentAt    *time.Time // the last message that was taken
	FailedAt  *time.Time
	Error     string // of the last attempt; empty: it succeeded, or there was none
}

// State says how the last attempt to send something went: new (there was none), working, failing.
func (w Webhook) State() string {
	switch {
	case w.Error != "":
		return "failing"
	case w.SentAt == nil:
		return "new"
	}
	return "working"
}

// NewWebhook is what an operator says of a webhook.
type NewWebhook struct {
	Name string
	URL  string
	Team string
}

const (
	maxTeam     = 128
	maxWebhooks = 100
)

// validate returns the URL's host.
func (n NewWebhook) validate(trustedHosts []string) (string, error) {
	if !receiver.ValidName(n.Name) {
		return "", &InvalidError{"name", receiver.ErrName.Error()}
	}
	if n.Team != strings.TrimSpace(n.Team) || len(n.Team) > maxTeam || plain.Line(n.Team, maxTeam) != n.Team {
		return "", &InvalidError{"team", fmt.Sprintf("must be at most %d bytes of printable text without white space at its ends", maxTeam)}
	}
	u, err := receiver.ParseURL(n.URL)
	if err != nil {
		return "", &InvalidError{"url", err.Error()}
	}
	if err := receiver.CheckURL(trustedHosts, u); err != nil {
		return "", &InvalidError{"url", u.Host + " " + err.Error()}
	}
	return u.Host, nil
}

// CreateWebhook adds a webhook. Errors: *InvalidError.
func (s *Service) CreateWebhook(ctx context.Context, by audit.Actor, n NewWebhook) (Webhook, error) {
	host, err := n.validate(s.TrustedHosts)
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
	err = s.change(ctx, func(tx pgx.Tx) error {
		var count int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM webhooks`).Scan(&count); err != nil {
			return err
		}
		if count >= maxWebhooks {
			return &InvalidError{"name", fmt.Sprintf("there are %d webhooks already; delete one first", count)}
		}
		tag, err := tx.Exec(ctx, `INSERT INTO webhooks (id, name, team, sealed, hint, created_by)
			VALUES ($1, $2, nullif($3, ''), $4, $5, $6) ON CONFLICT (name) DO NOTHING`,
			id, n.Name, n.Team, sealed, host, postgres.OrNull(by.ID))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return &InvalidError{"name", "another webhook has this name"}
		}
		if created, err = s.webhook(ctx, tx, n.Name); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: by, Action: "webhook.created", Subject: id,
			Data: map[string]any{"name": n.Name, "host": host, "team": n.Team},
		})
	})
	if err != nil {
		return Webhook{}, fmt.Errorf("create webhook %s: %w", n.Name, err)
	}
	return created, nil
}

// DeleteWebhook forgets a webhook and what it was still to be told. ErrNotFound.
func (s *Service) DeleteWebhook(ctx context.Context, by audit.Actor, name string) error {
	err := s.change(ctx, func(tx pgx.Tx) error {
		w, err := s.webhook(ctx, tx, name)
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
			Actor: by, Action: "webhook.deleted", Subject: w.ID, Data: map[string]any{"name": w.Name, "host": w.Host, "team": w.Team},
		})
	})
	if err != nil {
		return fmt.Errorf("delete webhook %q: %w", plain.Line(name, maxName), err)
	}
	return nil
}

// change changes who is notified, and has every process know.
func (s *Service) change(ctx context.Context, f func(tx pgx.Tx) error) error {
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

const webhookColumns = `id, name, coalesce(team, ''), hint, created_at, created_by, sent_at, failed_at, coalesce(error, ''), sealed`

// scanWebhook reads a row. A URL that the server would refuse now, for instance since an upgrade, is the webhook's error before
// anything is sent to it.
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
		return w, nil //nolint:nilerr // sending says so
	}
	if err := receiver.CheckStored(s.TrustedHosts, string(address)); err != nil {
		w.Error = err.Error()
	}
	return w, nil
}

// Webhooks returns all webhooks, by name.
func (s *Service) Webhooks(ctx context.Context) ([]Webhook, error) {
	return s.readWebhooks(ctx, s.Pool, `TRUE`)
}

// Webhook returns one of them, or ErrNotFound.
func (s *Service) Webhook(ctx context.Context, name string) (Webhook, error) {
	return s.webhook(ctx, s.Pool, name)
}

func (s *Service) webhook(ctx context.Context, db postgres.Querier, name string) (Webhook, error) {
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
	rows, err := db.Query(ctx, `SELECT `+webhookColumns+` FROM webhooks WHERE `+where+` ORDER BY name`, args...)
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	found, err := pgx.CollectRows(rows, s.scanWebhook)
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	return found, nil
}
