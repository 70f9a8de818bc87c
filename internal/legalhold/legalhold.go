// Package legalhold owns legal holds (table legal_holds): an operator declares that rows of an agent, of a range of time, or of both, must
// not be deleted. Package retention and other packages that delete rows by age ask it. It deletes nothing itself.
package legalhold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// MaxReason bounds the reason of a hold, in bytes.
const MaxReason = 2000

// Hold is a legal hold.
type Hold struct {
	ID         uuid.UUID
	AgentID    uuid.UUID  // uuid.Nil: rows of every agent, and of none
	From, To   *time.Time // rows made or changed in [From, To); nil: no bound
	Reason     string
	CreatedBy  uuid.UUID
	CreatedAt  time.Time
	LiftedBy   uuid.UUID
	LiftedAt   *time.Time // nil: it is in force
	LiftReason string
}

// Errors of this package.
var (
	ErrNotFound = fault.NotFound("legal hold not found")
	// ErrLifted: the hold was lifted before.
	ErrLifted = errors.New("the legal hold was lifted before")
)

// Service sets and lifts holds.
type Service struct {
	Pool *pgxpool.Pool
	// Lifted is called in the transaction that lifts a hold. Nil: nothing is called.
	Lifted func(ctx context.Context, tx pgx.Tx) error
}

const holdColumns = `id, agent_id, from_at, to_at, reason, created_by, created_at, lifted_by, lifted_at, coalesce(lift_reason, '')`

func scanHold(row pgx.CollectableRow) (Hold, error) {
	var h Hold
	var agent, creator, lifter *uuid.UUID
	err := row.Scan(&h.ID, &agent, &h.From, &h.To, &h.Reason, &creator, &h.CreatedAt, &lifter, &h.LiftedAt, &h.LiftReason)
	h.AgentID, h.CreatedBy, h.LiftedBy = postgres.OrNil(agent), postgres.OrNil(creator), postgres.OrNil(lifter)
	return h, err
}

// List returns the holds: those in force first, then the lifted ones, each newest first.
func (s *Service) List(ctx context.Context) ([]Hold, error) {
	holds, err := postgres.Collect(ctx, s.Pool, scanHold, `SELECT `+holdColumns+` FROM legal_holds ORDER BY lifted_at IS NOT NULL, id DESC LIMIT 1000`)
	if err != nil {
		return nil, fmt.Errorf("list legal holds: %w", err)
	}
	return holds, nil
}

// Set puts a hold in force. When it returns, no deletion of held rows is under way. Error: *[fault.InvalidError].
func (s *Service) Set(ctx context.Context, by audit.Actor, h Hold) (Hold, error) {
	if err := h.check(); err != nil {
		return Hold{}, fmt.Errorf("set legal hold: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Hold{}, fmt.Errorf("set legal hold: %w", err)
	}
	var set Hold
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if err := lockHolds(ctx, tx); err != nil {
			return err
		}
		set, err = postgres.CollectOne(ctx, tx, scanHold, `INSERT INTO legal_holds (id, agent_id, from_at, to_at, reason, created_by)
			VALUES ($1, $2, $3, $4, $5, $6) RETURNING `+holdColumns,
			id, postgres.OrNull(h.AgentID), h.From, h.To, h.Reason, postgres.OrNull(by.ID))
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: audit.LegalHoldSet, Subject: id, Data: set.auditData()})
	})
	if err != nil {
		return Hold{}, fmt.Errorf("set legal hold: %w", err)
	}
	return set, nil
}

func (h *Hold) check() error {
	h.Reason = strings.TrimSpace(plain.Storable(h.Reason, MaxReason+1))
	switch {
	case h.Reason == "" || len(h.Reason) > MaxReason:
		return fault.Invalid("reason", fmt.Sprintf("must be 1 to %d bytes", MaxReason))
	case h.AgentID == uuid.Nil && h.From == nil && h.To == nil:
		return fault.Invalid("agent", "must be given, or from, or to")
	case h.From != nil && h.To != nil && !h.From.Before(*h.To):
		return fault.Invalid("to", "must be after from")
	}
	return nil
}

func (h *Hold) auditData() map[string]any {
	data := map[string]any{"reason": h.Reason}
	if h.AgentID != uuid.Nil {
		data["agent"] = h.AgentID
	}
	if h.From != nil {
		data["from"] = h.From.UTC()
	}
	if h.To != nil {
		data["to"] = h.To.UTC()
	}
	return data
}

// Lift ends a hold. Errors: [ErrNotFound], [ErrLifted], *[fault.InvalidError].
func (s *Service) Lift(ctx context.Context, by audit.Actor, id uuid.UUID, reason string) (Hold, error) {
	reason = strings.TrimSpace(plain.Storable(reason, MaxReason+1))
	if reason == "" || len(reason) > MaxReason {
		return Hold{}, fmt.Errorf("lift legal hold %s: %w", id, fault.Invalid("reason", fmt.Sprintf("must be 1 to %d bytes", MaxReason)))
	}
	var lifted Hold
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		was, err := postgres.CollectOne(ctx, tx, scanHold, `SELECT `+holdColumns+` FROM legal_holds WHERE id = $1 FOR UPDATE`, id)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNotFound
		case err != nil:
			return err
		case was.LiftedAt != nil:
			return ErrLifted
		}
		lifted, err = postgres.CollectOne(ctx, tx, scanHold, `UPDATE legal_holds SET lifted_at = holdpoint_now(), lifted_by = $2, lift_reason = $3
			WHERE id = $1 RETURNING `+holdColumns, id, postgres.OrNull(by.ID), reason)
		if err == nil && s.Lifted != nil {
			err = s.Lifted(ctx, tx)
		}
		if err != nil {
			return err
		}
		data := was.auditData()
		data["lift_reason"] = reason
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: audit.LegalHoldLifted, Subject: id, Data: data})
	})
	if err != nil {
		return Hold{}, fmt.Errorf("lift legal hold %s: %w", id, err)
	}
	return lifted, nil
}

const advisoryKey = `hashtextextended('holdpoint_legal_holds', 0)`

// lockHolds waits for the deletions that are under way, and lets no other begin before the transaction ends.
func lockHolds(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+advisoryKey+`)`); err != nil {
		return fmt.Errorf("wait for deletions: %w", err)
	}
	return nil
}

// Guard is called by a transaction before it deletes rows: until the transaction ends, no new hold comes into force. It reports whether
// there are holds, without which a caller need not compare rows with them.
func Guard(ctx context.Context, tx pgx.Tx) (exist bool, err error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared(`+advisoryKey+`)`); err != nil {
		return false, fmt.Errorf("guard legal holds: %w", err)
	}
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM legal_holds WHERE lifted_at IS NULL)`).Scan(&exist)
	if err != nil {
		return false, fmt.Errorf("read legal holds: %w", err)
	}
	return exist, nil
}

// Exec executes a statement that deletes rows, guarded like a transaction that called [Guard].
func Exec(ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) error {
	return postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
		if _, err := Guard(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

// HeldSQL returns an SQL condition: a hold covers a row of an agent that was made at one time and last changed at another. agent, from and
// to are SQL expressions; agent is NULL for rows of no agent, which only holds without an agent cover.
func HeldSQL(agent, from, to string) string {
	return `EXISTS (SELECT FROM legal_holds hold WHERE hold.lifted_at IS NULL
		AND (hold.agent_id IS NULL OR hold.agent_id = ` + agent + `)
		AND (hold.from_at IS NULL OR ` + to + ` >= hold.from_at) AND (hold.to_at IS NULL OR ` + from + ` < hold.to_at))`
}
