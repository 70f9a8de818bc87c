package call

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// QuestionStatus is the state of a question.
type QuestionStatus string

// The statuses of a question. All but the first two are final.
const (
	QuestionAsked      QuestionStatus = "asked"      // the client may answer
	QuestionPending    QuestionStatus = "pending"    // a reviewer decides
	QuestionAnswered   QuestionStatus = "answered"   // the server gets the answer
	QuestionDeclined   QuestionStatus = "declined"   // the client declined; the server gets no data
	QuestionUnanswered QuestionStatus = "unanswered" // the client did not answer in time
	QuestionRejected   QuestionStatus = "rejected"   // by a reviewer
	QuestionExpired    QuestionStatus = "expired"    // no reviewer decided in time
	QuestionWithdrawn  QuestionStatus = "withdrawn"  // an answer is no longer needed
)

func (s QuestionStatus) isOpen() bool { return s == QuestionAsked || s == QuestionPending }

// Review is the part of a question that a reviewer decides.
type Review string

// The reviews.
const (
	ReviewNone     Review = ""         // nothing; the question is only recorded
	ReviewQuestion Review = "question" // the question, before the client sees it
	ReviewAnswer   Review = "answer"   // the question with the client's answer, before the server gets the answer
)

// AskedQuestion is a question with its answer and decision.
type AskedQuestion struct {
	CallID     uuid.UUID
	Number     int
	Key        string
	Method     string
	Params     json.RawMessage
	Review     Review
	Status     QuestionStatus
	Answer     Answer          // of the client; zero: none
	Digest     approval.Digest // of the envelope that a reviewer decides; zero: none yet
	AskedAt    time.Time
	AnsweredAt *time.Time
	Deadline   *time.Time // the client's while asked, the reviewer's while pending
	DecidedAt  *time.Time
	DecidedBy  uuid.UUID // uuid.Nil: no person
	Note       string    // of the reviewer
	EndedAt    *time.Time
}

// Methods by which servers ask.
const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
	methodRoots  = "roots/list"
)

// IsURL reports whether the client is asked to open a URL.
func (q *AskedQuestion) IsURL() bool { return isURL(q.Method, q.Params) }

func isURL(method string, params []byte) bool {
	var elicitation struct { // jsonv2 compares names exactly
		Mode string `json:"mode"`
	}
	return method == methodElicit && jsonv2.Unmarshal(params, &elicitation, jsontext.AllowInvalidUTF8(true)) == nil && elicitation.Mode == "url"
}

// buildEnvelope returns the envelope of the question, whose digest a decision carries.
func (q *AskedQuestion) buildEnvelope() approval.QuestionEnvelope {
	e := approval.QuestionEnvelope{ApprovalID: q.CallID, Number: q.Number, Method: q.Method, Params: q.Params}
	if q.Review == ReviewAnswer {
		e.Answer = q.Answer.Result
	}
	return e
}

func (q *AskedQuestion) storedDigest() []byte {
	if q.Digest == (approval.Digest{}) {
		return nil
	}
	return q.Digest[:]
}

// The actions of an answered elicitation.
const (
	actionAccept = "accept"
	actionCancel = "cancel"
)

// elicitationAction returns the action of the client's answer to an elicitation. Any unknown action counts as decline.
func (q *AskedQuestion) elicitationAction() string {
	var answer struct {
		Action string `json:"action"`
	}
	if jsonv2.Unmarshal(q.Answer.Result, &answer) == nil && (answer.Action == actionAccept || answer.Action == actionCancel) {
		return answer.Action
	}
	return "decline"
}

// recordAnswer sets the client's answer and the next status.
func (q *AskedQuestion) recordAnswer(a Answer) {
	q.Answer, q.Status = a, QuestionAnswered
	switch {
	case q.Review == ReviewNone:
		return
	case a.Error != nil:
		q.Status = QuestionDeclined
		return
	}
	clean, err := CleanArguments(a.Result)
	if err != nil {
		message, _ := json.Marshal( //nolint:errchkjson // a string
			"a reviewer cannot be shown this answer: " + doorReason(err, "answer"))
		q.Answer = Answer{Error: json.RawMessage(`{"code":` + strconv.Itoa(codeInternal) + `,"message":` + string(message) + `}`)}
		q.Status = QuestionDeclined
		return
	}
	q.Answer.Result = clean
	switch {
	case q.Method == methodElicit && q.elicitationAction() != actionAccept:
		q.Status = QuestionDeclined
	case q.Review == ReviewAnswer:
		q.Status = QuestionPending
		q.Digest = q.buildEnvelope().Digest()
	}
}

// JSON-RPC codes. codeRefused is the code of MCP's example of a refused sampling request.
const (
	codeRefused       = -1
	codeInvalidParams = -32602
	codeInternal      = -32603
)

// refusedQuestion returns the error that a server gets instead of an answer. It contains no text of the client.
func refusedQuestion(code int, message string) *tool.Failure {
	text, _ := json.Marshal(message) //nolint:errchkjson // a string
	return &tool.Failure{
		Kind: tool.JSONRPCError, Message: message,
		RPC: json.RawMessage(`{"code":` + strconv.Itoa(code) + `,"message":` + string(text) + `}`),
	}
}

// doorReason returns the reason of a [DoorError] in one line.
func doorReason(err error, subject string) string {
	if refused, ok := errors.AsType[*DoorError](err); ok {
		return subject + refused.Pointer + ": " + refused.Reason
	}
	return subject + ": " + err.Error()
}

// releaseAnswer returns the answer to a question that has ended. An answer reaches a server only through this function. If a reviewer
// decides, it releases only an answer that the digest of the committed decision covers.
func (q *AskedQuestion) releaseAnswer() (json.RawMessage, error) {
	switch q.Status {
	case QuestionAnswered:
		return q.checkAnswer()
	case QuestionDeclined:
		return q.buildRefusal(q.elicitationAction(), "the client refused this request")
	case QuestionRejected:
		return q.buildRefusal("decline", "a reviewer rejected this request")
	case QuestionExpired:
		return q.buildRefusal("decline", "no reviewer decided about this request in time")
	case QuestionUnanswered:
		return nil, errNotAnswered
	case QuestionAsked, QuestionPending, QuestionWithdrawn:
	}
	return nil, errWithdrawn
}

func (q *AskedQuestion) checkAnswer() (json.RawMessage, error) {
	switch {
	case q.Review == ReviewNone && q.Answer.Error != nil:
		return nil, &tool.Failure{Kind: tool.JSONRPCError, Message: "the client answered with an error", RPC: q.Answer.Error}
	case q.Answer.Result == nil:
		return nil, errWithdrawn
	case q.Review == ReviewNone:
		return q.Answer.Result, nil
	}
	digest := q.buildEnvelope().Digest()
	if q.DecidedAt == nil || subtle.ConstantTimeCompare(digest[:], q.Digest[:]) != 1 {
		return nil, refusedQuestion(codeInternal, "the answer is not what a reviewer approved")
	}
	if q.Review == ReviewQuestion { // the only member of an answer to an approved URL
		return json.RawMessage(`{"action":"` + q.elicitationAction() + `"}`), nil
	}
	return q.Answer.Result, nil
}

// buildRefusal returns the result of a refused elicitation, without data, or an error for any other question.
func (q *AskedQuestion) buildRefusal(action, message string) (json.RawMessage, error) {
	if q.Method != methodElicit {
		return nil, refusedQuestion(codeRefused, message)
	}
	if action == actionAccept { // CleanArguments refused the answer
		action = "decline"
	}
	return json.RawMessage(`{"action":"` + action + `"}`), nil
}

const questionColumns = `call_id, number, key, method, params, coalesce(review, ''), status, answer, error, coalesce(digest, ''),
	asked_at, answered_at, deadline, decided_at, coalesce(decided_by, '00000000-0000-0000-0000-000000000000'), coalesce(note, ''), ended_at`

func (q *AskedQuestion) scanTargets() []any {
	return []any{
		&q.CallID, &q.Number, &q.Key, &q.Method, (*[]byte)(&q.Params), &q.Review, &q.Status, (*[]byte)(&q.Answer.Result), (*[]byte)(&q.Answer.Error),
		digestScanner{&q.Digest},
		&q.AskedAt, &q.AnsweredAt, &q.Deadline, &q.DecidedAt, &q.DecidedBy, &q.Note, &q.EndedAt,
	}
}

// digestScanner reads a digest; an empty column is a zero digest.
type digestScanner struct{ to *approval.Digest }

// ScanBytes implements [pgtype.BytesScanner].
func (d digestScanner) ScanBytes(b []byte) error {
	*d.to = approval.Digest{}
	if len(b) != 0 && copy(d.to[:], b) != len(b) || len(b) != 0 && len(b) != len(d.to) {
		return fmt.Errorf("digest of %d bytes", len(b))
	}
	return nil
}

// presentQuestions is SQL for questions with their present status, which may not be stored yet: questions of a call that is no longer
// executing are withdrawn, and overdue ones have ended.
const presentQuestions = `(SELECT q.call_id, q.number, q.key, q.method, q.params, q.review, q.answer, q.error, q.digest, q.asked_at, q.answered_at,
	q.deadline, q.decided_at, q.decided_by, q.note, q.ended_at,
	CASE WHEN q.ended_at IS NOT NULL THEN q.status WHEN c.status <> 'executing' THEN 'withdrawn'
		WHEN coalesce(q.deadline > holdpoint_now(), true) THEN q.status WHEN q.status = 'pending' THEN 'expired' ELSE 'unanswered' END AS status
	FROM call_questions q JOIN calls c ON c.id = q.call_id) AS call_questions`

// ListQuestions returns all questions of a call, in their order.
func (s *Service) ListQuestions(ctx context.Context, id uuid.UUID) ([]AskedQuestion, error) {
	var list []AskedQuestion
	batch := &pgx.Batch{}
	QueueQuestions(batch, id, &list)
	err := s.Pool.SendBatch(ctx, batch).Close()
	return list, err
}

// QueueQuestions adds the read of all questions of a call to a batch, in their order.
func QueueQuestions(batch *pgx.Batch, id uuid.UUID, into *[]AskedQuestion) {
	postgres.QueueAll(batch, into, "read questions of call "+id.String(), scanQuestion,
		`SELECT `+questionColumns+` FROM `+presentQuestions+` WHERE call_id = $1 ORDER BY number`, id)
}

// ListPendingQuestions returns up to limit questions that wait for a reviewer, the most urgent first.
func (s *Service) ListPendingQuestions(ctx context.Context, limit int) ([]AskedQuestion, error) {
	return s.readQuestions(ctx, `WHERE call_id IN (SELECT call_id FROM call_questions WHERE status = 'pending') AND status = 'pending'
		ORDER BY deadline, call_id, number LIMIT $1`, limit)
}

// ListPendingQuestionsOf returns the questions of calls that wait for a reviewer.
func (s *Service) ListPendingQuestionsOf(ctx context.Context, calls []uuid.UUID) ([]AskedQuestion, error) {
	return s.readQuestions(ctx, `WHERE call_id = ANY($1) AND status = 'pending' ORDER BY deadline, call_id, number`, calls)
}

func (s *Service) readQuestions(ctx context.Context, where string, arg any) ([]AskedQuestion, error) {
	rows, _ := s.Pool.Query(ctx, `SELECT `+questionColumns+` FROM `+presentQuestions+` `+where, arg)
	list, err := pgx.CollectRows(rows, scanQuestion)
	if err != nil {
		return nil, fmt.Errorf("read questions: %w", err)
	}
	return list, nil
}

func scanQuestion(row pgx.CollectableRow) (q AskedQuestion, err error) {
	return q, row.Scan(q.scanTargets()...)
}

// lockQuestion locks a question and returns it with its present status, by the database's clock after the lock was taken. Errors:
// ErrNotFound.
func lockQuestion(ctx context.Context, tx pgx.Tx, id uuid.UUID, number int) (AskedQuestion, error) {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT FROM call_questions WHERE call_id = $1 AND number = $2 FOR UPDATE`, id, number)
	batch.Queue(`SELECT `+questionColumns+` FROM `+presentQuestions+` WHERE call_id = $1 AND number = $2`, id, number)
	results := tx.SendBatch(ctx, batch)
	_, err := results.Exec()
	var q AskedQuestion
	if err == nil {
		rows, _ := results.Query() // an error here is an error of rows
		q, err = pgx.CollectExactlyOneRow(rows, scanQuestion)
	}
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return q, ErrNotFound
	}
	if err != nil {
		return q, fmt.Errorf("lock question %d of call %s: %w", number, id, err)
	}
	return q, nil
}

// QuestionDecision is a reviewer's decision about a question.
type QuestionDecision struct {
	CallID  uuid.UUID
	Number  int
	Approve bool
	Digest  string    // of the question that the reviewer saw
	Note    string    // for people; servers and agents do not see it
	By      uuid.UUID // the person
}

// QuestionConflictError is the error of a late decision. It has the present question.
type QuestionConflictError struct {
	Question AskedQuestion
}

func (e *QuestionConflictError) Error() string {
	return fmt.Sprintf("question %d of call %s was %s before", e.Question.Number, e.Question.CallID, e.Question.Outcome())
}

// Outcome returns the decision about the question, or else its status.
func (q *AskedQuestion) Outcome() string {
	if q.DecidedAt != nil && q.Status != QuestionRejected && q.Status != QuestionExpired {
		return string(approval.Approved)
	}
	return string(q.Status)
}

// DecideQuestion records a reviewer's decision about a question and its audit event in one transaction.
// Errors: approval.ErrNotFound, approval.ErrDigestMismatch, approval.ErrSelfApproval, approval.ErrInvitedApproval, *identity.LimitError, *[QuestionConflictError].
func (s *Service) DecideQuestion(ctx context.Context, d QuestionDecision) (AskedQuestion, error) {
	q, err := s.decideQuestion(ctx, d)
	if err != nil {
		return q, fmt.Errorf("decide question %d of call %s: %w", d.Number, d.CallID, err)
	}
	s.hub.wake(d.CallID, nil)
	return q, nil
}

func (s *Service) decideQuestion(ctx context.Context, d QuestionDecision) (decided AskedQuestion, err error) {
	c, err := s.loadCall(ctx, d.CallID)
	if errors.Is(err, ErrNotFound) {
		return decided, approval.ErrNotFound
	}
	if err != nil {
		return decided, err
	}
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		q, err := lockQuestion(ctx, tx, d.CallID, d.Number)
		if errors.Is(err, ErrNotFound) {
			return approval.ErrNotFound
		}
		if err != nil {
			return err
		}
		// In the order of [Service.Decide]: digest, status, person.
		digest, err := approval.ParseDigest(d.Digest)
		switch {
		case err != nil:
			return err
		case q.storedDigest() == nil || subtle.ConstantTimeCompare(digest[:], q.Digest[:]) != 1:
			return approval.ErrDigestMismatch
		case q.Status != QuestionPending:
			return &QuestionConflictError{Question: q}
		}
		if err := s.checkConflictOfInterest(ctx, tx, newSubject(c), d.By); err != nil {
			return err
		}
		decided, err = s.settleQuestion(ctx, tx, &q, d)
		return err
	})
	return decided, err
}

func (s *Service) settleQuestion(ctx context.Context, tx pgx.Tx, q *AskedQuestion, d QuestionDecision) (AskedQuestion, error) {
	action, next := audit.QuestionRejected, QuestionRejected
	switch {
	case d.Approve && q.Review == ReviewQuestion:
		action, next = audit.QuestionApproved, QuestionAsked
	case d.Approve:
		action, next = audit.QuestionApproved, QuestionAnswered
	}
	rows, _ := tx.Query(ctx, `UPDATE call_questions SET status = $3, decided_at = holdpoint_now(), decided_by = $4, note = nullif($5, ''),
			ended_at = CASE WHEN $3 <> 'asked' THEN holdpoint_now() END,
			deadline = CASE WHEN $3 = 'asked' THEN holdpoint_now() + timeout_ms * interval '1 millisecond' ELSE deadline END
		WHERE call_id = $1 AND number = $2 AND status = 'pending' RETURNING `+questionColumns, q.CallID, q.Number, next, d.By, d.Note)
	settled, err := pgx.CollectExactlyOneRow(rows, scanQuestion)
	if err != nil {
		return *q, err
	}
	if err := s.withdrawAttention(ctx, tx, q.CallID); err != nil {
		return settled, err
	}
	return settled, s.recordQuestion(ctx, tx, audit.Event{
		Actor: audit.Person(d.By), Action: action, Subject: q.CallID,
		Data: map[string]any{"question": q.Number, "method": q.Method, "digest": q.Digest.String(), "note": d.Note},
	})
}

// endQuestions ends open questions of a call: the overdue ones as unanswered or expired, or all as withdrawn.
func (s *Service) endQuestions(ctx context.Context, c *Call, numbers []int, overdue bool) error {
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `SELECT number, status FROM call_questions WHERE call_id = $1 AND number = ANY($2)
			AND ended_at IS NULL AND (NOT $3 OR coalesce(deadline <= holdpoint_now(), true)) FOR UPDATE`, c.ID, numbers, overdue)
		var number int
		var status QuestionStatus
		ends := map[int]QuestionStatus{}
		reviewed := false
		_, err := pgx.ForEachRow(rows, []any{&number, &status}, func() error {
			switch {
			case !overdue:
				ends[number] = QuestionWithdrawn
			case status == QuestionPending:
				ends[number] = QuestionExpired
			default:
				ends[number] = QuestionUnanswered
			}
			reviewed = reviewed || status == QuestionPending
			return nil
		})
		if err != nil {
			return err
		}
		for number, status := range ends {
			_, err := tx.Exec(ctx, `UPDATE call_questions SET status = $3, ended_at = holdpoint_now(),
					decided_at = CASE WHEN $3 = 'expired' THEN holdpoint_now() ELSE decided_at END
				WHERE call_id = $1 AND number = $2`, c.ID, number, status)
			if err != nil {
				return err
			}
			if status != QuestionExpired {
				continue
			}
			err = s.recordQuestion(ctx, tx, audit.Event{
				Actor: audit.System(), Action: audit.QuestionExpired, Subject: c.ID, Data: map[string]any{"question": number},
			})
			if err != nil {
				return err
			}
		}
		if !reviewed {
			return nil
		}
		return s.withdrawAttention(ctx, tx, c.ID)
	})
}

// prepareAttention builds the notice for a question of a call, before a transaction takes a connection.
func (s *Service) prepareAttention(ctx context.Context, c *Call, waits bool) (*Attention, error) {
	if !waits || s.Attend == nil {
		return nil, nil
	}
	names, err := s.Agents.Names(ctx, []uuid.UUID{c.AgentID, c.SkillID})
	if err != nil {
		return nil, err
	}
	who := &Attention{
		Kind: Asked, Agent: names[c.AgentID], Skill: names[c.SkillID],
		Approval: approval.Approval{CallID: c.ID, AgentID: c.AgentID, PrincipalID: c.PrincipalID, SkillID: c.SkillID, Tool: c.Tool},
	}
	if skill, _, err := s.Agents.Skill(ctx, c.SkillID); err == nil {
		who.Approval.Team = skill.Team
	}
	return who, nil
}

// notifyOfQuestion notifies the call's team that a question waits for a decision. It does nothing if who is nil.
func (s *Service) notifyOfQuestion(ctx context.Context, tx pgx.Tx, who *Attention) error {
	if who == nil {
		return nil
	}
	a, err := approval.Get(ctx, tx, who.Approval.CallID)
	if errors.Is(err, approval.ErrNotFound) { // a rule allowed the call
		a, err = who.Approval, nil
	}
	if err != nil {
		return err
	}
	told := *who
	told.Approval, told.Asked = a, a.FirstAudience()
	err = tx.QueryRow(ctx, `SELECT min(deadline) FROM call_questions WHERE call_id = $1 AND status = 'pending'`, a.CallID).Scan(&told.Deadline)
	if err != nil {
		return fmt.Errorf("read the deadline of a question: %w", err)
	}
	return s.notifyPeople(ctx, tx, told)
}

// withdrawAttention notifies people once no question of a call is pending.
func (s *Service) withdrawAttention(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	var waits bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM call_questions WHERE call_id = $1 AND status = 'pending')`, id).Scan(&waits)
	if err != nil || waits || s.Attend == nil {
		return err
	}
	a, err := approval.Get(ctx, tx, id)
	if errors.Is(err, approval.ErrNotFound) { // a rule allowed the call
		a = approval.Approval{CallID: id, Deadline: s.Now()}
		err = tx.QueryRow(ctx, `SELECT agent_id, skill_id, tool FROM calls WHERE id = $1`, id).Scan(&a.AgentID, &a.SkillID, &a.Tool)
	}
	if err != nil || a.BrokeGlass && a.GlassReview == nil { // the call waits for a review
		return err
	}
	return s.notifyPeople(ctx, tx, newSettledAttention(a))
}

// ReadQuestionOrigins returns the credentials and addresses of the decisions about a call's questions, by number. It reads the audit log.
func (s *Service) ReadQuestionOrigins(ctx context.Context, id uuid.UUID) (map[int]audit.Origin, error) {
	rows, _ := s.Pool.Query(ctx, `SELECT (data ->> 'question')::int, coalesce(credential_kind, ''), coalesce(credential_id, ''), coalesce(address, '')
		FROM audit_events WHERE subject_id = $1 AND action IN ($2, $3)`, id, audit.QuestionApproved, audit.QuestionRejected)
	origins := map[int]audit.Origin{}
	var number int
	var o audit.Origin
	_, err := pgx.ForEachRow(rows, []any{&number, &o.Credential.Kind, &o.Credential.ID, &o.Address}, func() error { origins[number] = o; return nil })
	if err != nil {
		return nil, fmt.Errorf("read who decided about questions of call %s: %w", id, err)
	}
	return origins, nil
}

// RecordQuestionReveal writes an audit event before a person sees hidden values of a client's answer.
func (s *Service) RecordQuestionReveal(ctx context.Context, q *AskedQuestion, by uuid.UUID, values int) error {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(by), Action: audit.QuestionRevealed, Subject: q.CallID,
			Data: map[string]any{"question": q.Number, "values": values, "digest": q.Digest.String()},
		})
	})
	if err != nil {
		return fmt.Errorf("record that question %d of call %s was revealed: %w", q.Number, q.CallID, err)
	}
	return nil
}
