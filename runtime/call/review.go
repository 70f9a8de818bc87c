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

// QuestionStatus is where a question of a server stands.
type QuestionStatus string

// The statuses of a question. All but the first two are final.
const (
	QuestionAsked      QuestionStatus = "asked"      // the client may answer
	QuestionPending    QuestionStatus = "pending"    // a reviewer decides
	QuestionAnswered   QuestionStatus = "answered"   // the server gets the answer
	QuestionDeclined   QuestionStatus = "declined"   // the client declined; the server gets that and no data
	QuestionUnanswered QuestionStatus = "unanswered" // the client did not answer in time
	QuestionRejected   QuestionStatus = "rejected"   // by a reviewer
	QuestionExpired    QuestionStatus = "expired"    // no reviewer decided in time
	QuestionWithdrawn  QuestionStatus = "withdrawn"  // nobody needs an answer any more
)

func (s QuestionStatus) open() bool { return s == QuestionAsked || s == QuestionPending }

// Review is what a reviewer decides about a question.
type Review string

// The reviews.
const (
	ReviewNone     Review = ""         // nothing: it is only recorded
	ReviewQuestion Review = "question" // the question, before the client sees it
	ReviewAnswer   Review = "answer"   // the question together with the client's answer, before the server gets that
)

// AskedQuestion is a question with all that became of it, for people.
type AskedQuestion struct {
	CallID     uuid.UUID
	Number     int
	Key        string
	Method     string
	Params     json.RawMessage
	Review     Review
	Status     QuestionStatus
	Answer     Answer          // of the client; zero: none
	Digest     approval.Digest // of what a reviewer decides, or decided, about; zero: nothing yet
	AskedAt    time.Time
	AnsweredAt *time.Time
	Deadline   *time.Time // of the client while asked, of the reviewer while pending
	DecidedAt  *time.Time
	DecidedBy  uuid.UUID // uuid.Nil: nobody
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
	var elicitation struct { // names count to the letter
		Mode string `json:"mode"`
	}
	return method == methodElicit && jsonv2.Unmarshal(params, &elicitation, jsontext.AllowInvalidUTF8(true)) == nil && elicitation.Mode == "url"
}

func reviewOf(q tool.Question) Review {
	switch {
	case q.Method == methodRoots:
		return ReviewNone
	case isURL(q.Method, q.Params):
		return ReviewQuestion
	}
	return ReviewAnswer
}

// envelope is what a decision about the question is about.
func (q *AskedQuestion) envelope() approval.QuestionEnvelope {
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

// action is what the client answered to an elicitation; what is neither accept nor cancel counts as decline.
func (q *AskedQuestion) action() string {
	var answer struct {
		Action string `json:"action"`
	}
	if jsonv2.Unmarshal(q.Answer.Result, &answer) == nil && (answer.Action == actionAccept || answer.Action == actionCancel) {
		return answer.Action
	}
	return "decline"
}

// take notes the client's answer, and who has to do what next.
func (q *AskedQuestion) take(a Answer) {
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
			"a reviewer cannot be shown this answer: " + doorReason(err, "answer")) // strings always have a form in JSON
		q.Answer = Answer{Error: json.RawMessage(`{"code":` + strconv.Itoa(codeInternal) + `,"message":` + string(message) + `}`)}
		q.Status = QuestionDeclined
		return
	}
	q.Answer.Result = clean
	switch {
	case q.Method == methodElicit && q.action() != actionAccept:
		q.Status = QuestionDeclined
	case q.Review == ReviewAnswer:
		q.Status = QuestionPending
		q.Digest = q.envelope().Digest()
	}
}

// JSON-RPC codes. codeRefused is what the protocol's example of a person who refuses sampling has.
const (
	codeRefused       = -1
	codeInvalidParams = -32602
	codeInternal      = -32603
)

// refusedQuestion is the error that a server gets in place of an answer. It carries no words of a client.
func refusedQuestion(code int, message string) *tool.Failure {
	text, _ := json.Marshal(message) //nolint:errchkjson // a string
	return &tool.Failure{
		Kind: tool.JSONRPCError, Message: message,
		RPC: json.RawMessage(`{"code":` + strconv.Itoa(code) + `,"message":` + string(text) + `}`),
	}
}

// doorReason says in one line what the door refused.
func doorReason(err error, subject string) string {
	if refused, ok := errors.AsType[*DoorError](err); ok {
		return subject + refused.Pointer + ": " + refused.Reason
	}
	return subject + ": " + err.Error()
}

// deliverable is what the server gets for a question that has ended. It is the one place from which an answer reaches a
// server: where a reviewer decides, only what the committed decision's digest covers passes.
func (q *AskedQuestion) deliverable() (json.RawMessage, error) {
	switch q.Status {
	case QuestionAnswered:
		return q.answered()
	case QuestionDeclined:
		return q.refusal(q.action(), "the client refused this request")
	case QuestionRejected:
		return q.refusal("decline", "a reviewer rejected this request")
	case QuestionExpired:
		return q.refusal("decline", "no reviewer decided about this request in time")
	case QuestionUnanswered:
		return nil, errNotAnswered
	case QuestionAsked, QuestionPending, QuestionWithdrawn:
	}
	return nil, errWithdrawn
}

func (q *AskedQuestion) answered() (json.RawMessage, error) {
	switch {
	case q.Review == ReviewNone && q.Answer.Error != nil:
		return nil, &tool.Failure{Kind: tool.JSONRPCError, Message: "the client answered with an error", RPC: q.Answer.Error}
	case q.Answer.Result == nil:
		return nil, errWithdrawn
	case q.Review == ReviewNone:
		return q.Answer.Result, nil
	}
	digest := q.envelope().Digest()
	if q.DecidedAt == nil || subtle.ConstantTimeCompare(digest[:], q.Digest[:]) != 1 {
		return nil, refusedQuestion(codeInternal, "the answer is not what a reviewer approved")
	}
	if q.Review == ReviewQuestion { // all that the client may say to an approved URL
		return json.RawMessage(`{"action":"` + q.action() + `"}`), nil
	}
	return q.Answer.Result, nil
}

// refusal is a refused elicitation's result without data, or the error of anything else.
func (q *AskedQuestion) refusal(action, message string) (json.RawMessage, error) {
	if q.Method != methodElicit {
		return nil, refusedQuestion(codeRefused, message)
	}
	if action == actionAccept { // an answer that the door refused
		action = "decline"
	}
	return json.RawMessage(`{"action":"` + action + `"}`), nil
}

const questionColumns = `call_id, number, key, method, params, coalesce(review, ''), status, answer, error, coalesce(digest, ''),
	asked_at, answered_at, deadline, decided_at, coalesce(decided_by, '00000000-0000-0000-0000-000000000000'), coalesce(note, ''), ended_at`

func (q *AskedQuestion) targets() []any {
	return []any{
		&q.CallID, &q.Number, &q.Key, &q.Method, (*[]byte)(&q.Params), &q.Review, &q.Status, (*[]byte)(&q.Answer.Result), (*[]byte)(&q.Answer.Error),
		digestScanner{&q.Digest},
		&q.AskedAt, &q.AnsweredAt, &q.Deadline, &q.DecidedAt, &q.DecidedBy, &q.Note, &q.EndedAt,
	}
}

// digestScanner reads a digest, or none where the column is empty.
type digestScanner struct{ to *approval.Digest }

// ScanBytes implements [pgtype.BytesScanner].
func (d digestScanner) ScanBytes(b []byte) error {
	*d.to = approval.Digest{}
	if len(b) != 0 && copy(d.to[:], b) != len(b) || len(b) != 0 && len(b) != len(d.to) {
		return fmt.Errorf("digest of %d bytes", len(b))
	}
	return nil
}

// presentQuestions shows questions as what they are before anyone has written it: of a call that is on its way no more
// they are withdrawn, and overdue ones have ended.
const presentQuestions = `(SELECT q.call_id, q.number, q.key, q.method, q.params, q.review, q.answer, q.error, q.digest, q.asked_at, q.answered_at,
	q.deadline, q.decided_at, q.decided_by, q.note, q.ended_at,
	CASE WHEN q.ended_at IS NOT NULL THEN q.status WHEN c.status <> 'executing' THEN 'withdrawn'
		WHEN coalesce(q.deadline > holdpoint_now(), true) THEN q.status WHEN q.status = 'pending' THEN 'expired' ELSE 'unanswered' END AS status
	FROM call_questions q JOIN calls c ON c.id = q.call_id) AS call_questions`

// AskedQuestions are all questions that a call's server asked, in their order.
func (s *Service) AskedQuestions(ctx context.Context, id uuid.UUID) ([]AskedQuestion, error) {
	return s.readQuestions(ctx, `WHERE call_id = $1 ORDER BY number`, id)
}

// PendingQuestions are those that wait for a reviewer, the most urgent first, at most limit.
func (s *Service) PendingQuestions(ctx context.Context, limit int) ([]AskedQuestion, error) {
	return s.readQuestions(ctx, `WHERE call_id IN (SELECT call_id FROM call_questions WHERE status = 'pending') AND status = 'pending'
		ORDER BY deadline, call_id, number LIMIT $1`, limit)
}

// PendingQuestionsOf are those of some calls that wait for a reviewer.
func (s *Service) PendingQuestionsOf(ctx context.Context, calls []uuid.UUID) ([]AskedQuestion, error) {
	return s.readQuestions(ctx, `WHERE call_id = ANY($1) AND status = 'pending' ORDER BY deadline, call_id, number`, calls)
}

func (s *Service) readQuestions(ctx context.Context, where string, arg any) ([]AskedQuestion, error) {
	rows, err := s.Pool.Query(ctx, `SELECT `+questionColumns+` FROM `+presentQuestions+` `+where, arg)
	if err != nil {
		return nil, fmt.Errorf("read questions: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanQuestion)
	if err != nil {
		return nil, fmt.Errorf("read questions: %w", err)
	}
	return list, nil
}

func scanQuestion(row pgx.CollectableRow) (q AskedQuestion, err error) {
	return q, row.Scan(q.targets()...)
}

// lockQuestion takes the question's row lock and returns it as it is by the database's clock, read once the lock was
// held. ErrNotFound.
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

// QuestionDecision is what a reviewer said about a question.
type QuestionDecision struct {
	CallID  uuid.UUID
	Number  int
	Approve bool
	Digest  string    // as it was shown with the question
	Note    string    // for people; no server and no agent reads it
	By      uuid.UUID // the person
}

// QuestionConflictError tells a late decision what became of the question before.
type QuestionConflictError struct {
	Question AskedQuestion
}

func (e *QuestionConflictError) Error() string {
	return fmt.Sprintf("question %d of call %s was %s before", e.Question.Number, e.Question.CallID, e.Question.Outcome())
}

// Outcome is how the question was decided, or else its status.
func (q *AskedQuestion) Outcome() string {
	if q.DecidedAt != nil && q.Status != QuestionRejected && q.Status != QuestionExpired {
		return string(approval.Approved)
	}
	return string(q.Status)
}

// DecideQuestion records a reviewer's decision about a question, in one transaction with its audit event. The process
// that sends the call goes on once that is committed.
// Errors: approval.ErrNotFound, approval.ErrDigestMismatch, approval.ErrSelfApproval, approval.ErrInvitedApproval, *[QuestionConflictError].
func (s *Service) DecideQuestion(ctx context.Context, d QuestionDecision) (AskedQuestion, error) {
	q, err := s.decideQuestion(ctx, d)
	if err != nil {
		return q, fmt.Errorf("decide question %d of call %s: %w", d.Number, d.CallID, err)
	}
	s.hub.wake(d.CallID, nil)
	return q, nil
}

func (s *Service) decideQuestion(ctx context.Context, d QuestionDecision) (decided AskedQuestion, err error) {
	c, err := s.load(ctx, d.CallID)
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
		if err := s.mayDecideQuestion(ctx, tx, c, &q, d); err != nil {
			return err
		}
		decided, err = s.settleQuestion(ctx, tx, &q, d)
		return err
	})
	return decided, err
}

// mayDecideQuestion checks a decision in the order of [Service.Decide]: digest, state, person.
func (s *Service) mayDecideQuestion(ctx context.Context, tx pgx.Tx, c *Call, q *AskedQuestion, d QuestionDecision) error {
	digest, err := approval.ParseDigest(d.Digest)
	switch {
	case err != nil:
		return err
	case q.storedDigest() == nil || subtle.ConstantTimeCompare(digest[:], q.Digest[:]) != 1:
		return approval.ErrDigestMismatch
	case q.Status != QuestionPending:
		return &QuestionConflictError{Question: *q}
	}
	return s.notOwn(ctx, tx, approval.Approval{AgentID: c.AgentID, PrincipalID: c.PrincipalID, CreatedAt: c.CreatedAt}, d.By)
}

func (s *Service) settleQuestion(ctx context.Context, tx pgx.Tx, q *AskedQuestion, d QuestionDecision) (AskedQuestion, error) {
	verb, next := "rejected", QuestionRejected
	switch {
	case d.Approve && q.Review == ReviewQuestion:
		verb, next = "approved", QuestionAsked
	case d.Approve:
		verb, next = "approved", QuestionAnswered
	}
	rows, err := tx.Query(ctx, `UPDATE call_questions SET status = $3, decided_at = holdpoint_now(), decided_by = $4, note = nullif($5, ''),
			ended_at = CASE WHEN $3 <> 'asked' THEN holdpoint_now() END,
			deadline = CASE WHEN $3 = 'asked' THEN holdpoint_now() + timeout_ms * interval '1 millisecond' ELSE deadline END
		WHERE call_id = $1 AND number = $2 AND status = 'pending' RETURNING `+questionColumns, q.CallID, q.Number, next, d.By, d.Note)
	if err != nil {
		return *q, err
	}
	settled, err := pgx.CollectExactlyOneRow(rows, scanQuestion)
	if err != nil {
		return *q, err
	}
	if err := s.settledQuestions(ctx, tx, q.CallID); err != nil {
		return settled, err
	}
	return settled, s.recordQuestion(ctx, tx, audit.Event{
		Actor: audit.Person(d.By), Action: "question." + verb, Subject: q.CallID,
		Data: map[string]any{"question": q.Number, "method": q.Method, "digest": q.Digest.String(), "note": d.Note},
	})
}

// expireQuestions ends those of a call's questions that are overdue.
func (s *Service) expireQuestions(ctx context.Context, c *Call, numbers []int) error {
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		return s.endQuestions(ctx, tx, c, `SELECT number, status FROM call_questions WHERE call_id = $1 AND number = ANY($2)
			AND ended_at IS NULL AND coalesce(deadline <= holdpoint_now(), true) FOR UPDATE`, numbers, func(status QuestionStatus) QuestionStatus {
			if status == QuestionPending {
				return QuestionExpired
			}
			return QuestionUnanswered
		})
	})
}

// endQuestions ends the questions that a statement selects and locks, each with the status that next says.
func (s *Service) endQuestions(ctx context.Context, tx pgx.Tx, c *Call, selected string, numbers []int, next func(QuestionStatus) QuestionStatus) error {
	rows, err := tx.Query(ctx, selected, c.ID, numbers)
	if err != nil {
		return err
	}
	var number int
	var status QuestionStatus
	ends := map[int]QuestionStatus{}
	waited := false
	if _, err = pgx.ForEachRow(rows, []any{&number, &status}, func() error {
		ends[number] = next(status)
		waited = waited || status == QuestionPending
		return nil
	}); err != nil {
		return err
	}
	for number, status := range ends {
		_, err := tx.Exec(ctx, `UPDATE call_questions SET status = $3, ended_at = holdpoint_now(),
				decided_at = CASE WHEN $3 = 'expired' THEN holdpoint_now() ELSE decided_at END
			WHERE call_id = $1 AND number = $2`, c.ID, number, status)
		if err != nil {
			return err
		}
		if status == QuestionExpired {
			err = s.recordQuestion(ctx, tx, audit.Event{
				Actor: audit.System(), Action: "question.expired", Subject: c.ID, Data: map[string]any{"question": number},
			})
			if err != nil {
				return err
			}
		}
	}
	if !waited {
		return nil
	}
	return s.settledQuestions(ctx, tx, c.ID)
}

// attentionFor prepares what people are told when a question of a call waits, before a transaction holds a connection.
func (s *Service) attentionFor(ctx context.Context, c *Call, waits bool) (*Attention, error) {
	if !waits || s.Attend == nil {
		return nil, nil
	}
	names, err := s.Agents.Names(ctx, []uuid.UUID{c.AgentID, c.SkillID})
	if err != nil {
		return nil, err
	}
	return &Attention{
		Kind: Asked, Agent: names[c.AgentID], Skill: names[c.SkillID],
		Approval: approval.Approval{CallID: c.ID, AgentID: c.AgentID, PrincipalID: c.PrincipalID, SkillID: c.SkillID, Tool: c.Tool},
	}, nil
}

// attendQuestion tells people that a question waits for a decision; nil: none does. It asks the call's team.
func (s *Service) attendQuestion(ctx context.Context, tx pgx.Tx, who *Attention) error {
	if who == nil {
		return nil
	}
	a, err := approval.Get(ctx, tx, who.Approval.CallID)
	if errors.Is(err, approval.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	told := *who
	told.Approval = a
	err = tx.QueryRow(ctx, `SELECT min(deadline) FROM call_questions WHERE call_id = $1 AND status = 'pending'`, a.CallID).Scan(&told.Deadline)
	if err != nil {
		return fmt.Errorf("read the deadline of a question: %w", err)
	}
	return s.attend(ctx, tx, told)
}

// settledQuestions takes back what people were told of a call once none of its questions waits any more.
func (s *Service) settledQuestions(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	var waits bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM call_questions WHERE call_id = $1 AND status = 'pending')`, id).Scan(&waits)
	if err != nil || waits || s.Attend == nil {
		return err
	}
	a, err := approval.Get(ctx, tx, id)
	if errors.Is(err, approval.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.attend(ctx, tx, waitsNoMore(a))
}

// QuestionOrigins returns how those who decided about a call's questions came in, by the questions' numbers. The audit knows.
func (s *Service) QuestionOrigins(ctx context.Context, id uuid.UUID) (map[int]audit.Origin, error) {
	rows, err := s.Pool.Query(ctx, `SELECT (data ->> 'question')::int, coalesce(credential_kind, ''), coalesce(credential_id, ''), coalesce(address, '')
		FROM audit_events WHERE subject_id = $1 AND action IN ('question.approved', 'question.rejected')`, id)
	if err != nil {
		return nil, fmt.Errorf("read who decided about questions of call %s: %w", id, err)
	}
	origins := map[int]audit.Origin{}
	var number int
	var o audit.Origin
	_, err = pgx.ForEachRow(rows, []any{&number, &o.Credential.Kind, &o.Credential.ID, &o.Address}, func() error { origins[number] = o; return nil })
	if err != nil {
		return nil, fmt.Errorf("read who decided about questions of call %s: %w", id, err)
	}
	return origins, nil
}

// ActionQuestionRevealed is the audit event of a person who was shown the secrets of a client's answer.
const ActionQuestionRevealed = "question.revealed"

// QuestionRevealed records that a person is shown values of a client's answer that are hidden from who does not ask. It
// comes before they are shown.
func (s *Service) QuestionRevealed(ctx context.Context, q *AskedQuestion, by uuid.UUID, values int) error {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(by), Action: ActionQuestionRevealed, Subject: q.CallID,
			Data: map[string]any{"question": q.Number, "values": values, "digest": q.Digest.String()},
		})
	})
	if err != nil {
		return fmt.Errorf("record that question %d of call %s was revealed: %w", q.Number, q.CallID, err)
	}
	return nil
}
