package converse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// An agent as a tool: ask is a call that a conversation carries (see [call.Service.Carry]). So it is recorded, can be asked for
// again, is a task for clients that know these, and is lost with no process.

// Question is what somebody asks an agent.
type Question struct {
	Agent        *agent.Agent
	Principal    uuid.UUID
	Conversation uuid.UUID // in which the client asks, which is its own
	// Handle names the context that questions share. Empty: this one has a context of its own.
	Handle         string
	Entry          *catalog.Entry  // of the tool ask, from the client's catalog
	Arguments      json.RawMessage // from [call.CleanArguments]
	IdempotencyKey string
	Depth          int // how many agents have asked each other before this question
	Caller         call.Caller
}

// Ask takes a question in. The ticket is of a call, which ends with the answer. Errors: ErrNoModel, ErrDepth, *InvalidError,
// call.ErrKeyReused, *file.AttachmentError.
func (s *Service) Ask(ctx context.Context, q Question) (call.Ticket, error) {
	if q.Agent.Model == nil {
		return call.Ticket{}, ErrNoModel
	}
	if q.Depth >= s.MaxDepth {
		return call.Ticket{}, fmt.Errorf("%w: %d in a row, at most %d", ErrDepth, q.Depth+1, s.MaxDepth)
	}
	var arguments struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(q.Arguments, &arguments) // what is wrong with them is told by their schema
	m, err := newMessage(arguments.Message, q.Principal)
	if err != nil {
		return s.Calls.Carry(ctx, q.submission(), func(context.Context, pgx.Tx, *call.Call) error { return err })
	}
	switch {
	case q.Handle != "" && q.Depth > 0:
		// Each depth has a context of its own: one that is asked by what it asked itself would wait for itself.
		q.Handle = fmt.Sprintf("depth:%d:%s", q.Depth, q.Handle)
	case q.Handle != "":
	case q.IdempotencyKey != "": // a repeat finds the context of the first
		q.Handle = onceHandle + "key:" + q.IdempotencyKey
	default:
		q.Handle = onceHandle + m.ID.String()
	}
	for attempt := 1; ; attempt++ {
		ticket, err := s.askIn(ctx, &q, *m)
		if (errors.Is(err, errHandleTaken) || errors.Is(err, ErrEnded)) && attempt < askAttempts {
			continue
		}
		return ticket, err
	}
}

const askAttempts = 5

// onceHandle begins the handles of contexts that no other question shares. They end with the answer.
const onceHandle = "once:"

func (l *loop) once() bool { return strings.HasPrefix(l.handle, onceHandle) }

func (q *Question) submission() call.Submission {
	return call.Submission{
		Agent: q.Agent, PrincipalID: q.Principal, ConversationID: q.Conversation, Entry: q.Entry,
		Arguments: q.Arguments, IdempotencyKey: q.IdempotencyKey, Caller: q.Caller,
	}
}

func (s *Service) askIn(ctx context.Context, q *Question, m Message) (call.Ticket, error) {
	id, err := s.handled(ctx, q)
	if err != nil {
		return call.Ticket{}, err
	}
	ticket, err := s.Calls.Carry(ctx, q.submission(), func(ctx context.Context, tx pgx.Tx, c *call.Call) error {
		m.Asked = c.ID
		m.Files = nil
		for _, f := range c.Files {
			m.Files = append(m.Files, File{Name: f.Filename, MediaType: f.ContentType, Size: f.Size})
		}
		m.FilesOf = uuid.Nil
		if len(m.Files) > 0 {
			m.FilesOf = c.ID
		}
		return s.changeTx(ctx, tx, id, func(tx pgx.Tx, l *loop) error { return s.take(ctx, tx, l, &m) })
	})
	if err != nil || ticket.Attached || ticket.Status.Final() {
		s.discard(ctx, id)
	}
	return ticket, err
}

// discard ends a context that was begun for one question that was not asked in it after all.
func (s *Service) discard(ctx context.Context, id uuid.UUID) {
	unused := false
	var left *loop
	err := s.change(ctx, id, func(_ pgx.Tx, l *loop) error {
		if unused = l.once() && l.Status == Idle && l.Seq == 0; unused {
			l.Code = CodeClosed
			l.move(Ended)
		}
		left = l
		return nil
	})
	if err != nil {
		s.Logger.Warn("a conversation that is of no use stays open", "conversation", id, "error", err)
	} else if unused {
		s.closed(ctx, left)
	}
}

// handled finds the conversation of a handle, or begins it.
func (s *Service) handled(ctx context.Context, q *Question) (uuid.UUID, error) {
	c, found, err := s.ofHandle(ctx, q.Agent.ID, q.Principal, q.Handle)
	if found || err != nil {
		return c.ID, err
	}
	c, err = s.open(ctx, q.Agent, q.Principal, beginning{handle: q.Handle, depth: q.Depth}, func(*loop) {})
	return c.ID, err
}

// ofHandle finds the conversation of a handle that has not ended.
func (s *Service) ofHandle(ctx context.Context, agentID, principal uuid.UUID, handle string) (c Conversation, found bool, err error) {
	list, err := s.loops(ctx, `agent_id = $1 AND principal_id IS NOT DISTINCT FROM $2 AND handle = $3 AND status <> 'ended'`,
		agentID, postgres.OrNull(principal), handle)
	if err != nil || len(list) == 0 {
		return Conversation{}, false, err
	}
	return list[0].Conversation, true, nil
}

// CancelAsked gives up a question, as its client asks: what is under way for it is stopped. See [call.Config].
func (s *Service) CancelAsked(ctx context.Context, c *call.Call) error {
	list, err := s.loops(ctx, `agent_id = $1 AND conversation_id IN (SELECT conversation_id FROM loop_inbox WHERE asked = $2
		UNION ALL SELECT conversation_id FROM loops WHERE asked = $2)`, c.AgentID, c.ID)
	if err != nil || len(list) == 0 {
		return err
	}
	id, stopped := list[0].ID, false
	err = s.change(ctx, id, func(tx pgx.Tx, l *loop) error {
		if l.asked == c.ID {
			stopped, l.Stopping = true, true
			by := audit.Agent(l.AgentID)
			if l.PrincipalID != uuid.Nil {
				by = audit.Person(l.PrincipalID)
			}
			l.events = append(l.events, audit.Event{Actor: by, Action: "conversation.stopped", Subject: id})
			return nil
		}
		tag, err := tx.Exec(ctx, `DELETE FROM loop_inbox WHERE asked = $1`, c.ID)
		if err == nil && tag.RowsAffected() > 0 {
			l.finished = append(l.finished, asked{c.ID, "The question was cancelled before the agent came to it.", true})
		}
		return err
	})
	if err != nil || !stopped {
		return err
	}
	return s.cancelCalls(ctx, id)
}

// done is an answer as the result of a call.
func (a *asked) done(conversation uuid.UUID) call.Done {
	result := map[string]any{
		"content": []map[string]string{{"type": "text", "text": strings.ToValidUTF8(a.text, "\uFFFD")}},
		"_meta":   map[string]string{"dev.holdpoint/asked_conversation": conversation.String()},
	}
	if a.isError {
		result["isError"] = true
	}
	raw, err := json.Marshal(result)
	if err != nil { // strings can be marshalled
		raw = []byte(`{"content":[],"isError":true}`)
	}
	return call.Done{Result: raw, IsError: a.isError}
}

// stopIfAsked breaks off the request to the model of a turn that somebody stopped, or whose conversation ended.
func (s *Service) stopIfAsked(id uuid.UUID) {
	list, err := s.loops(s.running, `conversation_id = $1`, id)
	if err != nil || len(list) == 0 {
		return
	}
	if list[0].Stopping || list[0].Status == Ended {
		s.turns.halt(id)
	}
}
