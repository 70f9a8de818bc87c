package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const conversationColumns = `c.id, c.agent_id, c.principal_id, coalesce(c.name, ''), c.problems, c.protocol_version,
	c.client->'capabilities', coalesce(c.log_level, ''), c.created_at, c.ended_at, c.catalogue_digest, c.agent_revision`

// conversationRow is a conversation as it is stored.
type conversationRow struct {
	Conversation
	digest   []byte
	revision int64 // of the agent, when the catalogue was made
}

func (r *conversationRow) targets(principal **uuid.UUID) []any {
	return []any{
		&r.ID, &r.AgentID, principal, &r.Name, &r.Problems, &r.ProtocolVersion, &r.Capabilities, &r.LogLevel,
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

// start lists and stores. ErrExists when the agent and principal have an open
// conversation of that name.
func (s *Service) start(ctx context.Context, o opening) (*Conversation, error) {
	revision, catalogue, problems, err := s.gather(ctx, o.agentID, o.principalID)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	c := &Conversation{
		ID: id, AgentID: o.agentID, PrincipalID: o.principalID, Name: o.name,
		Catalogue: catalogue, Problems: problems, ProtocolVersion: plain(o.protocolVersion),
		Capabilities: o.capabilities(),
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.storeCatalogue(ctx, tx, catalogue); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `INSERT INTO conversations (id, agent_id, principal_id, name, catalogue_digest,
				agent_revision, problems, protocol_version, client)
			VALUES ($1, $2, $3, nullif($4, ''), $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING created_at`,
			id, o.agentID, postgres.OrNull(o.principalID), o.name, catalogue.digest[:], revision, listOf(problems),
			c.ProtocolVersion, storable(o.client)).Scan(&c.CreatedAt)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrExists
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: caller(o.agentID, o.principalID), Action: "conversation.started", Subject: id,
			Data: map[string]any{"agent": o.agentID, "tools": len(catalogue.Entries), "problems": len(problems)},
		})
	})
	if err != nil {
		return nil, err
	}
	c.Catalogue = s.remember(catalogue)
	return c, nil
}

// remember returns the one catalogue in memory of those that are equal.
func (s *Service) remember(c *Catalogue) *Catalogue {
	if known, ok := s.catalogues.Peek(c.digest); ok {
		return known
	}
	s.catalogues.Put(c.digest, c)
	return c
}

// storeCatalogue stores one that is not known to be stored.
func (s *Service) storeCatalogue(ctx context.Context, tx pgx.Tx, c *Catalogue) error {
	if _, stored := s.catalogues.Peek(c.digest); stored {
		return nil
	}
	entries, err := c.stored()
	if own := c.own(); err == nil && len(own) > 0 {
		err = tool.StoreDefinitions(ctx, tx, own)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `INSERT INTO catalogues (digest, entries) VALUES ($1, $2::json)
			ON CONFLICT (digest) DO NOTHING`, c.digest[:], string(entries))
	}
	if err != nil {
		return fmt.Errorf("store catalogue: %w", err)
	}
	return nil
}

// loadConversation reads an open conversation, and makes its catalogue anew when that is out of date.
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
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read conversation: %w", err)
	}
	return s.complete(ctx, row, revision)
}

// complete gives a conversation its catalogue.
func (s *Service) complete(ctx context.Context, row *conversationRow, revision int64) (*Conversation, error) {
	outdated := row.revision != revision || len(row.digest) != len(CatalogueDigest{})
	if !outdated {
		var err error
		if outdated, err = s.recovered(ctx, row.AgentID, row.PrincipalID, row.Problems); err != nil {
			return nil, err
		}
	}
	if outdated {
		return s.remake(ctx, row)
	}
	catalogue, err := s.catalogue(ctx, CatalogueDigest(row.digest))
	if err != nil {
		return nil, err
	}
	row.Catalogue = catalogue
	return &row.Conversation, nil
}

// remake lists anew. Of two who do so at once, the one who saw the agent's later
// revision prevails.
func (s *Service) remake(ctx context.Context, row *conversationRow) (*Conversation, error) {
	revision, catalogue, problems, err := s.gather(ctx, row.AgentID, row.PrincipalID)
	if err != nil {
		return nil, err
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.storeCatalogue(ctx, tx, catalogue); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE conversations SET catalogue_digest = $2, agent_revision = $3, problems = $4
			WHERE id = $1 AND agent_revision <= $3`, row.ID, catalogue.digest[:], revision, listOf(problems))
		if err != nil || tag.RowsAffected() == 0 || bytes.Equal(row.digest, catalogue.digest[:]) {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.System(), Action: "conversation.relisted", Subject: row.ID,
			Data: map[string]any{"agent_revision": revision, "tools": len(catalogue.Entries), "problems": len(problems)},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("store new catalogue: %w", err)
	}
	row.Catalogue, row.Problems = s.remember(catalogue), problems
	return &row.Conversation, nil
}

// listOf is never null.
func listOf(problems []Problem) []Problem {
	if problems == nil {
		return []Problem{}
	}
	return problems
}

// capabilities are those among what a client says of itself, if that is stored.
func (o opening) capabilities() json.RawMessage {
	var client struct {
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if stored := storable(o.client); stored == nil || json.Unmarshal([]byte(*stored), &client) != nil {
		return nil
	}
	return client.Capabilities
}

const maxClient = 8192

// storable keeps what a client says of itself, if PostgreSQL can keep it.
func storable(client json.RawMessage) *string {
	if len(client) == 0 || len(client) > maxClient || !json.Valid(client) || bytes.Contains(client, []byte(`\u0000`)) {
		return nil
	}
	text := string(bytes.ToValidUTF8(client, nil))
	return &text
}
