package callback

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// callbackPurpose binds an encrypted URL to its row.
const callbackPurpose = "callback"

// Reasons why a callback is disabled.
const (
	ByOperator = "operator" // an operator disabled it
	ByReceiver = "gone"     // the receiver answered 410 Gone
)

// Callback is an address to which an agent's calls are reported. Its URL, which may be a credential, and its secrets are never
// shown again.
type Callback struct {
	ID             uuid.UUID
	AgentID        uuid.UUID
	Name           string
	Host           string // of the URL
	CreatedAt      time.Time
	CreatedBy      uuid.UUID // uuid.Nil: the system
	DisabledAt     *time.Time
	DisabledReason string     // ByOperator or ByReceiver
	SentAt         *time.Time // the last accepted message
	FailedAt       *time.Time
	Error          string     // of the last attempt; empty: it succeeded, or there was none
	EarlierUntil   *time.Time // when the last earlier secret expires
	Waiting        int        // unsent messages
}

// State returns the result of the last attempt: new (no attempt), working or failing; or disabled.
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

// NewCallback describes a callback to be made.
type NewCallback struct {
	Name string
	URL  string
}

// maxCallbacks is the maximum for an agent.
const maxCallbacks = 10

// Create adds a callback to an agent and returns its secret, which is shown once. Error: *[fault.InvalidError].
func (s *Service) Create(ctx context.Context, by audit.Actor, a *agent.Agent, n NewCallback) (created Callback, secretText string, err error) {
	host, err := s.validateNew(n)
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
	err = s.changeCallbacks(ctx, func(tx pgx.Tx) error {
		var count int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM callbacks WHERE agent_id = $1`, a.ID).Scan(&count); err != nil {
			return err
		}
		if count >= maxCallbacks {
			return fault.Invalid("name", fmt.Sprintf("the agent has %d callbacks already; delete one first", count))
		}
		tag, err := tx.Exec(ctx, `INSERT INTO callbacks (id, agent_id, name, sealed, hint, created_by)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (agent_id, name) DO NOTHING`,
			id, a.ID, n.Name, sealed, host, postgres.OrNull(by.ID))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fault.Invalid("name", "another callback of the agent has this name")
		}
		if secretText, err = s.addSecret(ctx, tx, id); err != nil {
			return err
		}
		if created, err = s.findCallback(ctx, tx, a.ID, n.Name); err != nil {
			return err
		}
		return audit.Write(ctx, tx, created.auditEvent(by, a, audit.CallbackCreated))
	})
	if err != nil {
		return Callback{}, "", fmt.Errorf("create callback %s: %w", n.Name, err)
	}
	return created, secretText, nil
}

// validateNew validates the fields and returns the URL's host.
func (s *Service) validateNew(n NewCallback) (string, error) {
	if !receiver.ValidName(n.Name) {
		return "", fault.Invalid("name", receiver.ErrName.Error())
	}
	u, err := receiver.ParseURL(n.URL)
	if err != nil {
		return "", fault.Invalid("url", err.Error())
	}
	if err := receiver.CheckURL(s.TrustedHosts, u); err != nil {
		return "", fault.Invalid("url", u.Host+" "+err.Error())
	}
	return u.Host, nil
}

// Delete deletes a callback with its secrets, log and unsent messages. Error: [ErrNotFound].
func (s *Service) Delete(ctx context.Context, by audit.Actor, a *agent.Agent, name string) error {
	return s.editCallback(ctx, by, a, name, audit.CallbackDeleted, func(tx pgx.Tx, c *Callback) error { return deleteCallbacks(ctx, tx, `id = $1`, c.ID) })
}

// Removed deletes all callbacks of an agent that tx deletes.
func (s *Service) Removed(ctx context.Context, tx pgx.Tx, agentID uuid.UUID) error {
	return deleteCallbacks(ctx, tx, `agent_id = $1`, agentID)
}

func deleteCallbacks(ctx context.Context, tx pgx.Tx, where string, arg any) error {
	for _, sql := range []string{
		`SELECT FROM callbacks WHERE ` + where + ` FOR UPDATE`, // locked first, as in every transaction
		`DELETE FROM callback_deliveries WHERE callback_id IN (SELECT id FROM callbacks WHERE ` + where + `)`,
		`DELETE FROM callbacks WHERE ` + where,
	} {
		if _, err := tx.Exec(ctx, sql, arg); err != nil {
			return fmt.Errorf("delete callbacks: %w", err)
		}
	}
	return nil
}

// Enable enables a callback for later events. Error: [ErrNotFound].
func (s *Service) Enable(ctx context.Context, by audit.Actor, a *agent.Agent, name string) error {
	return s.editCallback(ctx, by, a, name, audit.CallbackEnabled, func(tx pgx.Tx, c *Callback) error {
		_, err := tx.Exec(ctx, `UPDATE callbacks SET disabled_at = NULL, disabled_reason = NULL, error = NULL WHERE id = $1`, c.ID)
		return err
	})
}

// Disable disables a callback and gives up its unsent messages. Error: [ErrNotFound].
func (s *Service) Disable(ctx context.Context, by audit.Actor, a *agent.Agent, name string) error {
	return s.editCallback(ctx, by, a, name, audit.CallbackDisabled, func(tx pgx.Tx, c *Callback) error {
		_, err := disableCallback(ctx, tx, c.ID, ByOperator)
		return err
	})
}

// disableCallback returns whether the callback was enabled before.
func disableCallback(ctx context.Context, tx pgx.Tx, id uuid.UUID, reason string) (bool, error) {
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

// editCallback changes a callback of an agent under the lock of its row.
func (s *Service) editCallback(ctx context.Context, by audit.Actor, a *agent.Agent, name string, action audit.Action, f func(tx pgx.Tx, c *Callback) error) error {
	if !receiver.ValidName(name) {
		return ErrNotFound
	}
	err := s.changeCallbacks(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM callbacks WHERE agent_id = $1 AND name = $2 FOR UPDATE`, a.ID, name); err != nil {
			return fmt.Errorf("lock callback: %w", err)
		}
		c, err := s.findCallback(ctx, tx, a.ID, name)
		if err != nil {
			return err
		}
		if err := f(tx, &c); err != nil {
			return err
		}
		return audit.Write(ctx, tx, c.auditEvent(by, a, action))
	})
	if err != nil {
		return fmt.Errorf("callback of agent %s: %w", a.Name, err)
	}
	return nil
}

// changeCallbacks runs f in a transaction and invalidates the caches of all processes.
func (s *Service) changeCallbacks(ctx context.Context, f func(tx pgx.Tx) error) error {
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

func (c Callback) auditEvent(by audit.Actor, a *agent.Agent, action audit.Action) audit.Event {
	return audit.Event{
		Actor: by, Action: action, Subject: c.ID,
		Data: map[string]any{"agent": a.Name, "name": c.Name, "host": c.Host},
	}
}

// Callbacks returns the callbacks of an agent, by name.
func (s *Service) Callbacks(ctx context.Context, agentID uuid.UUID) ([]Callback, error) {
	return s.queryCallbacks(ctx, s.Pool, `k.agent_id = $1`, agentID)
}

// Callback returns a callback of an agent, or [ErrNotFound].
func (s *Service) Callback(ctx context.Context, agentID uuid.UUID, name string) (Callback, error) {
	return s.findCallback(ctx, s.Pool, agentID, name)
}

func (s *Service) findCallback(ctx context.Context, db postgres.Querier, agentID uuid.UUID, name string) (Callback, error) {
	if !receiver.ValidName(name) {
		return Callback{}, ErrNotFound
	}
	found, err := s.queryCallbacks(ctx, db, `k.agent_id = $1 AND k.name = $2`, agentID, name)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Callback{}, err
	}
	return found[0], nil
}

func (s *Service) queryCallbacks(ctx context.Context, db postgres.Querier, where string, args ...any) ([]Callback, error) {
	rows, _ := db.Query(ctx, `SELECT `+callbackColumns+` FROM callbacks k WHERE `+where+` ORDER BY k.name`, args...)
	found, err := pgx.CollectRows(rows, s.scanCallback)
	if err != nil {
		return nil, fmt.Errorf("read callbacks: %w", err)
	}
	return found, nil
}

const callbackColumns = `k.id, k.agent_id, k.name, k.hint, k.created_at, k.created_by, k.disabled_at, coalesce(k.disabled_reason, ''),
	k.sent_at, k.failed_at, coalesce(k.error, ''), k.sealed,
	(SELECT max(expires_at) FROM callback_secrets s WHERE s.callback_id = k.id AND s.expires_at > holdpoint_now()),
	(SELECT count(*) FROM callback_deliveries d WHERE d.callback_id = k.id AND d.state IN ('due', 'pending'))`

// scanCallback reads a row. If the present rules refuse the URL, for instance after an upgrade, that is the callback's error
// before any message is sent.
func (s *Service) scanCallback(row pgx.CollectableRow) (Callback, error) {
	var c Callback
	var by *uuid.UUID
	var sealed []byte
	err := row.Scan(&c.ID, &c.AgentID, &c.Name, &c.Host, &c.CreatedAt, &by, &c.DisabledAt, &c.DisabledReason,
		&c.SentAt, &c.FailedAt, &c.Error, &sealed, &c.EarlierUntil, &c.Waiting)
	if err != nil {
		return c, err
	}
	c.CreatedBy = postgres.OrNil(by)
	address, err := s.Box.Open(sealed, secret.For(callbackPurpose, c.ID))
	if err != nil {
		return c, nil //nolint:nilerr // sending reports it
	}
	if err := receiver.CheckStored(s.TrustedHosts, string(address)); err != nil {
		c.Error = err.Error()
	}
	return c, nil
}

// Receivers returns all enabled callbacks with their URLs. It needs no service.
func Receivers(ctx context.Context, db postgres.Querier, box *secret.Box) ([]receiver.Stored, error) {
	rows, _ := db.Query(ctx, `SELECT k.id, a.name, k.name, k.hint, k.sealed FROM callbacks k JOIN agents a ON a.id = k.agent_id
		WHERE k.disabled_at IS NULL ORDER BY a.name, k.name`)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (receiver.Stored, error) {
		var id uuid.UUID
		var agent, name, host string
		var sealed []byte
		if err := row.Scan(&id, &agent, &name, &host, &sealed); err != nil {
			return receiver.Stored{}, err
		}
		address, err := box.Open(sealed, secret.For(callbackPurpose, id))
		return receiver.Stored{Name: fmt.Sprintf("callback %s of agent %s", name, agent), Host: host, Address: string(address)}, err
	})
	if err != nil {
		return nil, fmt.Errorf("read callbacks: %w", err)
	}
	return found, nil
}
