package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Question is a question of a call's server that the call's client may answer now.
type Question struct {
	Number int    // among the questions of the call, from 1
	Key    string // among the questions of the call; the server's own, if it has one
	Method string // elicitation/create, sampling/createMessage, roots/list
	Params json.RawMessage
}

// Answer is a client's answer: a result or a JSON-RPC error object.
type Answer struct {
	Result, Error json.RawMessage
}

// The reasons why a server gets no answer.
var (
	errNotAnswered = errors.New("no answer arrived in time")
	errWithdrawn   = errors.New("the call is not on its way any more")
)

// askClient stores questions in the database, and waits until each is answered or ends. The client and the reviewer may be connected to
// other processes.
func (r *relay) askClient(ctx context.Context, questions []tool.Question) ([]json.RawMessage, error) {
	if answers := r.c.advance.takeAnswers(questions); answers != nil {
		return answers, nil
	}
	s, id := r.s, r.c.ID
	w := s.hub.add(id, false)
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
		if answers != nil || refused || errors.Is(err, errWithdrawn) || errors.Is(err, errNotAnswered) { // retry after any other error
			s.withdrawQuestions(context.WithoutCancel(ctx), r.c, numbers)
			return answers, err
		}
		if err == nil && left <= 0 {
			if err = s.endQuestions(ctx, r.c, numbers, true); err == nil {
				continue
			}
			s.Logger.Warn("expiring questions", "call", id, "error", err)
		}
		timer := time.NewTimer(min(max(left, retryDelay), pollInterval))
		select {
		case <-ctx.Done():
			timer.Stop()
			s.withdrawQuestions(context.WithoutCancel(ctx), r.c, numbers)
			return nil, context.Cause(ctx)
		case <-w.ch:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// advance has answers that came with a call, by the keys of the questions.
type advance struct {
	mu      sync.Mutex
	answers map[string]json.RawMessage
}

// takeAnswers removes and returns the answers to questions. Nil: at least one question has no answer, or no key.
func (a *advance) takeAnswers(questions []tool.Question) []json.RawMessage {
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

// putQuestions stores questions of a call that this process is sending, and returns their numbers.
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
	who, err := s.prepareAttention(ctx, c, waits)
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
		if err := s.notifyOfQuestion(ctx, tx, who); err != nil {
			return err
		}
		return s.recordQuestion(ctx, tx, audit.Event{
			Actor: audit.System(), Action: audit.CallAsked, Subject: c.ID, Data: map[string]any{"questions": numbers, "methods": methods},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("store questions of call %s: %w", c.ID, err)
	}
	return numbers, nil
}

// newQuestion determines the review of a question. Parameters that a reviewer sees pass [CleanArguments], so that the shown text is
// unambiguous.
func (r *relay) newQuestion(q tool.Question) (AskedQuestion, error) {
	asked := AskedQuestion{CallID: r.c.ID, Key: storableKey(q.Key), Method: q.Method, Params: q.Params, Status: QuestionAsked}
	switch {
	case !r.review || q.Method == methodRoots:
	case isURL(q.Method, q.Params):
		asked.Review = ReviewQuestion
	default:
		asked.Review = ReviewAnswer
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

// insertQuestions stores questions with numbers, and with the server's key unless another question has it. The caller holds the lock of
// the call.
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
			q.Digest = q.buildEnvelope().Digest()
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

// storableKey returns "" if the key is too long or unprintable to store.
func storableKey(key string) string {
	if len(key) > maxQuestionKey || !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
		return ""
	}
	return key
}

// readAnswers returns the answers to questions. While one is missing, it returns nil, and the time until the first deadline.
func (s *Service) readAnswers(ctx context.Context, id uuid.UUID, numbers []int) (answers []json.RawMessage, left time.Duration, err error) {
	rows, err := s.Pool.Query(ctx, `SELECT `+questionColumns+`, coalesce(extract(epoch FROM deadline - holdpoint_now()), 0)::float8
		FROM call_questions WHERE call_id = $1 AND number = ANY($2) ORDER BY number`, id, numbers)
	if err != nil {
		return nil, 0, fmt.Errorf("read answers of call %s: %w", id, err)
	}
	missing := false
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (q AskedQuestion, err error) {
		var seconds float64
		if err := row.Scan(append(q.scanTargets(), &seconds)...); err != nil {
			return q, err
		}
		if q.Status.isOpen() && q.EndedAt != nil {
			q.Status = QuestionWithdrawn // by a process of an older version
		}
		if q.Status.isOpen() {
			if mine := time.Duration(seconds * float64(time.Second)); !missing || mine < left {
				left = mine
			}
			missing = true
			return q, nil
		}
		answer, err := q.releaseAnswer()
		answers = append(answers, answer)
		return q, err
	})
	if err != nil || missing {
		return nil, left, err
	}
	return answers, 0, nil
}

// withdrawQuestions ends open questions whose answers are no longer needed.
func (s *Service) withdrawQuestions(ctx context.Context, c *Call, numbers []int) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	if err := s.endQuestions(ctx, c, numbers, false); err != nil {
		s.Logger.Warn("withdrawing questions", "call", c.ID, "error", err)
	}
}

// Questions returns the questions that the client of a call may answer now, in their order. Errors: ErrNotFound.
func (s *Service) Questions(ctx context.Context, viewer Viewer, id uuid.UUID) ([]Question, error) {
	c, err := s.loadVisible(ctx, viewer, id)
	if err != nil {
		return nil, err
	}
	open, _, err := s.openQuestions(ctx, c)
	return open, err
}

// WaitDeadline returns until when a call with a status waits for people: for an approval, for a connection, or while it executes, for a
// reviewer's decision about a question. Zero: it does not wait for people, or has another status by now. Errors: ErrNotFound.
func (s *Service) WaitDeadline(ctx context.Context, viewer Viewer, id uuid.UUID, status Status) (until time.Time, err error) {
	c, err := s.loadVisible(ctx, viewer, id)
	if err != nil || c.Status != status {
		return until, err
	}
	switch status {
	case Parked:
		var a approval.Approval
		a, err = approval.Get(ctx, s.Pool, id)
		until = a.Deadline
	case NeedsConnection:
		err = s.Pool.QueryRow(ctx, `SELECT deadline FROM call_connections WHERE call_id = $1 AND ended_at IS NULL`, id).Scan(&until)
	default:
		_, until, err = s.openQuestions(ctx, c)
	}
	switch {
	case errors.Is(err, approval.ErrNotFound), errors.Is(err, pgx.ErrNoRows): // it moved meanwhile
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("read the deadline of call %s: %w", id, err)
	}
	return until, nil
}

// openQuestions returns the questions that the client may answer now, and the first deadline of those that wait for a reviewer; zero:
// there is none.
func (s *Service) openQuestions(ctx context.Context, c *Call) (open []Question, reviewing time.Time, err error) {
	if c.Status != Executing || c.caller.Capabilities == nil {
		return nil, reviewing, nil
	}
	rows, _ := s.Pool.Query(ctx, `SELECT number, key, method, params, status, coalesce(deadline, holdpoint_now()) FROM call_questions
		WHERE call_id = $1 AND ended_at IS NULL ORDER BY number`, c.ID)
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
		default: // ended
		}
		return nil
	})
	if err != nil {
		return nil, reviewing, fmt.Errorf("read questions of call %s: %w", c.ID, err)
	}
	return open, reviewing, nil
}

// Answer stores a client's answer to a question. The first answer counts. It may wait for a reviewer.
// Errors: ErrNotFound, also if the question is not open.
func (s *Service) Answer(ctx context.Context, viewer Viewer, id uuid.UUID, number int, a Answer) error {
	err := s.storeAnswer(ctx, viewer, id, number, a)
	if err != nil {
		return fmt.Errorf("answer question %d of call %s: %w", number, id, err)
	}
	s.hub.wake(id, nil)
	return nil
}

func (s *Service) storeAnswer(ctx context.Context, viewer Viewer, id uuid.UUID, number int, a Answer) error {
	c, err := s.loadCall(ctx, id)
	if err != nil {
		return err
	}
	if c.AgentID != viewer.AgentID || c.PrincipalID != viewer.PrincipalID {
		return ErrNotFound
	}
	who, err := s.prepareAttention(ctx, c, true)
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
		q.recordAnswer(a)
		err = tx.QueryRow(ctx, `UPDATE call_questions SET status = $3, answer = $4, error = $5, digest = coalesce($6, digest),
				answered_at = holdpoint_now(), ended_at = CASE WHEN $3 <> 'pending' THEN holdpoint_now() END,
				deadline = CASE WHEN $3 = 'pending' THEN holdpoint_now() + timeout_ms * interval '1 millisecond' ELSE deadline END
			WHERE call_id = $1 AND number = $2 RETURNING deadline`,
			id, number, q.Status, []byte(q.Answer.Result), []byte(q.Answer.Error), q.storedDigest()).Scan(&q.Deadline)
		if err != nil {
			return err
		}
		if q.Status == QuestionPending {
			if err := s.notifyOfQuestion(ctx, tx, who); err != nil {
				return err
			}
		}
		return s.recordQuestion(ctx, tx, audit.Event{
			Actor: viewer.auditActor(), Action: audit.CallAnswered, Subject: id,
			Data: map[string]any{"question": number, "error": q.Answer.Error != nil, "status": q.Status},
		})
	})
}

// recordQuestion writes an audit event, whose subject is the call, and wakes the call's waiters in other processes.
func (s *Service) recordQuestion(ctx context.Context, tx pgx.Tx, event audit.Event) error {
	if err := audit.Write(ctx, tx, event); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, Channel, event.Subject.String()); err != nil {
		return fmt.Errorf("notify of questions: %w", err)
	}
	return nil
}
