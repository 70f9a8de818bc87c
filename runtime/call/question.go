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

// Question is something that a call's server asks the call's client, and that the client may answer now.
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

// ask stores questions where any process finds them that the call's client talks to, and waits until each has its
// answer or its end. Rows hold all state: answers and decisions may be made in other processes.
func (r *relay) ask(ctx context.Context, questions []tool.Question) ([]json.RawMessage, error) {
	if answers := r.c.advance.take(questions); answers != nil {
		return answers, nil
	}
	s, id := r.s, r.c.ID
	w := s.hub.add(id)
	defer s.hub.remove(id, w)
	numbers, err := r.putQuestions(ctx, questions)
	if err != nil {
		s.Logger.Warn("a server's question cannot be asked", "call", id, "method", questions[0].Method, "error", err)
		return nil, fmt.Errorf("ask %s: %w", questions[0].Method, err)
	}
	s.hub.wake(id, nil)
	for {
		answers, left, err := s.readAnswers(ctx, id, numbers)
		_, refused := errors.AsType[*tool.Failure](err)
		if answers != nil || refused || errors.Is(err, errWithdrawn) || errors.Is(err, errNotAnswered) { // any other error may pass
			s.withdraw(context.WithoutCancel(ctx), r.c, numbers)
			return answers, err
		}
		if err == nil && left <= 0 {
			if err = s.expireQuestions(ctx, r.c, numbers); err == nil {
				continue
			}
			s.Logger.Warn("expiring questions", "call", id, "error", err)
		}
		timer := time.NewTimer(min(max(left, retryDelay), pollInterval))
		select {
		case <-ctx.Done():
			timer.Stop()
			s.withdraw(context.WithoutCancel(ctx), r.c, numbers)
			return nil, context.Cause(ctx)
		case <-w.ch:
			timer.Stop()
		case <-timer.C:
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

// putQuestions stores questions of a call that this process sends, and returns their numbers.
func (r *relay) putQuestions(ctx context.Context, questions []tool.Question) (numbers []int, err error) {
	s, c := r.s, r.c
	asked := make([]AskedQuestion, len(questions))
	waits := false
	for i, q := range questions {
		if asked[i], err = r.newQuestion(q); err != nil {
			return nil, err
		}
		waits = waits || asked[i].Status == QuestionPending
	}
	who, err := s.attentionFor(ctx, c, waits)
	if err != nil {
		return nil, err
	}
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
		numbers = nil
		if err := r.insertQuestions(ctx, tx, asked); err != nil {
			return err
		}
		methods := make([]string, len(asked))
		for i := range asked {
			numbers, methods[i] = append(numbers, asked[i].Number), asked[i].Method
		}
		if err := s.attendQuestion(ctx, tx, who); err != nil {
			return err
		}
		return s.recordQuestion(ctx, tx, audit.Event{
			Actor: audit.System(), Action: "call.asked", Subject: c.ID, Data: map[string]any{"questions": numbers, "methods": methods},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("store questions of call %s: %w", c.ID, err)
	}
	return numbers, nil
}

// newQuestion decides who has to approve what about a question. What a reviewer decides about passes the same door as
// arguments do, so that what is shown is what is meant.
func (r *relay) newQuestion(q tool.Question) (AskedQuestion, error) {
	asked := AskedQuestion{CallID: r.c.ID, Key: storableKey(q.Key), Method: q.Method, Params: q.Params, Status: QuestionAsked}
	if r.review {
		asked.Review = reviewOf(q)
	}
	if asked.Review != ReviewNone && q.Params != nil {
		clean, err := CleanArguments(q.Params)
		if err != nil {
			return asked, refusedQuestion(codeInvalidParams, "a reviewer cannot be shown this request: "+doorReason(err, "params"))
		}
		asked.Params = clean
	}
	if asked.Review == ReviewQuestion {
		asked.Status = QuestionPending
	}
	return asked, nil
}

// insertQuestions gives each a number, and the key by which the server knows it, if no other question has that one.
// The call's row is locked.
func (r *relay) insertQuestions(ctx context.Context, tx pgx.Tx, asked []AskedQuestion) error {
	var last int
	err := tx.QueryRow(ctx, `SELECT coalesce(max(number), 0) FROM call_questions WHERE call_id = $1`, r.c.ID).Scan(&last)
	if err != nil {
		return err
	}
	for i := range asked {
		q := &asked[i]
		q.Number = last + 1 + i
		var digest []byte
		if q.Status == QuestionPending {
			q.Digest = q.envelope().Digest()
			digest = q.Digest[:]
		}
		_, err := tx.Exec(ctx, `INSERT INTO call_questions (call_id, number, key, method, params, status, review, timeout_ms, deadline, digest)
			VALUES ($1, $2, CASE WHEN $3 = '' OR EXISTS (SELECT FROM call_questions WHERE call_id = $1 AND key = $3)
				THEN 'question_' || $2::int ELSE $3 END, $4, $5, $6, nullif($7, ''), $8::bigint,
				holdpoint_now() + $8::bigint * interval '1 millisecond', $9)`,
			q.CallID, q.Number, q.Key, q.Method, []byte(q.Params), q.Status, string(q.Review), r.limit.Milliseconds(), digest)
		if err != nil {
			return err
		}
	}
	return nil
}

const maxQuestionKey = 128

// storableKey is empty for one that is none that a client should have to repeat.
func storableKey(key string) string {
	if len(key) > maxQuestionKey || !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
		return ""
	}
	return key
}

// readAnswers returns nil while one is missing, and then how long the first of them may still take.
func (s *Service) readAnswers(ctx context.Context, id uuid.UUID, numbers []int) (answers []json.RawMessage, left time.Duration, err error) {
	rows, err := s.Pool.Query(ctx, `SELECT `+questionColumns+`, coalesce(extract(epoch FROM deadline - holdpoint_now()), 0)::float8
		FROM call_questions WHERE call_id = $1 AND number = ANY($2) ORDER BY number`, id, numbers)
	if err != nil {
		return nil, 0, fmt.Errorf("read answers of call %s: %w", id, err)
	}
	missing := false
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (q AskedQuestion, err error) {
		var seconds float64
		if err := row.Scan(append(q.targets(), &seconds)...); err != nil {
			return q, err
		}
		if q.Status.open() && q.EndedAt != nil {
			q.Status = QuestionWithdrawn // by a process of an older version
		}
		if q.Status.open() {
			if mine := time.Duration(seconds * float64(time.Second)); !missing || mine < left {
				left = mine
			}
			missing = true
			return q, nil
		}
		answer, err := q.deliverable()
		answers = append(answers, answer)
		return q, err
	})
	if err != nil || missing {
		return nil, left, err
	}
	return answers, 0, nil
}

// withdraw ends those questions that nobody needs to answer any more.
func (s *Service) withdraw(ctx context.Context, c *Call, numbers []int) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		return s.endQuestions(ctx, tx, c, `SELECT number, status FROM call_questions
			WHERE call_id = $1 AND number = ANY($2) AND ended_at IS NULL FOR UPDATE`, numbers, func(QuestionStatus) QuestionStatus { return QuestionWithdrawn })
	})
	if err != nil {
		s.Logger.Warn("withdrawing questions", "call", c.ID, "error", err)
	}
}

// Questions are those of a call that its client may answer now, in the order in which they were asked. ErrNotFound.
func (s *Service) Questions(ctx context.Context, viewer Viewer, id uuid.UUID) ([]Question, error) {
	c, err := s.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if !viewer.sees(c) {
		return nil, ErrNotFound
	}
	open, _, err := s.openQuestions(ctx, c)
	return open, err
}

// Reviewing returns until when a reviewer decides about a question of the call; zero: none is waiting for that. ErrNotFound.
func (s *Service) Reviewing(ctx context.Context, viewer Viewer, id uuid.UUID) (time.Time, error) {
	c, err := s.load(ctx, id)
	if err != nil {
		return time.Time{}, err
	}
	if !viewer.sees(c) {
		return time.Time{}, ErrNotFound
	}
	_, until, err := s.openQuestions(ctx, c)
	return until, err
}

// openQuestions returns the questions that the client may answer now, and until when a reviewer decides about others;
// zero: there are none.
func (s *Service) openQuestions(ctx context.Context, c *Call) (open []Question, reviewing time.Time, err error) {
	if c.Status != Executing || c.caller.Capabilities == nil {
		return nil, reviewing, nil
	}
	rows, err := s.Pool.Query(ctx, `SELECT number, key, method, params, status, coalesce(deadline, holdpoint_now()) FROM call_questions
		WHERE call_id = $1 AND ended_at IS NULL ORDER BY number`, c.ID)
	if err != nil {
		return nil, reviewing, fmt.Errorf("read questions of call %s: %w", c.ID, err)
	}
	var q Question
	var status QuestionStatus
	var deadline time.Time
	_, err = pgx.ForEachRow(rows, []any{&q.Number, &q.Key, &q.Method, (*[]byte)(&q.Params), &status, &deadline}, func() error {
		switch status {
		case QuestionAsked:
			open = append(open, Question{q.Number, q.Key, q.Method, bytes.Clone(q.Params)})
		case QuestionPending:
			if reviewing.IsZero() || deadline.Before(reviewing) {
				reviewing = deadline
			}
		default: // it has ended
		}
		return nil
	})
	if err != nil {
		return nil, reviewing, fmt.Errorf("read questions of call %s: %w", c.ID, err)
	}
	return open, reviewing, nil
}

// Answer takes a client's answer to a question. The first answer counts. If a reviewer decides about it, it waits for that.
// ErrNotFound: there is no such question that the client may answer.
func (s *Service) Answer(ctx context.Context, viewer Viewer, id uuid.UUID, number int, a Answer) error {
	err := s.answer(ctx, viewer, id, number, a)
	if err != nil {
		return fmt.Errorf("answer question %d of call %s: %w", number, id, err)
	}
	s.hub.wake(id, nil)
	return nil
}

func (s *Service) answer(ctx context.Context, viewer Viewer, id uuid.UUID, number int, a Answer) error {
	c, err := s.load(ctx, id)
	if err != nil {
		return err
	}
	if c.AgentID != viewer.AgentID || c.PrincipalID != viewer.PrincipalID {
		return ErrNotFound
	}
	who, err := s.attentionFor(ctx, c, c.Gated)
	if err != nil {
		return err
	}
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		q, err := lockQuestion(ctx, tx, id, number)
		if err != nil {
			return err
		}
		if q.Status != QuestionAsked {
			return ErrNotFound
		}
		q.take(a)
		err = tx.QueryRow(ctx, `UPDATE call_questions SET status = $3, answer = $4, error = $5, digest = coalesce($6, digest),
				answered_at = holdpoint_now(), ended_at = CASE WHEN $3 <> 'pending' THEN holdpoint_now() END,
				deadline = CASE WHEN $3 = 'pending' THEN holdpoint_now() + timeout_ms * interval '1 millisecond' ELSE deadline END
			WHERE call_id = $1 AND number = $2 RETURNING deadline`,
			id, number, q.Status, []byte(q.Answer.Result), []byte(q.Answer.Error), q.storedDigest()).Scan(&q.Deadline)
		if err != nil {
			return err
		}
		if q.Status == QuestionPending {
			if err := s.attendQuestion(ctx, tx, who); err != nil {
				return err
			}
		}
		return s.recordQuestion(ctx, tx, audit.Event{
			Actor: viewer.actor(), Action: "call.answered", Subject: id,
			Data: map[string]any{"question": number, "error": q.Answer.Error != nil, "status": q.Status},
		})
	})
}

// recordQuestion writes the event of a question, and notifies those who wait for its call elsewhere. The event's subject is the call.
func (s *Service) recordQuestion(ctx context.Context, tx pgx.Tx, event audit.Event) error {
	if err := audit.Write(ctx, tx, event); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, Channel, event.Subject.String()); err != nil {
		return fmt.Errorf("notify of questions: %w", err)
	}
	return nil
}
