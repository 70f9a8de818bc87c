package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
)

const (
	keyColumns = `id, agent_id, hint, created_at, created_by, expires_at, revoked_at`
	keyValid   = `revoked_at IS NULL AND (expires_at IS NULL OR expires_at > holdpoint_now())`
)

func scanKey(row pgx.CollectableRow) (Key, error) {
	var k Key
	var by *uuid.UUID
	err := row.Scan(&k.ID, &k.AgentID, &k.Hint, &k.CreatedAt, &by, &k.ExpiresAt, &k.RevokedAt)
	if by != nil {
		k.CreatedBy = *by
	}
	return k, err
}

// CreateKey makes a key for an agent. It returns the key's secret, which is not stored. ErrNotFound.
func (s *Service) CreateKey(ctx context.Context, by audit.Actor, agentID uuid.UUID) (Key, string, error) {
	c := secret.NewCredential(secret.AgentKey)
	var key Key
	maker := uuid.Nil
	if by.Kind == audit.KindPerson {
		maker = by.ID
	}
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		if _, err := readAgentRow(ctx, e.tx, `a.id = $1`, agentID); err != nil {
			return err
		}
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		rows, _ := e.tx.Query(ctx, `INSERT INTO agent_keys (id, agent_id, secret_hash, hint, created_by, expires_at)
			VALUES ($1, $2, $3, $4, $5, holdpoint_now() + nullif($6::bigint, 0) * interval '1 microsecond') RETURNING `+keyColumns,
			id, agentID, c.Hash[:], c.Hint, postgres.OrNull(maker), s.keyTTL.Microseconds())
		if key, err = pgx.CollectExactlyOneRow(rows, scanKey); err != nil {
			return err
		}
		e.recordChange(audit.AgentKeyCreated, agentID, map[string]any{"key": id, "hint": c.Hint})
		return nil
	})
	if err != nil {
		return Key{}, "", fmt.Errorf("create key for agent %s: %w", agentID, err)
	}
	return key, c.Secret, nil
}

// RevokeKey revokes a key in all processes. It returns ErrNotFound if no valid key has this id.
func (s *Service) RevokeKey(ctx context.Context, by audit.Actor, id uuid.UUID) error {
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		rows, _ := e.tx.Query(ctx, `UPDATE agent_keys SET revoked_at = holdpoint_now()
			WHERE id = $1 AND revoked_at IS NULL RETURNING `+keyColumns, id)
		keys, err := pgx.CollectRows(rows, scanKey)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			return ErrNotFound
		}
		e.recordChange(audit.AgentKeyRevoked, keys[0].AgentID, map[string]any{"key": id, "hint": keys[0].Hint})
		return nil
	})
	if err != nil {
		return fmt.Errorf("revoke agent key %s: %w", id, err)
	}
	return nil
}

// Keys lists an agent's keys, newest first, including revoked ones.
func (s *Service) Keys(ctx context.Context, agentID uuid.UUID) ([]Key, error) {
	rows, _ := s.pool.Query(ctx, `SELECT `+keyColumns+` FROM agent_keys WHERE agent_id = $1 ORDER BY id DESC`, agentID)
	keys, err := pgx.CollectRows(rows, scanKey)
	if err != nil {
		return nil, fmt.Errorf("list keys of agent %s: %w", agentID, err)
	}
	return keys, nil
}

// KeyMakers returns the people who made keys of an agent that were valid at the given time or are valid now. It is not cached.
func KeyMakers(ctx context.Context, db postgres.Querier, agentID uuid.UUID, at time.Time) ([]uuid.UUID, error) {
	rows, _ := db.Query(ctx, `SELECT DISTINCT created_by FROM agent_keys
		WHERE agent_id = $1 AND created_by IS NOT NULL AND (revoked_at IS NULL OR revoked_at > $2)`, agentID, at)
	makers, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("list makers of keys of agent %s: %w", agentID, err)
	}
	return makers, nil
}

// KeyCounts returns the number of valid keys of each agent that has any.
func (s *Service) KeyCounts(ctx context.Context) (map[uuid.UUID]int, error) {
	rows, _ := s.pool.Query(ctx, `SELECT agent_id, count(*) FROM agent_keys WHERE `+keyValid+` GROUP BY agent_id`)
	counts := map[uuid.UUID]int{}
	var id uuid.UUID
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error { counts[id] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count keys: %w", err)
	}
	return counts, nil
}
