package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Conversation is one run of an agent.
type Conversation struct {
	ID              uuid.UUID
	AgentID         uuid.UUID
	PrincipalID     uuid.UUID // uuid.Nil: none
	Name            string
	Catalog         *Catalog
	Problems        []Problem // skills and tools that are missing
	ProtocolVersion string
	Capabilities    json.RawMessage // of the client at the start, as an MCP ClientCapabilities object; nil: none
	Client          string          // the name of the client, as it says; empty: not known. Only in conversations that were read.
	LogLevel        string          // the lowest level of log messages that the client wants; empty: none
	CreatedAt       time.Time
	EndedAt         *time.Time
}

// Label names a conversation without messages by its agent, by its own name or that of its client, and by its start.
func (c *Conversation) Label(agentName, start string) string {
	parts := slices.DeleteFunc([]string{agentName, cmp.Or(c.Name, c.Client), start}, func(part string) bool { return part == "" })
	return strings.Join(parts, " · ")
}

// conversationKey contains agent and principal, so that a conversation is found for its owner only.
type conversationKey struct {
	agentID, principalID, id uuid.UUID
}

type conversationName struct {
	agentID, principalID uuid.UUID
	name                 string
}

// newConversation holds the fields that a conversation is created with.
type newConversation struct {
	agentID, principalID  uuid.UUID
	name, protocolVersion string
	client                json.RawMessage
}

// StartConversation lists the tools of all assigned skills in parallel and stores the catalog. A skill that cannot be listed
// becomes a [Problem] of the conversation, not an error.
func (s *Service) StartConversation(ctx context.Context, a *agent.Agent, principal uuid.UUID, protocolVersion string, client json.RawMessage) (*Conversation, error) {
	c, err := s.createConversation(ctx, newConversation{a.ID, principal, "", protocolVersion, client})
	if err != nil {
		return nil, fmt.Errorf("start conversation of agent %s: %w", a.Name, err)
	}
	return c, nil
}

// NamedConversation returns the open conversation with this name, or starts one. It is cached. A name that cannot be stored is
// an [*fault.InvalidError].
func (s *Service) NamedConversation(ctx context.Context, a *agent.Agent, principal uuid.UUID, name, protocolVersion string, client json.RawMessage) (*Conversation, error) {
	if storable := plain.Storable(name, maxMessage); name == "" || storable != name {
		return nil, fmt.Errorf("conversation %q of agent %s: %w", storable, a.Name, fault.Invalid("name", fmt.Sprintf("must be 1 to %d bytes of UTF-8 without NUL", maxMessage)))
	}
	key := conversationName{a.ID, principal, name}
	c, err := s.named.Get(ctx, key, func(ctx context.Context) (*Conversation, error) {
		c, err := s.loadConversation(ctx, a.ID, principal, `c.name = $3`, name)
		if !errors.Is(err, agent.ErrNotFound) {
			return c, err
		}
		c, err = s.createConversation(ctx, newConversation{a.ID, principal, name, protocolVersion, client})
		if errors.Is(err, agent.ErrExists) { // another process started it first
			return s.loadConversation(ctx, a.ID, principal, `c.name = $3`, name)
		}
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("conversation %s of agent %s: %w", name, a.Name, err)
	}
	return c, nil
}

// Conversation returns an open conversation of this agent and principal. It is cached. If an operator has changed the agent's
// skills, the catalog is built again. It returns [agent.ErrNotFound] if there is no such conversation, or it has another owner.
func (s *Service) Conversation(ctx context.Context, agentID, principal, id uuid.UUID) (*Conversation, error) {
	c, err := s.conversations.Get(ctx, conversationKey{agentID, principal, id}, func(ctx context.Context) (*Conversation, error) {
		return s.loadConversation(ctx, agentID, principal, `c.id = $3`, id)
	})
	if err != nil {
		return nil, fmt.Errorf("conversation %s: %w", id, err)
	}
	return c, nil
}

// EndConversation ends an open conversation, for example on DELETE of the MCP session. Other processes notice within
// seconds. It returns [agent.ErrNotFound] as [Service.Conversation] does.
func (s *Service) EndConversation(ctx context.Context, agentID, principal, id uuid.UUID) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE conversations SET ended_at = holdpoint_now()
			WHERE id = $1 AND agent_id = $2 AND principal_id IS NOT DISTINCT FROM $3 AND ended_at IS NULL`,
			id, agentID, postgres.OrNull(principal))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return agent.ErrNotFound
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: actorOf(agentID, principal), Action: audit.ConversationEnded, Subject: id,
		})
	})
	if err != nil {
		return fmt.Errorf("end conversation %s: %w", id, err)
	}
	s.conversations.DropIf(func(key conversationKey) bool { return key.id == id })
	s.named.DropIf(func(key conversationName) bool { return key.agentID == agentID && key.principalID == principal })
	return nil
}

// SetLogLevel stores the lowest level of log messages that the client of an open conversation wants. Other processes notice
// within seconds. It returns [agent.ErrNotFound] as [Service.Conversation] does.
func (s *Service) SetLogLevel(ctx context.Context, agentID, principal, id uuid.UUID, level string) error {
	tag, err := s.pool.Exec(ctx, `UPDATE conversations SET log_level = $4
		WHERE id = $1 AND agent_id = $2 AND principal_id IS NOT DISTINCT FROM $3 AND ended_at IS NULL`,
		id, agentID, postgres.OrNull(principal), level)
	if err == nil && tag.RowsAffected() == 0 {
		err = agent.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("set log level of conversation %s: %w", id, err)
	}
	s.conversations.DropIf(func(key conversationKey) bool { return key.id == id })
	return nil
}

// ConversationFilter selects conversations. The zero value selects all.
type ConversationFilter struct {
	AgentID uuid.UUID // uuid.Nil: any agent
	// Agents, Principals and IDs are alternatives. Nil: any.
	Agents, Principals, IDs []uuid.UUID
	// Principal is the person for whom the agent acts; it points to uuid.Nil if there is none. Nil: any.
	Principal *uuid.UUID
	Before    uuid.UUID // selects conversations that are older than this one; uuid.Nil: all
}

// Conversations lists conversations, newest first, without their catalogs. The second result is the cursor of the next page: the
// last conversation of this page, or uuid.Nil after the last page.
func (s *Service) Conversations(ctx context.Context, filter ConversationFilter, limit int) ([]Conversation, uuid.UUID, error) {
	limit = postgres.PageLength(limit)
	rows, err := s.pool.Query(ctx, `SELECT `+conversationColumns+` FROM conversations c
		WHERE ($1::uuid IS NULL OR c.agent_id = $1) AND ($2::uuid IS NULL OR c.id < $2)
			AND ($3 OR c.principal_id IS NOT DISTINCT FROM $4)
			AND ($5::uuid[] IS NULL OR c.agent_id = ANY($5)) AND ($6::uuid[] IS NULL OR c.principal_id = ANY($6))
			AND ($7::uuid[] IS NULL OR c.id = ANY($7))
		ORDER BY c.id DESC LIMIT $8`, postgres.OrNull(filter.AgentID), postgres.OrNull(filter.Before),
		filter.Principal == nil, filter.principalOrNull(), filter.Agents, filter.Principals, filter.IDs, limit+1)
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

func (f ConversationFilter) principalOrNull() *uuid.UUID {
	if f.Principal == nil {
		return nil
	}
	return postgres.OrNull(*f.Principal)
}

// ReadConversation returns any conversation, open or ended, with its stored catalog. Nothing is listed. It returns
// [agent.ErrNotFound] if there is no such conversation.
func (s *Service) ReadConversation(ctx context.Context, id uuid.UUID) (*Conversation, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+conversationColumns+` FROM conversations c WHERE c.id = $1`, id)
	if err != nil {
		return nil, fmt.Errorf("read conversation %s: %w", id, err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, scanConversation)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("conversation %s: %w", id, agent.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read conversation %s: %w", id, err)
	}
	if len(row.digest) == len(Digest{}) {
		if row.Catalog, err = s.loadCatalog(ctx, Digest(row.digest)); err != nil {
			return nil, fmt.Errorf("read conversation %s: %w", id, err)
		}
	}
	return &row.Conversation, nil
}

// actorOf returns the actor of audit events: the principal, or else the agent.
func actorOf(agentID, principal uuid.UUID) audit.Actor {
	if principal != uuid.Nil {
		return audit.Person(principal)
	}
	return audit.Agent(agentID)
}
