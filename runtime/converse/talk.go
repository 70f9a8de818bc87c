package converse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// MaxMessageBytes bounds a message, MaxWaiting those that wait while a turn is under way.
const (
	MaxMessageBytes = 256 << 10
	MaxWaiting      = 50
)

// newMessage checks what somebody says.
func newMessage(text string, by uuid.UUID) (*Message, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, &InvalidError{"message", "a text that is not empty"}
	case len(text) > MaxMessageBytes:
		return nil, &InvalidError{"message", fmt.Sprintf("at most %d bytes, got %d", MaxMessageBytes, len(text))}
	case !utf8.ValidString(text):
		return nil, &InvalidError{"message", "UTF-8"}
	case strings.ContainsRune(text, 0):
		return nil, &InvalidError{"message", "text without NUL"}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make message id: %w", err)
	}
	return &Message{ID: id, Text: text, By: by}, nil
}

// Opening is how a conversation begins.
type Opening struct {
	Agent     *agent.Agent
	Principal uuid.UUID // uuid.Nil: none
	Message   string    // the first one; empty: it waits for one
	// Key names one form, which may be sent more than once: while the conversation that began with it has not ended, it is that one. Empty: none.
	Key string
}

// formHandle begins the handles of conversations that began with an [Opening.Key].
const formHandle = "form:"

// Begin starts a conversation: it lists the tools of the agent's skills, as every conversation does. Errors: ErrNoModel, *InvalidError.
func (s *Service) Begin(ctx context.Context, o Opening) (Conversation, error) {
	var first *Message
	if o.Message != "" {
		var err error
		if first, err = newMessage(o.Message, o.Principal); err != nil {
			return Conversation{}, err
		}
	}
	if o.Key == "" {
		return s.begin(ctx, o, "", first)
	}
	handle := formHandle + o.Key
	if begun, found, err := s.ofHandle(ctx, o.Agent.ID, o.Principal, handle); found || err != nil {
		return begun, err
	}
	begun, err := s.begin(ctx, o, handle, first)
	if errors.Is(err, errHandleTaken) { // the form arrived twice at once
		if other, found, err := s.ofHandle(ctx, o.Agent.ID, o.Principal, handle); found || err != nil {
			return other, err
		}
	}
	return begun, err
}

func (s *Service) begin(ctx context.Context, o Opening, handle string, first *Message) (Conversation, error) {
	return s.open(ctx, o.Agent, o.Principal, beginning{handle: handle}, func(l *loop) {
		if first != nil {
			s.runBegins(l, s.reserve(ctx))
			l.add(Entry{Kind: KindUser, User: first})
			l.move(Due)
		}
	})
}

// beginning is what a new conversation is stored with.
type beginning struct {
	handle     string
	depth      int
	forkedFrom uuid.UUID
}

// open starts a conversation and lets f say what is in it.
func (s *Service) open(ctx context.Context, a *agent.Agent, principal uuid.UUID, b beginning, f func(l *loop)) (Conversation, error) {
	if a.Model == nil {
		return Conversation{}, ErrNoModel
	}
	started, err := s.Catalog.StartConversation(ctx, a, principal, "", nil)
	if err != nil {
		return Conversation{}, err
	}
	var begun Conversation
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO loops (conversation_id, agent_id, principal_id, handle, status, depth, forked_from)
			VALUES ($1, $2, $3, nullif($4, ''), 'idle', $5, $6) ON CONFLICT DO NOTHING`,
			started.ID, a.ID, postgres.OrNull(principal), b.handle, b.depth, postgres.OrNull(b.forkedFrom))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errHandleTaken
		}
		if _, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, Channel, newcomer+a.ID.String()); err != nil {
			return err
		}
		return s.changeTx(ctx, tx, started.ID, func(_ pgx.Tx, l *loop) error {
			f(l)
			begun = l.Conversation
			return nil
		})
	})
	if err != nil {
		err = errors.Join(err, s.Catalog.EndConversation(ctx, a.ID, principal, started.ID))
		return Conversation{}, fmt.Errorf("start conversation of agent %s: %w", a.Name, err)
	}
	s.looping.add(a.ID)
	return begun, nil
}

// errHandleTaken: another was faster.
var errHandleTaken = errors.New("there is a conversation of that handle")

// Say adds a message. It is taken up at once, or, where a turn is under way, when the model is told of its calls.
// Errors: ErrNotFound, ErrReadOnly, ErrEnded, *InvalidError.
func (s *Service) Say(ctx context.Context, viewer Viewer, id uuid.UUID, text string) (Message, error) {
	return s.SayOnce(ctx, viewer, id, text, "")
}

// SayOnce is Say for those who may have to repeat themselves: a message with the same key is returned as it was said
// before, and not said again, also when the conversation has ended since. An empty key is none. ErrKeyReused: with the key another text was said.
func (s *Service) SayOnce(ctx context.Context, viewer Viewer, id uuid.UUID, text, key string) (Message, error) {
	m, err := newMessage(text, viewer.PrincipalID)
	if err != nil {
		return Message{}, err
	}
	m.Key = key
	err = s.change(ctx, id, func(tx pgx.Tx, l *loop) error {
		if err := speaks(viewer, l); err != nil {
			return err
		}
		before, err := saidWith(ctx, tx, id, key)
		switch {
		case err != nil:
			return err
		case before == nil:
			return s.take(ctx, tx, l, m)
		case before.Text != text:
			return ErrKeyReused
		}
		m = before
		return nil
	})
	if err != nil {
		return Message{}, err
	}
	return *m, nil
}

// saidWith finds what was said in a conversation with a key. Nil: nothing.
func saidWith(ctx context.Context, tx pgx.Tx, id uuid.UUID, key string) (*Message, error) {
	if key == "" {
		return nil, nil
	}
	var data []byte
	var pending bool
	err := tx.QueryRow(ctx, `SELECT data, false FROM loop_entries WHERE conversation_id = $1 AND kind = 'user' AND data ->> 'key' = $2
		UNION ALL SELECT data, true FROM loop_inbox WHERE conversation_id = $1 AND data ->> 'key' = $2`, id, key).Scan(&data, &pending)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for a message by its key: %w", err)
	}
	m := &Message{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("read message of conversation %s: %w", id, err)
	}
	m.Pending = pending
	return m, nil
}

// take makes a message the next thing that is said, or keeps it until it can be.
func (s *Service) take(ctx context.Context, tx pgx.Tx, l *loop, m *Message) error {
	switch l.Status {
	case Ended:
		return ErrEnded
	case Idle:
		s.runBegins(l, s.reserve(ctx))
		l.add(Entry{Kind: KindUser, User: m})
		l.asked = m.Asked
		l.move(Due)
		return nil
	case Due, Queued, Running, Waiting:
	}
	var waiting int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM loop_inbox WHERE conversation_id = $1`, l.ID).Scan(&waiting); err != nil {
		return fmt.Errorf("count waiting messages: %w", err)
	}
	if waiting >= MaxWaiting {
		return &InvalidError{"message", fmt.Sprintf("fewer than %d messages that wait for what is under way; stop it, or wait", MaxWaiting)}
	}
	m.Trace = s.reserve(ctx)
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO loop_inbox (id, conversation_id, asked, data) VALUES ($1, $2, $3, $4::json)`,
		m.ID, l.ID, postgres.OrNull(m.Asked), string(data))
	if err != nil {
		return fmt.Errorf("keep message for later: %w", err)
	}
	m.Pending = true
	return nil
}

// speaks checks that the viewer may do more than look.
func speaks(viewer Viewer, l *loop) error {
	switch {
	case viewer.owns(&l.Conversation):
		return nil
	case viewer.sees(&l.Conversation):
		return ErrReadOnly
	}
	return ErrNotFound
}

// Stop ends what is under way: the request to the model is broken off, calls that nobody decided about are cancelled, and
// what was approved already is waited for. After that the conversation waits for the next message.
// Errors: ErrNotFound, ErrReadOnly, ErrEnded, ErrIdle.
func (s *Service) Stop(ctx context.Context, viewer Viewer, by audit.Actor, id uuid.UUID) error {
	err := s.change(ctx, id, func(_ pgx.Tx, l *loop) error {
		if err := speaks(viewer, l); err != nil {
			return err
		}
		switch {
		case l.Status == Ended:
			return ErrEnded
		case l.Status == Idle:
			return ErrIdle
		case !l.Stopping:
			l.Stopping = true
			l.events = append(l.events, audit.Event{Actor: by, Action: "conversation.stopped", Subject: id})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.cancelCalls(ctx, id)
}

// End ends a conversation for good. Calls that nobody decided about are cancelled. Errors: ErrNotFound, ErrReadOnly, ErrEnded.
func (s *Service) End(ctx context.Context, viewer Viewer, by audit.Actor, id uuid.UUID) error {
	var agentID, principal uuid.UUID
	err := s.change(ctx, id, func(tx pgx.Tx, l *loop) error {
		if err := speaks(viewer, l); err != nil {
			return err
		}
		if l.Status == Ended {
			return ErrEnded
		}
		agentID, principal = l.AgentID, l.PrincipalID
		return s.end(ctx, tx, l, CodeClosed, "The conversation was closed.", by.ID)
	})
	if err != nil {
		return err
	}
	if err := s.Catalog.EndConversation(ctx, agentID, principal, id); err != nil && !errors.Is(err, agent.ErrNotFound) {
		return err
	}
	return s.cancelCalls(ctx, id)
}

// end is for good: whoever still waits for an answer is told why there will be none.
func (s *Service) end(ctx context.Context, tx pgx.Tx, l *loop, code, text string, by uuid.UUID) error {
	l.notice(code, text, by)
	if l.asked != uuid.Nil {
		l.finished = append(l.finished, asked{l.asked, text, true})
		l.asked = uuid.Nil
	}
	waiting, err := s.empty(ctx, tx, l.ID)
	if err != nil {
		return err
	}
	for _, m := range waiting {
		if m.Asked != uuid.Nil {
			l.finished = append(l.finished, asked{m.Asked, text, true})
		}
	}
	s.runEnds(l, code)
	l.Code, l.Stopping = code, false
	l.move(Ended)
	return nil
}

// empty takes all messages out that wait.
func (s *Service) empty(ctx context.Context, tx pgx.Tx, id uuid.UUID) ([]Message, error) {
	return takeOut(ctx, tx, `DELETE FROM loop_inbox WHERE conversation_id = $1 RETURNING id, data`, id)
}

// cancelCalls cancels what calls of the last reply nobody decided about yet.
func (s *Service) cancelCalls(ctx context.Context, id uuid.UUID) error {
	list, err := s.loops(ctx, `conversation_id = $1`, id)
	if err != nil || len(list) == 0 {
		return err
	}
	rows, err := s.Pool.Query(ctx, `SELECT call_id FROM loop_calls WHERE conversation_id = $1 AND NOT ended`, id)
	if err != nil {
		return fmt.Errorf("find open calls of conversation %s: %w", id, err)
	}
	open, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return fmt.Errorf("find open calls of conversation %s: %w", id, err)
	}
	own := call.Viewer{AgentID: list[0].AgentID, PrincipalID: list[0].PrincipalID}
	for _, c := range open {
		if err := s.Calls.RequestCancel(ctx, own, c); err != nil && !errors.Is(err, call.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Fork begins another conversation of the same agent and principal with what was said up to an entry, which is a message, or
// a reply of whose calls the model was told how they ended. A text takes the place of that message, or follows that reply; an empty one is none.
// After a message it goes on at once. The tools are those that the agent has now.
// Errors: ErrNotFound, ErrReadOnly, ErrNoModel, *InvalidError.
func (s *Service) Fork(ctx context.Context, viewer Viewer, by audit.Actor, id uuid.UUID, seq int64, text string) (Conversation, error) {
	from, err := s.Get(ctx, viewer, id)
	if err != nil {
		return Conversation{}, err
	}
	if !viewer.owns(&from) {
		return Conversation{}, ErrReadOnly
	}
	said, err := s.transcript(ctx, id)
	if err != nil {
		return Conversation{}, err
	}
	kept, err := upTo(said, seq)
	if err != nil {
		return Conversation{}, err
	}
	if kept, err = followedBy(kept, text, from.PrincipalID); err != nil {
		return Conversation{}, err
	}
	a, err := s.Agents.AgentByID(ctx, from.AgentID)
	if err != nil {
		return Conversation{}, err
	}
	return s.open(ctx, a, from.PrincipalID, beginning{depth: from.Depth, forkedFrom: id}, func(l *loop) {
		for _, e := range kept {
			if e.User != nil {
				e.User.Asked, e.User.Key = uuid.Nil, ""
			}
			l.add(e)
		}
		if kept[len(kept)-1].Kind == KindUser || kept[len(kept)-1].Kind == KindTools {
			s.runBegins(l, s.reserve(ctx))
			l.move(Due)
		}
		l.events = append(l.events, audit.Event{
			Actor: by, Action: "conversation.forked", Subject: l.ID, Data: map[string]any{"from": id, "seq": strconv.FormatInt(seq, 10)},
		})
	})
}

// followedBy puts a message at the end, in place of another that is there.
func followedBy(kept []Entry, text string, by uuid.UUID) ([]Entry, error) {
	if text == "" {
		return kept, nil
	}
	m, err := newMessage(text, by)
	if err != nil {
		return nil, err
	}
	if kept[len(kept)-1].Kind == KindUser {
		kept = kept[:len(kept)-1]
	}
	return append(kept, Entry{Kind: KindUser, User: m}), nil
}

// upTo is what was said up to an entry, whole: with what the model was told of its calls.
func upTo(said []Entry, seq int64) ([]Entry, error) {
	for i, e := range said {
		if e.Seq != seq || e.Kind == KindTools {
			continue
		}
		if e.Kind == KindUser || len(e.Assistant.Calls) == 0 {
			return said[:i+1], nil
		}
		if i+1 < len(said) && said[i+1].Kind == KindTools {
			return said[:i+2], nil
		}
		return nil, &InvalidError{"seq", "a message, or a reply of whose calls the model was told how they ended"}
	}
	return nil, &InvalidError{"seq", "the number of a message or a reply of this conversation"}
}

// transcript is what the model knows: messages, replies, results.
func (s *Service) transcript(ctx context.Context, id uuid.UUID) ([]Entry, error) {
	return s.entries(ctx, id, `kind IN ('user', 'assistant', 'tools') ORDER BY seq`)
}
