package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// maxPendingQuestions bounds a list of questions that wait.
const maxPendingQuestions = 200

// Question is something that a skill's server asked the call's client after the approval.
type Question struct {
	ApprovalID uuid.UUID           `json:"approval_id" format:"uuid" doc:"The call's id too."`
	Number     int                 `json:"number" doc:"Of the call's questions, from 1 on."`
	Method     string              `json:"method" doc:"elicitation/create, sampling/createMessage or roots/list."`
	Params     json.RawMessage     `json:"params" doc:"What the server asked, for clients."`
	Status     call.QuestionStatus `json:"status" enum:"asked,pending,answered,declined,unanswered,rejected,expired,withdrawn" doc:"asked: the client may answer. pending: a reviewer decides. answered: the server got the answer. declined: the client refused, and the server got no data. unanswered: the client did not answer in time. rejected, expired: the server got a refusal without data. withdrawn: nobody needs an answer any more."`
	Review     *string             `json:"review" enum:"question,answer" doc:"What a reviewer decides about: the question, before the client sees it, or the question with the client's answer, before the server gets that. Null: nothing, it is only recorded."`
	Answer     json.RawMessage     `json:"answer" doc:"The client's, as the server gets it once it is approved; null: none."`
	Error      json.RawMessage     `json:"error" doc:"The JSON-RPC error that the client answered with; null: none."`
	Digest     *string             `json:"digest" doc:"Of everything that the decision is about; hand it back with the decision. Null: there is nothing to decide."`
	AskedAt    time.Time           `json:"asked_at"`
	AnsweredAt *time.Time          `json:"answered_at"`
	Deadline   *time.Time          `json:"deadline" doc:"Of asked: until when the client may answer. Of pending: until when a reviewer may decide. Else null."`
	Decision   *Decision           `json:"decision" doc:"Null: nobody decided."`
}

func newQuestion(q call.AskedQuestion, names personNames, via audit.Origin) Question {
	view := Question{
		ApprovalID: q.CallID, Number: q.Number, Method: q.Method, Params: q.Params, Status: q.Status, Review: orNull(q.Review),
		Answer: q.Answer.Result, Error: q.Answer.Error, AskedAt: q.AskedAt.UTC(), AnsweredAt: utcOrNull(q.AnsweredAt),
	}
	if q.Digest != (approval.Digest{}) {
		digest := q.Digest.String()
		view.Digest = &digest
	}
	if q.Status == call.QuestionAsked || q.Status == call.QuestionPending {
		view.Deadline = utcOrNull(q.Deadline)
	}
	view.Decision = newQuestionDecision(q, names, via)
	return view
}

func newQuestionDecision(q call.AskedQuestion, names personNames, via audit.Origin) *Decision {
	if q.DecidedAt == nil {
		return nil
	}
	d := &Decision{At: q.DecidedAt.UTC(), Outcome: q.Outcome(), Note: q.Note}
	if q.DecidedBy != uuid.Nil {
		d.By, d.ByPerson = orNull(names.of(q.DecidedBy)), names.ref(q.DecidedBy)
		d.Credential, d.Address = newCredential(via), orNull(via.Address)
	}
	return d
}

// questionViews presents questions, all of one call or all undecided.
func (a *API) questionViews(ctx context.Context, list []call.AskedQuestion) ([]Question, error) {
	people := make([]uuid.UUID, len(list))
	for i := range list {
		people[i] = list[i].DecidedBy
	}
	names, err := a.people(ctx, people...)
	if err != nil {
		return nil, err
	}
	var origins map[int]audit.Origin
	if i := slices.IndexFunc(list, func(q call.AskedQuestion) bool { return q.DecidedAt != nil }); i >= 0 {
		if origins, err = a.calls.QuestionOrigins(ctx, list[i].CallID); err != nil {
			return nil, err
		}
	}
	views := make([]Question, len(list))
	for i := range list {
		views[i] = newQuestion(list[i], names, origins[list[i].Number])
	}
	return views, nil
}

// questionsOf are the questions of a call, in the order in which they were asked.
func (a *API) questionsOf(ctx context.Context, id uuid.UUID) ([]Question, error) {
	list, err := a.calls.AskedQuestions(ctx, id)
	if err != nil {
		return nil, err
	}
	return a.questionViews(ctx, list)
}

func (a *API) listQuestions(ctx context.Context, _ *none) (*listOutput[Question], error) {
	list, err := a.calls.PendingQuestions(ctx, maxPendingQuestions)
	if err != nil {
		return nil, err
	}
	views, err := a.questionViews(ctx, list)
	if err != nil {
		return nil, err
	}
	return listOf(views, "", func(q Question) Question { return q }), nil
}

type decideQuestionInput struct {
	ByID
	Number int `path:"number" minimum:"1" maximum:"1000"`
	Body   *struct {
		Digest looseDigest `json:"digest" doc:"As it was shown with the question."`
		Note   string      `json:"note,omitempty" maxLength:"4000" doc:"For people; neither the agent nor the server reads it."`
	} `nameHint:"DecideQuestionRequest"`
}

func (a *API) approveQuestion(ctx context.Context, input *decideQuestionInput) (*bodyOutput[Question], error) {
	return a.decideQuestion(ctx, input, true)
}

func (a *API) rejectQuestion(ctx context.Context, input *decideQuestionInput) (*bodyOutput[Question], error) {
	return a.decideQuestion(ctx, input, false)
}

func (a *API) decideQuestion(ctx context.Context, input *decideQuestionInput, approve bool) (*bodyOutput[Question], error) {
	id, err := idOf("approval", input.ID)
	if err != nil {
		return nil, err
	}
	d := call.QuestionDecision{CallID: id, Number: input.Number, Approve: approve, By: callerOf(ctx).personID()}
	if body := input.Body; body != nil {
		d.Digest, d.Note = string(body.Digest), body.Note
	}
	if n := utf8.RuneCountInString(d.Note); n > maxNote {
		return nil, invalid("body.note", "expected at most %d characters, not %d", maxNote, n)
	}
	if err := storable("body.note", d.Note); err != nil {
		return nil, err
	}
	decided, err := a.calls.DecideQuestion(ctx, d)
	if late, ok := errors.AsType[*call.QuestionConflictError](err); ok {
		return nil, a.questionConflict(ctx, late.Question)
	}
	if errors.Is(err, approval.ErrDigestMismatch) {
		return nil, problem(http.StatusConflict, CodeDigestMismatch,
			"the digest is not that of the question and its answer as they are now; fetch the approval again and look at what it says")
	}
	if err != nil {
		return nil, named(err, "question of approval", input.ID)
	}
	views, err := a.questionViews(ctx, []call.AskedQuestion{decided})
	if err != nil {
		return nil, err
	}
	return output(views[0]), nil
}

// questionConflict tells a late decision what became of the question before.
func (a *API) questionConflict(ctx context.Context, q call.AskedQuestion) error {
	names, err := a.people(ctx, q.DecidedBy)
	if err != nil {
		return err
	}
	origins, err := a.calls.QuestionOrigins(ctx, q.CallID)
	if err != nil {
		return err
	}
	p := problem(http.StatusConflict, CodeAlreadyDecided, "the question was %s before", q.Outcome())
	switch q.Status {
	case call.QuestionExpired:
		p.Code, p.Detail = CodeExpired, "the question's deadline passed before anybody decided"
	case call.QuestionWithdrawn:
		if q.DecidedAt == nil {
			p.Code, p.Detail = CodeStateConflict, "the call's server does not wait for an answer any more"
		}
	default:
	}
	p.ApprovalStatus, p.Decision = q.Outcome(), newQuestionDecision(q, names, origins[q.Number])
	return p
}
