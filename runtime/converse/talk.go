package converse

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Opening has the parameters of a new conversation.
type Opening struct {
	Agent     *agent.Agent
	Principal uuid.UUID // uuid.Nil: none
	Message   string    // the first one; may be empty
	// Key identifies a form that may be sent more than once. While the conversation that began with it is open, Begin returns
	// that one. Empty: no key.
	Key string
}

// formHandle is the prefix of the handles of conversations with an [Opening.Key].
const formHandle = "form:"

// Begin starts a conversation and lists the tools of the agent's skills. Errors: ErrNoModel, *fault.InvalidError.
func (s *Service) Begin(ctx context.Context, o Opening) (Conversation, error) {
	var first *Message
	if o.Message != "" {
		var err error
		if first, err = newMessage(o.Message, o.Principal); err != nil {
			return Conversation{}, err
		}
	}
	if o.Key == "" {
		return s.startConversation(ctx, o, "", first)
	}
	handle := formHandle + o.Key
	if begun, found, err := s.findByHandle(ctx, o.Agent.ID, o.Principal, handle); found || err != nil {
		return begun, err
	}
	begun, err := s.startConversation(ctx, o, handle, first)
	if errors.Is(err, errHandleTaken) { // the form arrived twice at the same time
		if other, found, err := s.findByHandle(ctx, o.Agent.ID, o.Principal, handle); found || err != nil {
			return other, err
		}
	}
	return begun, err
}

func (s *Service) startConversation(ctx context.Context, o Opening, handle string, first *Message) (Conversation, error) {
	return s.openConversation(ctx, o.Agent, o.Principal, beginning{handle: handle}, func(l *loop) {
		if first != nil {
			s.record.beginRun(l, s.record.reserveSpan(ctx))
			l.appendEntry(Entry{Kind: KindUser, User: first})
			l.setStatus(Due)
		}
	})
}

// beginning has the stored properties of a new conversation.
type beginning struct {
	handle     string
	depth      int
	forkedFrom uuid.UUID
}

// openConversation starts a conversation. The function f fills it before it is stored.
func (s *Service) openConversation(ctx context.Context, a *agent.Agent, principal uuid.UUID, b beginning, f func(l *loop)) (Conversation, error) {
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
		if _, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, Channel, agentPrefix+a.ID.String()); err != nil {
			return err
		}
		return s.changeLoopTx(ctx, tx, started.ID, func(_ pgx.Tx, l *loop) error {
			f(l)
			begun = l.Conversation
			return nil
		})
	})
	if err != nil {
		err = errors.Join(err, s.Catalog.EndConversation(ctx, a.ID, principal, started.ID))
		return Conversation{}, fmt.Errorf("start conversation of agent %s: %w", a.Name, err)
	}
	s.looping.rememberAgent(a.ID)
	return begun, nil
}

// errHandleTaken: another request created a conversation with the same handle.
var errHandleTaken = errors.New("a conversation with this handle exists")

// Stop ends the present run. It breaks off the request to the model and cancels undecided calls; approved calls still finish.
// Then the conversation waits for the next message. Errors: ErrNotFound, ErrReadOnly, ErrEnded, ErrIdle.
func (s *Service) Stop(ctx context.Context, viewer Viewer, by audit.Actor, id uuid.UUID) error {
	err := s.changeLoop(ctx, id, func(_ pgx.Tx, l *loop) error {
		if err := checkSpeaker(viewer, l); err != nil {
			return err
		}
		switch {
		case l.Status == Ended:
			return ErrEnded
		case l.Status == Idle:
			return ErrIdle
		case !l.Stopping:
			l.Stopping = true
			l.events = append(l.events, audit.Event{Actor: by, Action: audit.ConversationStopped, Subject: id})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.cancelCalls(ctx, id)
}

// StopAll stops the runs of all conversations, because the database was restored: their next calls may have been made since the backup.
// They continue with their next message. Calls that wait for a decision go on waiting.
func (s *Service) StopAll(ctx context.Context, tx pgx.Tx) error {
	stopped, err := postgres.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `UPDATE loops SET stopping = true
		WHERE status IN ('due', 'queued', 'running', 'waiting') AND NOT stopping RETURNING conversation_id`)
	if err != nil {
		return fmt.Errorf("stop conversations: %w", err)
	}
	events := make([]audit.Event, len(stopped))
	for i, id := range stopped {
		events[i] = audit.Event{Actor: audit.System(), Action: audit.ConversationStopped, Subject: id}
	}
	return audit.Write(ctx, tx, events...)
}

// End ends a conversation and cancels undecided calls. Errors: ErrNotFound, ErrReadOnly, ErrEnded.
func (s *Service) End(ctx context.Context, viewer Viewer, by audit.Actor, id uuid.UUID) error {
	var agentID, principal uuid.UUID
	err := s.changeLoop(ctx, id, func(tx pgx.Tx, l *loop) error {
		if err := checkSpeaker(viewer, l); err != nil {
			return err
		}
		if l.Status == Ended {
			return ErrEnded
		}
		agentID, principal = l.AgentID, l.PrincipalID
		return s.endLoop(ctx, tx, l, CodeClosed, "The conversation was closed.", by.ID)
	})
	if err != nil {
		return err
	}
	if err := s.Catalog.EndConversation(ctx, agentID, principal, id); err != nil && !errors.Is(err, agent.ErrNotFound) {
		return err
	}
	return s.cancelCalls(ctx, id)
}

// cancelCalls cancels the undecided calls of the last reply.
func (s *Service) cancelCalls(ctx context.Context, id uuid.UUID) error {
	list, err := s.store.readLoops(ctx, `conversation_id = $1`, id)
	if err != nil || len(list) == 0 {
		return err
	}
	rows, _ := s.Pool.Query(ctx, `SELECT call_id FROM loop_calls WHERE conversation_id = $1 AND NOT ended`, id)
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

// Fork starts a new conversation of the same agent and principal with a copy of the entries up to seq. The last entry must be a
// message, or a reply whose results the model has. A text replaces that message or follows that reply; it may be empty. After a
// message the agent starts to work at once. The agent's present tools are used. Errors: ErrNotFound, ErrReadOnly, ErrNoModel,
// *fault.InvalidError.
func (s *Service) Fork(ctx context.Context, viewer Viewer, by audit.Actor, id uuid.UUID, seq int64, text string) (Conversation, error) {
	from, err := s.Get(ctx, viewer, id)
	if err != nil {
		return Conversation{}, err
	}
	if !viewer.owns(&from) {
		return Conversation{}, ErrReadOnly
	}
	said, err := s.store.readTranscript(ctx, id)
	if err != nil {
		return Conversation{}, err
	}
	kept, err := entriesUpTo(said, seq)
	if err != nil {
		return Conversation{}, err
	}
	if text != "" {
		m, err := newMessage(text, from.PrincipalID)
		if err != nil {
			return Conversation{}, err
		}
		if kept[len(kept)-1].Kind == KindUser {
			kept = kept[:len(kept)-1]
		}
		kept = append(kept, Entry{Kind: KindUser, User: m})
	}
	a, err := s.Agents.AgentByID(ctx, from.AgentID)
	if err != nil {
		return Conversation{}, err
	}
	return s.openConversation(ctx, a, from.PrincipalID, beginning{depth: from.Depth, forkedFrom: id}, func(l *loop) {
		for _, e := range kept {
			if e.User != nil {
				e.User.Asked, e.User.Key = uuid.Nil, ""
			}
			l.appendEntry(e)
		}
		if kept[len(kept)-1].Kind == KindUser || kept[len(kept)-1].Kind == KindTools {
			s.record.beginRun(l, s.record.reserveSpan(ctx))
			l.setStatus(Due)
		}
		l.events = append(l.events, audit.Event{
			Actor: by, Action: audit.ConversationForked, Subject: l.ID, Data: map[string]any{"from": id, "seq": strconv.FormatInt(seq, 10)},
		})
	})
}

// entriesUpTo returns the entries up to seq, with the results of the last reply's calls.
func entriesUpTo(said []Entry, seq int64) ([]Entry, error) {
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
		return nil, fault.Invalid("seq", "must be a message, or a reply whose calls have ended")
	}
	return nil, fault.Invalid("seq", "must be the number of a message or a reply of this conversation")
}

// haltIfStopped breaks off a turn's request to the model if the run was stopped or the conversation has ended.
func (s *Service) haltIfStopped(id uuid.UUID) {
	list, err := s.store.readLoops(s.running, `conversation_id = $1`, id)
	if err != nil || len(list) == 0 {
		return
	}
	if list[0].Stopping || list[0].Status == Ended {
		s.turns.haltRequest(id)
	}
}
