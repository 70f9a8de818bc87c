package converse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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

// Get returns a conversation that Holdpoint holds itself, with the messages that wait. ErrNotFound: it is none, or not the viewer's.
func (s *Service) Get(ctx context.Context, viewer Viewer, id uuid.UUID) (Conversation, error) {
	list, err := s.loops(ctx, `conversation_id = $1`, id)
	if err != nil {
		return Conversation{}, err
	}
	if len(list) == 0 || !viewer.sees(&list[0].Conversation) {
		return Conversation{}, ErrNotFound
	}
	c := list[0].Conversation
	c.Pending, err = s.pending(ctx, id)
	return c, err
}

// States returns those of some conversations that Holdpoint holds itself, by id.
func (s *Service) States(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Conversation, error) {
	list, err := s.loops(ctx, `conversation_id = ANY($1)`, ids)
	if err != nil {
		return nil, err
	}
	states := make(map[uuid.UUID]Conversation, len(list))
	for _, l := range list {
		states[l.ID] = l.Conversation
	}
	return states, nil
}

// Latest returns the newest conversation of an agent and principal that has not ended and was begun by them, not by what
// they asked another agent. ErrNotFound: there is none.
func (s *Service) Latest(ctx context.Context, viewer Viewer) (Conversation, error) {
	list, err := s.loops(ctx, `agent_id = $1 AND principal_id IS NOT DISTINCT FROM $2 AND status <> 'ended' AND (handle IS NULL OR starts_with(handle, $3))
		ORDER BY conversation_id DESC LIMIT 1`, viewer.AgentID, postgres.OrNull(viewer.PrincipalID), formHandle)
	if err != nil {
		return Conversation{}, err
	}
	if len(list) == 0 {
		return Conversation{}, ErrNotFound
	}
	return list[0].Conversation, nil
}

func (s *Service) loops(ctx context.Context, where string, args ...any) ([]*loop, error) {
	rows, err := s.Pool.Query(ctx, `SELECT `+loopColumns+` FROM loops WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read conversations: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanLoop)
	if err != nil {
		return nil, fmt.Errorf("read conversations: %w", err)
	}
	return list, nil
}

func (s *Service) pending(ctx context.Context, id uuid.UUID) ([]Message, error) {
	rows, err := s.Pool.Query(ctx, `SELECT data FROM loop_inbox WHERE conversation_id = $1 ORDER BY id`, id)
	if err != nil {
		return nil, fmt.Errorf("read waiting messages: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Message, err error) {
		var data []byte
		if err = row.Scan(&data); err == nil {
			err = json.Unmarshal(data, &m)
		}
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("read waiting messages: %w", err)
	}
	return list, nil
}

// MaxEntries is how many entries are read at once.
const MaxEntries = 500

// Entries returns the entries after one (0: from the first on), oldest first, at most limit. ErrNotFound.
func (s *Service) Entries(ctx context.Context, viewer Viewer, id uuid.UUID, after int64, limit int) ([]Entry, error) {
	if err := s.visible(ctx, viewer, id); err != nil {
		return nil, err
	}
	return s.entries(ctx, id, `seq > $2 ORDER BY seq LIMIT $3`, after, min(max(limit, 1), MaxEntries))
}

// EntriesBefore returns the last entries before one (0: the last of all), oldest first, at most limit. ErrNotFound.
func (s *Service) EntriesBefore(ctx context.Context, viewer Viewer, id uuid.UUID, before int64, limit int) ([]Entry, error) {
	if err := s.visible(ctx, viewer, id); err != nil {
		return nil, err
	}
	list, err := s.entries(ctx, id, `($2 = 0 OR seq < $2) ORDER BY seq DESC LIMIT $3`, before, min(max(limit, 1), MaxEntries))
	slices.Reverse(list)
	return list, err
}

func (s *Service) visible(ctx context.Context, viewer Viewer, id uuid.UUID) error {
	states, err := s.States(ctx, []uuid.UUID{id})
	if err != nil {
		return err
	}
	if c, there := states[id]; !there || !viewer.sees(&c) {
		return ErrNotFound
	}
	return nil
}

func (s *Service) entries(ctx context.Context, id uuid.UUID, where string, args ...any) ([]Entry, error) {
	rows, err := s.Pool.Query(ctx, `SELECT seq, kind, at, data FROM loop_entries WHERE conversation_id = $1 AND `+where,
		append([]any{id}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("read entries of conversation %s: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("read entries of conversation %s: %w", id, err)
	}
	return list, nil
}

func scanEntry(row pgx.CollectableRow) (e Entry, err error) {
	var data []byte
	if err = row.Scan(&e.Seq, &e.Kind, &e.At, &data); err == nil {
		err = e.read(data)
	}
	return e, err
}

// Context says what led to a call. ErrNotFound: it is none of a conversation that Holdpoint holds itself.
func (s *Service) Context(ctx context.Context, callID uuid.UUID) (Context, error) {
	var c Context
	var reply []byte
	err := s.Pool.QueryRow(ctx, `SELECT l.conversation_id, l.seq, e.data FROM loop_calls l
			JOIN loop_entries e ON e.conversation_id = l.conversation_id AND e.seq = l.seq
		WHERE l.call_id = $1`, callID).Scan(&c.ConversationID, &c.Seq, &reply)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, ErrNotFound
	}
	if err != nil {
		return c, fmt.Errorf("read what led to call %s: %w", callID, err)
	}
	var said Reply
	if err := json.Unmarshal(reply, &said); err != nil {
		return c, fmt.Errorf("read what led to call %s: %w", callID, err)
	}
	c.Reason = said.Text()
	before, err := s.entries(ctx, c.ConversationID, `seq < $2 AND kind = 'user' ORDER BY seq DESC LIMIT 1`, c.Seq)
	if err != nil {
		return c, err
	}
	if len(before) > 0 {
		c.Message, c.MessageAt = before[0].User, before[0].At
	}
	return c, nil
}

// Answering returns the conversation in which a call of the tool ask is, or was, answered. ErrNotFound: none is known. Once the
// call has ended its result names it too.
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

// IsAsk reports whether a call is of the tool ask, by which an agent is asked.
func IsAsk(c *call.Call) bool { return c.SkillID == agent.BuiltinSkill && c.Tool == catalog.AskTool }

// Text is what a reply says, without its calls.
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
