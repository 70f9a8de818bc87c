package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Question is something that a call's server asks the call's client, and that is open.
type Question struct {
	Number int    // of the call's questions, from 1 on
	Key    string // among the call's questions: the server's own, where it has one
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

// ask puts questions where any process finds them that the call's client talks to, and waits for the answers.
func (r *relay) ask(ctx context.Context, questions []tool.Question) ([]json.RawMessage, error) {
	if answers := r.c.advance.take(questions); answers != nil {
		return answers, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, errNotAnswered)
	defer cancel()
	s, id := r.s, r.c.ID
	w := s.hub.add(id)
	defer s.hub.remove(id, w)
	numbers, err := s.putQuestions(ctx, r.c, questions)
	if err != nil {
		s.Logger.Warn("a server's question cannot be asked", "call", id, "method", questions[0].Method, "error", err)
		return nil, fmt.Errorf("ask %s: %w", questions[0].Method, err)
	}
	s.hub.wake(id, nil)
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		answers, err := s.readAnswers(ctx, id, numbers)
		_, refused := errors.AsType[*tool.Failure](err)
		if answers != nil || refused || errors.Is(err, errWithdrawn) { // any other error may pass
			s.withdraw(context.WithoutCancel(ctx), id, numbers)
			return answers, err
		}
		select {
		case <-ctx.Done():
			s.withdraw(context.WithoutCancel(ctx), id, numbers)
			return nil, context.Cause(ctx)
		case <-w.ch:
		case <-poll.C:
		}
	}
}

// advance are answers that came with a call, by the keys of the questions. A server may ask several at one time.
type advance struct {
	mu      sync.Mutex
	answers map[string]json.RawMessage
}

// newAdvance is nil where there are none.
func newAdvance(answers map[string]json.RawMessage) *advance {
	if len(answers) == 0 {
		return nil
	}
	return &advance{answers: maps.Clone(answers)}
}

// take are the answers when there is one to each of these questions; nil: there is not. Each is given once. What has no key
// cannot be answered beforehand.
func (a *advance) take(questions []tool.Question) []json.RawMessage {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answers := make([]json.RawMessage, len(questions))
	for i, q := range questions {
		if answers[i] = a.answers[q.Key]; q.Key == "" || answers[i] == nil {
			return nil
		}
	}
	for _, q := range questions {
		delete(a.answers, q.Key)
	}
	return answers
}

func (s *Service) putQuestions(ctx context.Context, c *Call, questions []tool.Question) (numbers []int, err error) {
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
		if numbers, err = insertQuestions(ctx, tx, c.ID, questions); err != nil {
			return err
		}
		methods := make([]string, len(questions))
		for i, q := range questions {
			methods[i] = q.Method
		}
		return s.ended(ctx, tx, c.ID, audit.Event{
			Actor: audit.System(), Action: "call.asked", Subject: c.ID, Data: map[string]any{"questions": numbers, "methods": methods},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("store questions of call %s: %w", c.ID, err)
	}
	return numbers, nil
}

// insertQuestions gives each a number, and the key by which the server knows it, if no other question has that one.
func insertQuestions(ctx context.Context, tx pgx.Tx, id uuid.UUID, questions []tool.Question) ([]int, error) {
	numbers := make([]int, len(questions))
	for i, q := range questions {
		err := tx.QueryRow(ctx, `INSERT INTO call_questions (call_id, number, key, method, params)
			SELECT $1, n, CASE WHEN $2 = '' OR EXISTS (SELECT FROM call_questions WHERE call_id = $1 AND key = $2)
				THEN 'question_' || n ELSE $2 END, $3, $4
			FROM (SELECT coalesce(max(number), 0) + 1 AS n FROM call_questions WHERE call_id = $1) AS next RETURNING number`,
			id, storableKey(q.Key), q.Method, []byte(q.Params)).Scan(&numbers[i])
		if err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

const maxQuestionKey = 128

// storableKey is empty for one that is none that a client should have to repeat.
func storableKey(key string) string {
	if len(key) > maxQuestionKey || !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
		return ""
	}
	return key
}

// readAnswers returns nil while one is missing.
func (s *Service) readAnswers(ctx context.Context, id uuid.UUID, numbers []int) ([]json.RawMessage, error) {
	rows, err := s.Pool.Query(ctx, `SELECT ended_at IS NOT NULL, answer, error FROM call_questions
		WHERE call_id = $1 AND number = ANY($2) ORDER BY number`, id, numbers)
	if err != nil {
		return nil, fmt.Errorf("read answers of call %s: %w", id, err)
	}
	var ended, missing bool
	var a Answer
	var answers []json.RawMessage
	_, err = pgx.ForEachRow(rows, []any{&ended, (*[]byte)(&a.Result), (*[]byte)(&a.Error)}, func() error {
		switch {
		case !ended:
			missing = true
		case a.Error != nil:
			return &tool.Failure{Kind: tool.JSONRPCError, Message: "the client answered with an error", RPC: bytes.Clone(a.Error)}
		case a.Result == nil:
			return errWithdrawn
		}
		answers = append(answers, bytes.Clone(a.Result))
		return nil
	})
	if err != nil || missing {
		return nil, err
	}
	return answers, nil
}

// withdraw ends those questions that nobody needs to answer any more.
func (s *Service) withdraw(ctx context.Context, id uuid.UUID, numbers []int) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	_, err := s.Pool.Exec(ctx, `UPDATE call_questions SET ended_at = holdpoint_now()
		WHERE call_id = $1 AND number = ANY($2) AND ended_at IS NULL`, id, numbers)
	if err != nil {
		s.Logger.Warn("withdrawing questions", "call", id, "error", err)
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
	rows, err := s.Pool.Query(ctx, `SELECT number, key, method, params FROM call_questions
		WHERE call_id = $1 AND ended_at IS NULL ORDER BY number`, c.ID)
	if err != nil {
		return nil, fmt.Errorf("read questions of call %s: %w", c.ID, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (q Question, err error) {
		return q, row.Scan(&q.Number, &q.Key, &q.Method, (*[]byte)(&q.Params))
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
