package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

const conversationColumns = `c.id, c.agent_id, c.principal_id, coalesce(c.name, ''), c.problems, c.protocol_version,
	c.client->'capabilities', coalesce(left(c.client->'clientInfo'->>'name', 100), ''), coalesce(c.log_level, ''), c.created_at, c.ended_at, c.catalogue_digest, c.agent_revision`

// conversationRow is a row of the table conversations.
type conversationRow struct {
	Conversation
	digest   []byte
	revision int64 // of the agent when the catalog was built
}

func (r *conversationRow) targets(principal **uuid.UUID) []any {
	return []any{
		&r.ID, &r.AgentID, principal, &r.Name, &r.Problems, &r.ProtocolVersion, &r.Capabilities, &r.Client, &r.LogLevel,
		&r.CreatedAt, &r.EndedAt, &r.digest, &r.revision,
	}
}

func scanConversation(row pgx.CollectableRow) (*conversationRow, error) {
	r := &conversationRow{}
	var principal *uuid.UUID
	err := row.Scan(r.targets(&principal)...)
	if principal != nil {
		r.PrincipalID = *principal
	}
	return r, err
}

// createConversation builds the catalog and stores the conversation. It returns [agent.ErrExists] if agent and principal have an
// open conversation with this name.
func (s *Service) createConversation(ctx context.Context, n newConversation) (*Conversation, error) {
	revision, catalog, problems, err := s.buildCatalog(ctx, n.agentID, n.principalID)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	client := storableClient(n.client)
	c := &Conversation{
		ID: id, AgentID: n.agentID, PrincipalID: n.principalID, Name: n.name,
		Catalog: catalog, Problems: problems, ProtocolVersion: plain.Storable(n.protocolVersion, maxMessage),
		Capabilities: clientCapabilities(client),
	}
	err = s.storeWithCatalog(ctx, catalog, func(tx pgx.Tx) error {
		if err := s.storeCatalog(ctx, tx, catalog); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `INSERT INTO conversations (id, agent_id, principal_id, name, catalogue_digest,
				agent_revision, problems, protocol_version, client)
			VALUES ($1, $2, $3, nullif($4, ''), $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING created_at`,
			id, n.agentID, postgres.OrNull(n.principalID), n.name, catalog.digest[:], revision, nonNil(problems),
			c.ProtocolVersion, client).Scan(&c.CreatedAt)
		if errors.Is(err, pgx.ErrNoRows) {
			return agent.ErrExists
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: actorOf(n.agentID, n.principalID), Action: audit.ConversationStarted, Subject: id,
			Data: map[string]any{"agent": n.agentID, "tools": len(catalog.Entries), "problems": len(problems)},
		})
	})
	if err != nil {
		return nil, err
	}
	c.Catalog = s.shareCatalog(catalog)
	return c, nil
}

// loadConversation reads an open conversation. It builds the catalog again if that is out of date.
func (s *Service) loadConversation(ctx context.Context, agentID, principal uuid.UUID, where string, arg any) (*Conversation, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+conversationColumns+`, a.revision
		FROM conversations c JOIN agents a ON a.id = c.agent_id
		WHERE c.agent_id = $1 AND c.principal_id IS NOT DISTINCT FROM $2 AND c.ended_at IS NULL
			AND a.deleted_at IS NULL AND `+where, agentID, postgres.OrNull(principal), arg)
	if err != nil {
		return nil, fmt.Errorf("read conversation: %w", err)
	}
	var revision int64
	row, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (*conversationRow, error) {
		r := &conversationRow{}
		r.PrincipalID = principal
		var stored *uuid.UUID
		return r, row.Scan(append(r.targets(&stored), &revision)...)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, agent.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read conversation: %w", err)
	}
	outdated := row.revision != revision || len(row.digest) != len(Digest{})
	if !outdated {
		if outdated, err = s.hasRecovered(ctx, agentID, principal, row.Problems); err != nil {
			return nil, err
		}
	}
	if outdated {
		return s.rebuildCatalog(ctx, row)
	}
	if row.Catalog, err = s.loadCatalog(ctx, Digest(row.digest)); err != nil {
		return nil, err
	}
	return &row.Conversation, nil
}

// rebuildCatalog lists the skills again and stores the new catalog. If several processes do so at once, the latest revision of
// the agent wins.
func (s *Service) rebuildCatalog(ctx context.Context, row *conversationRow) (*Conversation, error) {
	revision, catalog, problems, err := s.buildCatalog(ctx, row.AgentID, row.PrincipalID)
	if err != nil {
		return nil, err
	}
	err = s.storeWithCatalog(ctx, catalog, func(tx pgx.Tx) error {
		if err := s.storeCatalog(ctx, tx, catalog); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE conversations SET catalogue_digest = $2, agent_revision = $3, problems = $4
			WHERE id = $1 AND agent_revision <= $3`, row.ID, catalog.digest[:], revision, nonNil(problems))
		if err != nil || tag.RowsAffected() == 0 || bytes.Equal(row.digest, catalog.digest[:]) {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.System(), Action: audit.ConversationRelisted, Subject: row.ID,
			Data: map[string]any{"agent_revision": revision, "tools": len(catalog.Entries), "problems": len(problems)},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("store new catalog: %w", err)
	}
	row.Catalog, row.Problems = s.shareCatalog(catalog), problems
	return &row.Conversation, nil
}

// nonNil makes an empty list be stored as [] and not as null.
func nonNil(problems []Problem) []Problem {
	if problems == nil {
		return []Problem{}
	}
	return problems
}

// clientCapabilities returns the capabilities in a stored client description. Nil: none.
func clientCapabilities(stored *string) json.RawMessage {
	var client struct {
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if stored == nil || json.Unmarshal([]byte(*stored), &client) != nil {
		return nil
	}
	return client.Capabilities
}

const maxClientBytes = 8192

// storableClient returns a client's description of itself, or nil if it is too large or PostgreSQL cannot store it.
func storableClient(client json.RawMessage) *string {
	if len(client) == 0 || len(client) > maxClientBytes || !json.Valid(client) || bytes.Contains(client, []byte(`\u0000`)) {
		return nil
	}
	text := string(bytes.ToValidUTF8(client, nil))
	return &text
}
