package converse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

func (v Viewer) sees(c *Conversation) bool {
	return v.AgentID == uuid.Nil || v.owns(c)
}

// owns reports whether the viewer may speak in a conversation.
func (v Viewer) owns(c *Conversation) bool {
	return v.AgentID == c.AgentID && v.PrincipalID == c.PrincipalID
}

// Get returns a conversation with its waiting messages. ErrNotFound.
func (s *Service) Get(ctx context.Context, viewer Viewer, id uuid.UUID) (Conversation, error) {
	list, err := s.store.readLoops(ctx, `conversation_id = $1`, id)
	if err != nil {
		return Conversation{}, err
	}
	if len(list) == 0 || !viewer.sees(&list[0].Conversation) {
		return Conversation{}, ErrNotFound
	}
	c := list[0].Conversation
	c.Pending, err = s.store.readPending(ctx, id)
	return c, err
}

// States returns conversations by id. It leaves out ids that are not conversations of this package.
func (s *Service) States(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Conversation, error) {
	list, err := s.store.readLoops(ctx, `conversation_id = ANY($1)`, ids)
	if err != nil {
		return nil, err
	}
	states := make(map[uuid.UUID]Conversation, len(list))
	for _, l := range list {
		states[l.ID] = l.Conversation
	}
	return states, nil
}

const (
	maxTitle     = 80   // characters
	maxTitleRead = 1000 // characters of a message, to find its first line with text
)

// Titles returns the titles of conversations by id: the first line of their first messages, shortened. It is text from outside. A
// conversation without messages has none; see [catalog.Conversation.Label].
func (s *Service) Titles(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	titles, batch := map[uuid.UUID]string{}, &pgx.Batch{}
	QueueTitles(batch, ids, titles)
	err := s.store.pool.SendBatch(ctx, batch).Close()
	return titles, err
}

// QueueTitles adds the read of [Service.Titles] to a batch.
func QueueTitles(batch *pgx.Batch, ids []uuid.UUID, into map[uuid.UUID]string) {
	batch.Queue(`SELECT c.id, left(e.data->>'text', $2) FROM unnest($1::uuid[]) AS c(id),
		LATERAL (SELECT data FROM loop_entries WHERE conversation_id = c.id AND kind = 'user' ORDER BY seq LIMIT 1) AS e`, ids, maxTitleRead).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var message string
		_, err := pgx.ForEachRow(rows, []any{&id, &message}, func() error {
			if title := makeTitle(message); title != "" {
				into[id] = title
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read titles of conversations: %w", err)
		}
		return nil
	})
}

// makeTitle returns the first line of a message that has text, or "".
func makeTitle(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	line = strings.TrimSpace(line)
	if characters := []rune(line); len(characters) > maxTitle {
		return strings.TrimSpace(string(characters[:maxTitle-1])) + "…"
	}
	return line
}

// Latest returns the newest open conversation that the agent and principal began themselves, not with the tool ask.
// ErrNotFound.
func (s *Service) Latest(ctx context.Context, viewer Viewer) (Conversation, error) {
	list, err := s.store.readLoops(ctx, `agent_id = $1 AND principal_id IS NOT DISTINCT FROM $2 AND status <> 'ended' AND (handle IS NULL OR starts_with(handle, $3))
		ORDER BY conversation_id DESC LIMIT 1`, viewer.AgentID, postgres.OrNull(viewer.PrincipalID), formHandle)
	if err != nil {
		return Conversation{}, err
	}
	if len(list) == 0 {
		return Conversation{}, ErrNotFound
	}
	return list[0].Conversation, nil
}

// MaxEntries bounds the entries of one read.
const MaxEntries = 500

// Entries returns up to limit entries after one (0: from the first), oldest first. ErrNotFound.
func (s *Service) Entries(ctx context.Context, viewer Viewer, id uuid.UUID, after int64, limit int) ([]Entry, error) {
	if err := s.checkVisible(ctx, viewer, id); err != nil {
		return nil, err
	}
	return s.store.readEntries(ctx, id, `seq > $2 ORDER BY seq LIMIT $3`, after, min(max(limit, 1), MaxEntries))
}

// EntriesBefore returns the last entries, up to limit, before one (0: the end), oldest first. ErrNotFound.
func (s *Service) EntriesBefore(ctx context.Context, viewer Viewer, id uuid.UUID, before int64, limit int) ([]Entry, error) {
	if err := s.checkVisible(ctx, viewer, id); err != nil {
		return nil, err
	}
	list, err := s.store.readEntries(ctx, id, `($2 = 0 OR seq < $2) ORDER BY seq DESC LIMIT $3`, before, min(max(limit, 1), MaxEntries))
	slices.Reverse(list)
	return list, err
}

func (s *Service) checkVisible(ctx context.Context, viewer Viewer, id uuid.UUID) error {
	states, err := s.States(ctx, []uuid.UUID{id})
	if err != nil {
		return err
	}
	if c, there := states[id]; !there || !viewer.sees(&c) {
		return ErrNotFound
	}
	return nil
}

// QueueContext adds the read of the message and reply that led to a call to a batch. into becomes nil if no conversation of this package
// made the call.
func QueueContext(batch *pgx.Batch, callID uuid.UUID, into **Context) {
	batch.Queue(`SELECT l.conversation_id, l.seq, e.data, said.data, said.at FROM loop_calls l
			JOIN loop_entries e ON e.conversation_id = l.conversation_id AND e.seq = l.seq
			LEFT JOIN LATERAL (SELECT data, at FROM loop_entries
				WHERE conversation_id = l.conversation_id AND seq < l.seq AND kind = 'user' ORDER BY seq DESC LIMIT 1) AS said ON true
		WHERE l.call_id = $1`, callID).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanContext)
		if err != nil {
			return fmt.Errorf("read context of call %s: %w", callID, err)
		}
		if *into = nil; len(found) > 0 {
			*into = &found[0]
		}
		return nil
	})
}

func scanContext(row pgx.CollectableRow) (c Context, err error) {
	var reply, message []byte
	var at *time.Time
	if err := row.Scan(&c.ConversationID, &c.Seq, &reply, &message, &at); err != nil {
		return c, err
	}
	var said Reply
	if err := json.Unmarshal(reply, &said); err != nil {
		return c, err
	}
	c.Reason = said.Text()
	if at != nil {
		c.Message, c.MessageAt = &Message{}, *at
		err = json.Unmarshal(message, c.Message)
	}
	return c, err
}

// Answering returns the conversation that answers a call of the tool ask. After the call has ended, its result has the id too.
// ErrNotFound.
func (s *Service) Answering(ctx context.Context, c *call.Call) (uuid.UUID, error) {
	var told struct {
		Meta struct {
			Conversation uuid.UUID `json:"dev.holdpoint/asked_conversation"`
		} `json:"_meta"`
	}
	if json.Unmarshal(c.Result, &told) == nil && told.Meta.Conversation != uuid.Nil {
		return told.Meta.Conversation, nil
	}
	var id uuid.UUID
	err := s.Pool.QueryRow(ctx, `SELECT conversation_id FROM loops WHERE agent_id = $1 AND asked = $2
		UNION ALL SELECT conversation_id FROM loop_inbox WHERE asked = $2 LIMIT 1`, c.AgentID, c.ID).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return id, ErrNotFound
	}
	if err != nil {
		return id, fmt.Errorf("find conversation that answers call %s: %w", c.ID, err)
	}
	return id, nil
}

// IsAsk reports whether a call is of the tool ask.
func IsAsk(c *call.Call) bool { return c.SkillID == agent.BuiltinSkill && c.Tool == catalog.AskTool }

// callIDs returns the ids of the calls that were made.
func (r *Reply) callIDs() []uuid.UUID {
	var ids []uuid.UUID
	for i := range r.Calls {
		if r.Calls[i].ID != uuid.Nil {
			ids = append(ids, r.Calls[i].ID)
		}
	}
	return ids
}

// Text returns the text of a reply, without its calls.
func (r *Reply) Text() string {
	text := ""
	for _, p := range r.Parts {
		if p.Text == nil || p.Text.Text == "" {
			continue
		}
		if text != "" {
			text += "\n\n"
		}
		text += p.Text.Text
	}
	return text
}
