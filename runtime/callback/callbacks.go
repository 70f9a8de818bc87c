package callback

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// callbackPurpose binds a sealed URL to its row.
const callbackPurpose = "callback"

// Why a callback is disabled.
const (
	ByOperator = "operator" // an operator said so
	ByReceiver = "gone"     // the receiver answered 410 Gone
)

// Callback is where an agent's calls are told of. Its URL, which may be a credential, and its secrets are not shown again.
type Callback struct {
	ID             uuid.UUID
	AgentID        uuid.UUID
	Name           string
	Host           string // of the URL
	CreatedAt      time.Time
	CreatedBy      uuid.UUID // uuid.Nil: the system
	DisabledAt     *time.Time
	DisabledReason string     // ByOperator or ByReceiver
	SentAt         *time.Time // the last message that was taken
	FailedAt       *time.Time
	Error          string     // of the last attempt; empty: it succeeded, or there was none
	EarlierUntil   *time.Time // until when an earlier secret signs too
	Waiting        int        // messages that are still to be sent
}

// State says how the last attempt to send something went: new (there was none), working, failing; or disabled.
func (c Callback) State() string {
	switch {
	case c.DisabledAt != nil:
		return "disabled"
	case c.Error != "":
		return "failing"
	case c.SentAt == nil:
		return "new"
	}
	return "working"
}

// NewCallback is what an operator says of a callback.
type NewCallback struct {
	Name string
	URL  string
}

// maxCallbacks is how many an agent may have.
const maxCallbacks = 10

// validate returns the URL's host.
func (s *Service) validate(n NewCallback) (string, error) {
	if !receiver.ValidName(n.Name) {
		return "", &InvalidError{"name", receiver.ErrName.Error()}
	}
	u, err := receiver.ParseURL(n.URL)
	if err != nil {
		return "", &InvalidError{"url", err.Error()}
	}
	if err := receiver.CheckURL(s.TrustedHosts, u); err != nil {
		return "", &InvalidError{"url", u.Host + " " + err.Error()}
	}
	return u.Host, nil
}

// Create adds a callback to an agent, and returns its secret, which is not shown again. Errors: *InvalidError.
func (s *Service) Create(ctx context.Context, by audit.Actor, a *agent.Agent, n NewCallback) (created Callback, secretText string, err error) {
	host, err := s.validate(n)
	if err != nil {
		return Callback{}, "", fmt.Errorf("create callback: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Callback{}, "", fmt.Errorf("create callback %s: %w", n.Name, err)
	}
	sealed, err := s.Box.Seal([]byte(n.URL), secret.For(callbackPurpose, id))
	if err != nil {
		return Callback{}, "", fmt.Errorf("create callback %s: %w", n.Name, err)
	}
	err = s.change(ctx, func(tx pgx.Tx) error {
		var count int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM callbacks WHERE agent_id = $1`, a.ID).Scan(&count); err != nil {
			return err
		}
		if count >= maxCallbacks {
			return &InvalidError{"name", fmt.Sprintf("the agent has %d callbacks already; delete one first", count)}
		}
		tag, err := tx.Exec(ctx, `INSERT INTO callbacks (id, agent_id, name, sealed, hint, created_by)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (agent_id, name) DO NOTHING`,
			id, a.ID, n.Name, sealed, host, postgres.OrNull(by.ID))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return &InvalidError{"name", "another callback of the agent has this name"}
		}
		if secretText, err = s.addSecret(ctx, tx, id); err != nil {
			return err
		}
		if created, err = s.one(ctx, tx, a.ID, n.Name); err != nil {
			return err
		}
		return audit.Write(ctx, tx, created.event(by, a, "created"))
	})
	if err != nil {
		return Callback{}, "", fmt.Errorf("create callback %s: %w", n.Name, err)
	}
	return created, secretText, nil
}

func (c Callback) event(by audit.Actor, a *agent.Agent, verb string) audit.Event {
	return audit.Event{
		Actor: by, Action: "callback." + verb, Subject: c.ID,
		Data: map[string]any{"agent": a.Name, "name": c.Name, "host": c.Host},
	}
}

// Delete forgets a callback, its secrets and its log, and what was still to be sent. ErrNotFound.
func (s *Service) Delete(ctx context.Context, by audit.Actor, a *agent.Agent, name string) error {
	return s.edit(ctx, by, a, name, "deleted", func(tx pgx.Tx, c *Callback) error { return remove(ctx, tx, `id = $1`, c.ID) })
}

// Removed forgets all callbacks of an agent, which is being deleted.
func (s *Service) Removed(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error {
	return remove(ctx, tx, `agent_id = $1`, agentID)
}

func remove(ctx context.Context, tx pgx.Tx, where string, arg any) error {
	for _, sql := range []string{
		`SELECT FROM callbacks WHERE ` + where + ` FOR UPDATE`, // its lock comes first, as everywhere
		`DELETE FROM callback_deliveries WHERE callback_id IN (SELECT id FROM callbacks WHERE ` + where + `)`,
		`DELETE FROM callbacks WHERE ` + where,
	} {
		if _, err := tx.Exec(ctx, sql, arg); err != nil {
			return fmt.Errorf("forget callbacks: %w", err)
		}
	}
	return nil
}

// Enable has an agent's calls told of again, from now on. ErrNotFound.
func (s *Service) Enable(ctx context.Context, by audit.Actor, a *agent.Agent, name string) error {
	return s.edit(ctx, by, a, name, "enabled", func(tx pgx.Tx, c *Callback) error {
		_, err := tx.Exec(ctx, `UPDATE callbacks SET disabled_at = NULL, disabled_reason = NULL, error = NULL WHERE id = $1`, c.ID)
		return err
	})
}

// Disable has nothing sent until the callback is enabled; what was still to be sent is given up. ErrNotFound.
func (s *Service) Disable(ctx context.Context, by audit.Actor, a *agent.Agent, name string) error {
	return s.edit(ctx, by, a, name, "disabled", func(tx pgx.Tx, c *Callback) error {
		_, err := disable(ctx, tx, c.ID, ByOperator)
		return err
	})
}

// disable reports whether the callback was enabled before.
func disable(ctx context.Context, tx pgx.Tx, id uuid.UUID, reason string) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE callbacks SET disabled_at = holdpoint_now(), disabled_reason = $2
		WHERE id = $1 AND disabled_at IS NULL`, id, reason)
	if err != nil {
		return false, fmt.Errorf("disable callback %s: %w", id, err)
	}
	_, err = tx.Exec(ctx, `UPDATE callback_deliveries SET state = 'failed', error = $2 WHERE callback_id = $1 AND state IN ('due', 'pending')`,
		id, ErrDisabled.Error())
	if err != nil {
		return false, fmt.Errorf("disable callback %s: %w", id, err)
	}
	return tag.RowsAffected() > 0, nil
}

// edit changes one callback of an agent, one change after the other.
func (s *Service) edit(ctx context.Context, by audit.Actor, a *agent.Agent, name, verb string, f func(tx pgx.Tx, c *Callback) error) error {
	if !receiver.ValidName(name) {
		return ErrNotFound
	}
	err := s.change(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM callbacks WHERE agent_id = $1 AND name = $2 FOR UPDATE`, a.ID, name); err != nil {
			return fmt.Errorf("lock callback: %w", err)
		}
		c, err := s.one(ctx, tx, a.ID, name)
		if err != nil {
			return err
		}
		if err := f(tx, &c); err != nil {
			return err
		}
		return audit.Write(ctx, tx, c.event(by, a, verb))
	})
	if err != nil {
		return fmt.Errorf("callback of agent %s: %w", a.Name, err)
	}
	return nil
}

// change changes which agents have callbacks, and has every process know.
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

const callbackColumns = `k.id, k.agent_id, k.name, k.hint, k.created_at, k.created_by, k.disabled_at, coalesce(k.disabled_reason, ''),
	k.sent_at, k.failed_at, coalesce(k.error, ''), k.sealed,
	(SELECT max(expires_at) FROM callback_secrets s WHERE s.callback_id = k.id AND s.expires_at > holdpoint_now()),
	(SELECT count(*) FROM callback_deliveries d WHERE d.callback_id = k.id AND d.state IN ('due', 'pending'))`

// scan reads a row. A URL that the server would refuse now, for instance since an upgrade, is the callback's error before
// anything is sent to it.
func (s *Service) scan(row pgx.CollectableRow) (Callback, error) {
	var c Callback
	var by *uuid.UUID
	var sealed []byte
	err := row.Scan(&c.ID, &c.AgentID, &c.Name, &c.Host, &c.CreatedAt, &by, &c.DisabledAt, &c.DisabledReason,
		&c.SentAt, &c.FailedAt, &c.Error, &sealed, &c.EarlierUntil, &c.Waiting)
	if err != nil {
		return c, err
	}
	if by != nil {
		c.CreatedBy = *by
	}
	address, err := s.Box.Open(sealed, secret.For(callbackPurpose, c.ID))
	if err != nil {
		return c, nil //nolint:nilerr // sending says so
	}
	if err := receiver.CheckStored(s.TrustedHosts, string(address)); err != nil {
		c.Error = err.Error()
	}
	return c, nil
}

func (s *Service) read(ctx context.Context, db postgres.Querier, where string, args ...any) ([]Callback, error) {
	rows, err := db.Query(ctx, `SELECT `+callbackColumns+` FROM callbacks k WHERE `+where+` ORDER BY k.name`, args...)
	if err != nil {
		return nil, fmt.Errorf("read callbacks: %w", err)
	}
	found, err := pgx.CollectRows(rows, s.scan)
	if err != nil {
		return nil, fmt.Errorf("read callbacks: %w", err)
	}
	return found, nil
}

func (s *Service) one(ctx context.Context, db postgres.Querier, agentID uuid.UUID, name string) (Callback, error) {
	if !receiver.ValidName(name) {
		return Callback{}, ErrNotFound
	}
	found, err := s.read(ctx, db, `k.agent_id = $1 AND k.name = $2`, agentID, name)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Callback{}, err
	}
	return found[0], nil
}

// Callbacks returns those of an agent, by name.
func (s *Service) Callbacks(ctx context.Context, agentID uuid.UUID) ([]Callback, error) {
	return s.read(ctx, s.Pool, `k.agent_id = $1`, agentID)
}

// Callback returns one of them, or ErrNotFound.
func (s *Service) Callback(ctx context.Context, agentID uuid.UUID, name string) (Callback, error) {
	return s.one(ctx, s.Pool, agentID, name)
}
