package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// A conversation is found only together with its agent and principal.
type conversationKey struct {
	agentID, principalID, id uuid.UUID
}

type conversationName struct {
	agentID, principalID uuid.UUID
	name                 string
}

// opening is what a new conversation is stored with.
type opening struct {
	agentID, principalID  uuid.UUID
	name, protocolVersion string
	client                json.RawMessage
}

// StartConversation lists the tools of all assigned skills side by side and stores the
// catalogue. One skill's failure is a Problem of the conversation, not an error.
func (s *Service) StartConversation(ctx context.Context, a *Agent, principal uuid.UUID, protocolVersion string, client json.RawMessage) (*Conversation, error) {
	c, err := s.start(ctx, opening{a.ID, principal, "", protocolVersion, client})
	if err != nil {
		return nil, fmt.Errorf("start conversation of agent %s: %w", a.Name, err)
	}
	return c, nil
}

// NamedConversation returns the open conversation of that name, or starts it. From memory where possible.
func (s *Service) NamedConversation(ctx context.Context, a *Agent, principal uuid.UUID, name, protocolVersion string, client json.RawMessage) (*Conversation, error) {
	if name == "" || plain(name) != name {
		return nil, fmt.Errorf("conversation %q of agent %s: %w", plain(name), a.Name,
			&InvalidError{[]FieldProblem{{"name", fmt.Sprintf("must be 1 to %d bytes of UTF-8 without NUL", maxMessage)}}})
	}
	key := conversationName{a.ID, principal, name}
	c, err := s.named.Get(ctx, key, func(ctx context.Context) (*Conversation, error) {
		c, err := s.loadConversation(ctx, a.ID, principal, `c.name = $3`, name)
		if !errors.Is(err, ErrNotFound) {
			return c, err
		}
		c, err = s.start(ctx, opening{a.ID, principal, name, protocolVersion, client})
		if errors.Is(err, ErrExists) { // another was faster
			return s.loadConversation(ctx, a.ID, principal, `c.name = $3`, name)
		}
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("conversation %s of agent %s: %w", name, a.Name, err)
	}
	return c, nil
}

// Conversation returns one that belongs to this agent and principal and has not ended; its
// catalogue is made anew when an operator changed the agent's skills since. From memory where possible. ErrNotFound.
func (s *Service) Conversation(ctx context.Context, agentID, principal, id uuid.UUID) (*Conversation, error) {
	c, err := s.conversations.Get(ctx, conversationKey{agentID, principal, id}, func(ctx context.Context) (*Conversation, error) {
		return s.loadConversation(ctx, agentID, principal, `c.id = $3`, id)
	})
	if err != nil {
		return nil, fmt.Errorf("conversation %s: %w", id, err)
	}
	return c, nil
}

// EndConversation ends one, as a DELETE of the MCP session asks. Other processes know within
// seconds. ErrNotFound.
func (s *Service) EndConversation(ctx context.Context, agentID, principal, id uuid.UUID) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE conversations SET ended_at = holdpoint_now()
			WHERE id = $1 AND agent_id = $2 AND principal_id IS NOT DISTINCT FROM $3 AND ended_at IS NULL`,
			id, agentID, postgres.OrNull(principal))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: caller(agentID, principal), Action: "conversation.ended", Subject: id,
		})
	})
	if err != nil {
		return fmt.Errorf("end conversation %s: %w", id, err)
	}
	s.conversations.DropIf(func(key conversationKey) bool { return key.id == id })
	s.named.DropIf(func(key conversationName) bool { return key.agentID == agentID && key.principalID == principal })
	return nil
}

// SetLogLevel notes what log messages a conversation's client wants. Other processes know within seconds. ErrNotFound.
func (s *Service) SetLogLevel(ctx context.Context, agentID, principal, id uuid.UUID, level string) error {
	tag, err := s.pool.Exec(ctx, `UPDATE conversations SET log_level = $4
		WHERE id = $1 AND agent_id = $2 AND principal_id IS NOT DISTINCT FROM $3 AND ended_at IS NULL`,
		id, agentID, postgres.OrNull(principal), level)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("set log level of conversation %s: %w", id, err)
	}
	s.conversations.DropIf(func(key conversationKey) bool { return key.id == id })
	return nil
}

// ConversationFilter says which conversations to list. The zero value: those of all.
type ConversationFilter struct {
	AgentID uuid.UUID // uuid.Nil: of every agent
	// Agents, Principals and IDs, when not nil, hold what it is one of.
	Agents, Principals, IDs []uuid.UUID
	// Principal, when set, is on whose behalf the agent acts; uuid.Nil in it: on nobody's.
	Principal *uuid.UUID
	Before    uuid.UUID // only older than this one; uuid.Nil: from the newest on
}

// Conversations lists conversations, newest first, without their catalogues, and returns the
// cursor of the next page (uuid.Nil: none), which is the last conversation of this one.
func (s *Service) Conversations(ctx context.Context, filter ConversationFilter, limit int) ([]Conversation, uuid.UUID, error) {
	limit = pageLength(limit)
	rows, err := s.pool.Query(ctx, `SELECT `+conversationColumns+` FROM conversations c
		WHERE ($1::uuid IS NULL OR c.agent_id = $1) AND ($2::uuid IS NULL OR c.id < $2)
			AND ($3 OR c.principal_id IS NOT DISTINCT FROM $4)
			AND ($5::uuid[] IS NULL OR c.agent_id = ANY($5)) AND ($6::uuid[] IS NULL OR c.principal_id = ANY($6))
			AND ($7::uuid[] IS NULL OR c.id = ANY($7))
		ORDER BY c.id DESC LIMIT $8`, postgres.OrNull(filter.AgentID), postgres.OrNull(filter.Before),
		filter.Principal == nil, filter.principal(), filter.Agents, filter.Principals, filter.IDs, limit+1)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list conversations: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanConversation)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list conversations: %w", err)
	}
	list := make([]Conversation, len(found))
	for i, row := range found {
		list[i] = row.Conversation
	}
	if len(list) <= limit {
		return list, uuid.Nil, nil
	}
	return list[:limit], list[limit-1].ID, nil
}

// ReadConversation returns any conversation, open or ended, with the catalogue that it has got; nothing is listed anew.
// ErrNotFound.
func (s *Service) ReadConversation(ctx context.Context, id uuid.UUID) (*Conversation, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+conversationColumns+` FROM conversations c WHERE c.id = $1`, id)
	if err != nil {
		return nil, fmt.Errorf("read conversation %s: %w", id, err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, scanConversation)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("conversation %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read conversation %s: %w", id, err)
	}
	if len(row.digest) == len(CatalogueDigest{}) {
		if row.Catalogue, err = s.catalogue(ctx, CatalogueDigest(row.digest)); err != nil {
			return nil, fmt.Errorf("read conversation %s: %w", id, err)
		}
	}
	return &row.Conversation, nil
}

func (f ConversationFilter) principal() *uuid.UUID {
	if f.Principal == nil {
		return nil
	}
	return postgres.OrNull(*f.Principal)
}

// Names returns the names of agents and skills (deleted ones too) by id, for display.
func (s *Service) Names(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	return Names(ctx, s.pool, ids)
}

// Names is [Service.Names] for a transaction, which must not wait for a second connection.
func Names(ctx context.Context, db querier, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	rows, err := db.Query(ctx, `SELECT id, name FROM agents WHERE id = ANY($1)
		UNION ALL SELECT id, name FROM skills WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read names: %w", err)
	}
	names := make(map[uuid.UUID]string, len(ids))
	var id uuid.UUID
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read names: %w", err)
	}
	if slices.Contains(ids, BuiltinSkill) {
		names[BuiltinSkill] = BuiltinSkillName
	}
	return names, nil
}

// caller is who acts in a conversation.
func caller(agentID, principal uuid.UUID) audit.Actor {
	if principal != uuid.Nil {
		return audit.Person(principal)
	}
	return audit.Agent(agentID)
}
