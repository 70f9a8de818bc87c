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

// Agents as tools: a call of the tool ask is carried by a conversation (see [call.Service.Carry]). So it is recorded, can be
// polled, can be a task, and survives the end of a process.

// Question is a message to an agent by the tool ask.
type Question struct {
	Agent        *agent.Agent
	Principal    uuid.UUID
	Conversation uuid.UUID // the client's own conversation
	// Handle names the context that questions share. Empty: the question has its own context.
	Handle         string
	Entry          *catalog.Entry  // of the tool ask, from the client's catalog
	Arguments      json.RawMessage // from [call.CleanArguments]
	IdempotencyKey string
	Depth          int // agents that have asked each other before this question
	Caller         call.Caller
}

// Ask accepts a question. The ticket's call ends with the answer. Errors: ErrNoModel, ErrDepth, *fault.InvalidError,
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
	_ = json.Unmarshal(q.Arguments, &arguments) // the schema reports problems of the arguments
	m, err := newMessage(arguments.Message, q.Principal)
	if err != nil {
		return s.Calls.Carry(ctx, q.newSubmission(), func(context.Context, pgx.Tx, *call.Call) error { return err })
	}
	switch {
	case q.Handle != "" && q.Depth > 0:
		// Each depth has its own context. In a shared one, an agent that asks itself would wait for itself.
		q.Handle = fmt.Sprintf("depth:%d:%s", q.Depth, q.Handle)
	case q.Handle != "":
	case q.IdempotencyKey != "": // a repeat finds the context of the first request
		q.Handle = onceHandle + "key:" + q.IdempotencyKey
	default:
		q.Handle = onceHandle + m.ID.String()
	}
	for attempt := 1; ; attempt++ {
		ticket, err := s.askInContext(ctx, &q, *m)
		if (errors.Is(err, errHandleTaken) || errors.Is(err, ErrEnded)) && attempt < askAttempts {
			continue
		}
		return ticket, err
	}
}

const askAttempts = 5

// onceHandle is the prefix of the handles of contexts with only one question. They end with the answer.
const onceHandle = "once:"

func (l *loop) isSingleUse() bool { return strings.HasPrefix(l.handle, onceHandle) }

func (q *Question) newSubmission() call.Submission {
	return call.Submission{
		Agent: q.Agent, PrincipalID: q.Principal, ConversationID: q.Conversation, Entry: q.Entry,
		Arguments: q.Arguments, IdempotencyKey: q.IdempotencyKey, Caller: q.Caller,
	}
}

// askInContext adds the question to the conversation of its handle, and starts one if there is none.
func (s *Service) askInContext(ctx context.Context, q *Question, m Message) (call.Ticket, error) {
	carrier, found, err := s.findByHandle(ctx, q.Agent.ID, q.Principal, q.Handle)
	if !found && err == nil {
		carrier, err = s.openConversation(ctx, q.Agent, q.Principal, beginning{handle: q.Handle, depth: q.Depth}, func(*loop) {})
	}
	if err != nil {
		return call.Ticket{}, err
	}
	ticket, err := s.Calls.Carry(ctx, q.newSubmission(), func(ctx context.Context, tx pgx.Tx, c *call.Call) error {
		m.Asked = c.ID
		m.Files = nil
		for _, f := range c.Files {
			m.Files = append(m.Files, File{Name: f.Filename, MediaType: f.ContentType, Size: f.Size})
		}
		m.FilesOf = uuid.Nil
		if len(m.Files) > 0 {
			m.FilesOf = c.ID
		}
		return s.changeLoopTx(ctx, tx, carrier.ID, func(tx pgx.Tx, l *loop) error { return s.acceptMessage(ctx, tx, l, &m) })
	})
	if err != nil || ticket.Attached || ticket.Status.Final() {
		s.discardUnused(ctx, carrier.ID)
	}
	return ticket, err
}

// discardUnused ends a new context if its question was not asked.
func (s *Service) discardUnused(ctx context.Context, id uuid.UUID) {
	unused := false
	var left *loop
	err := s.changeLoop(ctx, id, func(_ pgx.Tx, l *loop) error {
		if unused = l.isSingleUse() && l.Status == Idle && l.Seq == 0; unused {
			l.Code = CodeClosed
			l.setStatus(Ended)
		}
		left = l
		return nil
	})
	if err != nil {
		s.Logger.Warn("unused conversation not ended", "conversation", id, "error", err)
	} else if unused {
		s.endInCatalog(ctx, left)
	}
}

// findByHandle returns the open conversation of a handle.
func (s *Service) findByHandle(ctx context.Context, agentID, principal uuid.UUID, handle string) (c Conversation, found bool, err error) {
	list, err := s.store.readLoops(ctx, `agent_id = $1 AND principal_id IS NOT DISTINCT FROM $2 AND handle = $3 AND status <> 'ended'`,
		agentID, postgres.OrNull(principal), handle)
	if err != nil || len(list) == 0 {
		return Conversation{}, false, err
	}
	return list[0].Conversation, true, nil
}

// CancelAsked cancels a question for its client and stops the work on it. See [call.Config].
func (s *Service) CancelAsked(ctx context.Context, c *call.Call) error {
	list, err := s.store.readLoops(ctx, `agent_id = $1 AND conversation_id IN (SELECT conversation_id FROM loop_inbox WHERE asked = $2
		UNION ALL SELECT conversation_id FROM loops WHERE asked = $2)`, c.AgentID, c.ID)
	if err != nil || len(list) == 0 {
		return err
	}
	id, stopped := list[0].ID, false
	err = s.changeLoop(ctx, id, func(tx pgx.Tx, l *loop) error {
		if l.asked == c.ID {
			stopped, l.Stopping = true, true
			by := audit.Agent(l.AgentID)
			if l.PrincipalID != uuid.Nil {
				by = audit.Person(l.PrincipalID)
			}
			l.events = append(l.events, audit.Event{Actor: by, Action: audit.ConversationStopped, Subject: id})
			return nil
		}
		tag, err := tx.Exec(ctx, `DELETE FROM loop_inbox WHERE asked = $1`, c.ID)
		if err == nil && tag.RowsAffected() > 0 {
			l.answers = append(l.answers, answeredCall{c.ID, "The question was cancelled before the agent started on it.", true})
		}
		return err
	})
	if err != nil || !stopped {
		return err
	}
	return s.cancelCalls(ctx, id)
}

// buildOutcome converts an answer to the result of a call.
func (a *answeredCall) buildOutcome(conversation uuid.UUID) call.Done {
	result := map[string]any{
		"content": []map[string]string{{"type": "text", "text": strings.ToValidUTF8(a.text, "\uFFFD")}},
		"_meta":   map[string]string{"dev.holdpoint/asked_conversation": conversation.String()},
	}
	if a.isError {
		result["isError"] = true
	}
	raw, err := json.Marshal(result)
	if err != nil { // strings always encode
		raw = []byte(`{"content":[],"isError":true}`)
	}
	return call.Done{Result: raw, IsError: a.isError}
}
