package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Question is something that a call's server asks the call's client, and that is open.
type Question struct {
	Number int    // of the call's questions, from 1 on
	Method string // elicitation/create, sampling/createMessage, roots/list
	Params json.RawMessage
}

// Answer is what a client says to a question: a result, or else a JSON-RPC error object.
type Answer struct {
	Result, Error json.RawMessage
}

// Why a question got no answer; the server is told so.
var (
	errNotAnswered = errors.New("nobody answered in time")
	errWithdrawn   = errors.New("the call is not on its way any more")
)

// ask puts a question where any process finds it that the call's client talks to, and waits for the answer.
func (r *relay) ask(ctx context.Context, q tool.Question) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, errNotAnswered)
	defer cancel()
	s, id := r.s, r.c.ID
	w := s.hub.add(id)
	defer s.hub.remove(id, w)
	number, err := s.putQuestion(ctx, r.c, q)
	if err != nil {
		s.Logger.Warn("a server's question cannot be asked", "call", id, "method", q.Method, "error", err)
		return nil, fmt.Errorf("ask %s: %w", q.Method, err)
	}
	s.hub.wake(id, nil)
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		answer, err := s.readAnswer(ctx, id, number)
		switch {
		case err == nil && answer != nil:
			if answer.Result == nil {
				return nil, &tool.Failure{Kind: tool.JSONRPCError, Message: "the client answered with an error", RPC: answer.Error}
			}
			return answer.Result, nil
		case errors.Is(err, errWithdrawn):
			return nil, err
		}
		select {
		case <-ctx.Done():
			s.withdraw(context.WithoutCancel(ctx), id, number)
			return nil, context.Cause(ctx)
		case <-w.ch:
		case <-poll.C:
		}
	}
}

func (s *Service) putQuestion(ctx context.Context, c *Call, q tool.Question) (number int, err error) {
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var ours bool
		err := tx.QueryRow(ctx, `SELECT status = 'executing' AND claimed_by = $2 FROM calls WHERE id = $1 FOR UPDATE`,
			c.ID, s.Instance).Scan(&ours)
		if err == nil && !ours {
			err = errWithdrawn
		}
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `INSERT INTO call_questions (call_id, number, method, params)
			SELECT $1, coalesce(max(number), 0) + 1, $2, $3 FROM call_questions WHERE call_id = $1 RETURNING number`,
			c.ID, q.Method, []byte(q.Params)).Scan(&number)
		if err != nil {
			return err
		}
		return s.ended(ctx, tx, c.ID, audit.Event{
			Actor: audit.System(), Action: "call.asked", Subject: c.ID, Data: map[string]any{"question": number, "method": q.Method},
		})
	})
	if err != nil {
		return 0, fmt.Errorf("store question of call %s: %w", c.ID, err)
	}
	return number, nil
}

// readAnswer returns nil while there is none.
func (s *Service) readAnswer(ctx context.Context, id uuid.UUID, number int) (*Answer, error) {
	var ended bool
	var a Answer
	err := s.Pool.QueryRow(ctx, `SELECT ended_at IS NOT NULL, answer, error FROM call_questions WHERE call_id = $1 AND number = $2`,
		id, number).Scan(&ended, (*[]byte)(&a.Result), (*[]byte)(&a.Error))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer of call %s: %w", id, err)
	case !ended:
		return nil, nil
	case a.Result == nil && a.Error == nil:
		return nil, errWithdrawn
	}
	return &a, nil
}

// withdraw ends a question that nobody needs to answer any more.
func (s *Service) withdraw(ctx context.Context, id uuid.UUID, number int) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	_, err := s.Pool.Exec(ctx, `UPDATE call_questions SET ended_at = holdpoint_now()
		WHERE call_id = $1 AND number = $2 AND ended_at IS NULL`, id, number)
	if err != nil {
		s.Logger.Warn("withdrawing a question", "call", id, "error", err)
	}
}

// Questions are those of a call that are open, in the order in which they were asked. ErrNotFound.
func (s *Service) Questions(ctx context.Context, viewer Viewer, id uuid.UUID) ([]Question, error) {
	c, err := s.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if !viewer.sees(c) {
		return nil, ErrNotFound
	}
	return s.questions(ctx, c)
}

func (s *Service) questions(ctx context.Context, c *Call) ([]Question, error) {
	if c.Status != Executing || c.caller.Capabilities == nil {
		return nil, nil
	}
	rows, err := s.Pool.Query(ctx, `SELECT number, method, params FROM call_questions
		WHERE call_id = $1 AND ended_at IS NULL ORDER BY number`, c.ID)
	if err != nil {
		return nil, fmt.Errorf("read questions of call %s: %w", c.ID, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (q Question, err error) {
		return q, row.Scan(&q.Number, &q.Method, (*[]byte)(&q.Params))
	})
	if err != nil {
		return nil, fmt.Errorf("read questions of call %s: %w", c.ID, err)
	}
	return list, nil
}

// Answer answers a question. The first answer counts. ErrNotFound: there is no such question that is open.
func (s *Service) Answer(ctx context.Context, viewer Viewer, id uuid.UUID, number int, a Answer) error {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE call_questions SET ended_at = holdpoint_now(), answer = $5, error = $6
			WHERE call_id = $1 AND number = $2 AND ended_at IS NULL AND EXISTS (SELECT FROM calls
				WHERE id = $1 AND agent_id = $3 AND principal_id IS NOT DISTINCT FROM $4)`,
			id, number, viewer.AgentID, postgres.OrNull(viewer.PrincipalID), []byte(a.Result), []byte(a.Error))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		return s.ended(ctx, tx, id, audit.Event{
			Actor: viewer.actor(), Action: "call.answered", Subject: id, Data: map[string]any{"question": number, "error": a.Error != nil},
		})
	})
	if err != nil {
		return fmt.Errorf("answer question %d of call %s: %w", number, id, err)
	}
	s.hub.wake(id, nil)
	return nil
}
