package review

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
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// maxPendingQuestions bounds a list of questions that wait.
const maxPendingQuestions = 200

// Question is something that a skill's server asked the call's client after the approval.
type Question struct {
	ApprovalID uuid.UUID           `json:"approval_id" format:"uuid" doc:"The call has the same id."`
	Number     int                 `json:"number" doc:"The number of the question within the call, from 1."`
	Method     string              `json:"method" doc:"elicitation/create, sampling/createMessage or roots/list."`
	Params     json.RawMessage     `json:"params" doc:"The server's request to the client."`
	Status     call.QuestionStatus `json:"status" enum:"asked,pending,answered,declined,unanswered,rejected,expired,withdrawn" doc:"asked: the client may answer. pending: a reviewer decides. answered: the server got the answer. declined: the client refused, and the server got no data. unanswered: the client did not answer in time. rejected, expired: the server got a refusal without data. withdrawn: no answer is needed any more."`
	Review     *string             `json:"review" enum:"question,answer" doc:"The subject of the review: the question, before the client sees it, or the question with the client's answer, before the server gets it. Null: none, it is only recorded."`
	Answer     json.RawMessage     `json:"answer" doc:"The client's answer, which the server gets once it is approved; null: none."`
	Error      json.RawMessage     `json:"error" doc:"The JSON-RPC error that the client answered with; null: none."`
	Digest     *string             `json:"digest" doc:"Covers everything that the decision is about; send it back with the decision. Null: there is nothing to decide."`
	AskedAt    time.Time           `json:"asked_at"`
	AnsweredAt *time.Time          `json:"answered_at"`
	Deadline   *time.Time          `json:"deadline" doc:"With asked: the client's deadline. With pending: the reviewer's deadline. Otherwise null."`
	Decision   *rest.Decision      `json:"decision" doc:"Null: no decision."`
}

func newQuestion(q call.AskedQuestion, names rest.PersonNames, via audit.Origin) Question {
	view := Question{
		ApprovalID: q.CallID, Number: q.Number, Method: q.Method, Params: q.Params, Status: q.Status, Review: rest.OrNull(q.Review),
		Answer: q.Answer.Result, Error: q.Answer.Error, AskedAt: q.AskedAt.UTC(), AnsweredAt: rest.UTCOrNull(q.AnsweredAt),
	}
	if q.Digest != (approval.Digest{}) {
		digest := q.Digest.String()
		view.Digest = &digest
	}
	if q.Status == call.QuestionAsked || q.Status == call.QuestionPending {
		view.Deadline = rest.UTCOrNull(q.Deadline)
	}
	view.Decision = newQuestionDecision(q, names, via)
	return view
}

func newQuestionDecision(q call.AskedQuestion, names rest.PersonNames, via audit.Origin) *rest.Decision {
	if q.DecidedAt == nil {
		return nil
	}
	d := &rest.Decision{At: q.DecidedAt.UTC(), Outcome: q.Outcome(), Note: q.Note}
	if q.DecidedBy != uuid.Nil {
		d.By, d.ByPerson = rest.OrNull(names.NameOf(q.DecidedBy)), names.RefOf(q.DecidedBy)
		d.Credential, d.Address = rest.NewCredential(via), rest.OrNull(via.Address)
	}
	return d
}

// questionViews presents questions, all of one call or all undecided.
func (h *approvalHandlers) questionViews(ctx context.Context, list []call.AskedQuestion) ([]Question, error) {
	people := make([]uuid.UUID, len(list))
	for i := range list {
		people[i] = list[i].DecidedBy
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	var origins map[int]audit.Origin
	if i := slices.IndexFunc(list, func(q call.AskedQuestion) bool { return q.DecidedAt != nil }); i >= 0 {
		if origins, err = h.calls.ReadQuestionOrigins(ctx, list[i].CallID); err != nil {
			return nil, err
		}
	}
	views := make([]Question, len(list))
	for i := range list {
		views[i] = newQuestion(list[i], names, origins[list[i].Number])
	}
	return views, nil
}

func (h *approvalHandlers) listQuestions(ctx context.Context, _ *rest.None) (*rest.ListOutput[Question], error) {
	list, err := h.calls.ListPendingQuestions(ctx, maxPendingQuestions)
	if err != nil {
		return nil, err
	}
	views, err := h.questionViews(ctx, list)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(views, "", func(q Question) Question { return q }), nil
}

type decideQuestionInput struct {
	rest.ByID
	Number int `path:"number" minimum:"1" maximum:"1000"`
	Body   *struct {
		Digest looseDigest `json:"digest" doc:"The digest of the question that was shown."`
		Note   string      `json:"note,omitempty" maxLength:"4000" doc:"For people; neither the agent nor the server reads it."`
	} `nameHint:"DecideQuestionRequest"`
}

func (h *approvalHandlers) approveQuestion(ctx context.Context, input *decideQuestionInput) (*rest.Output[Question], error) {
	return h.decideQuestion(ctx, input, true)
}

func (h *approvalHandlers) rejectQuestion(ctx context.Context, input *decideQuestionInput) (*rest.Output[Question], error) {
	return h.decideQuestion(ctx, input, false)
}

func (h *approvalHandlers) decideQuestion(ctx context.Context, input *decideQuestionInput, approve bool) (*rest.Output[Question], error) {
	id, err := rest.ParseID("approval", input.ID)
	if err != nil {
		return nil, err
	}
	d := call.QuestionDecision{CallID: id, Number: input.Number, Approve: approve, By: rest.CallerOf(ctx).PersonID()}
	if body := input.Body; body != nil {
		d.Digest, d.Note = string(body.Digest), body.Note
	}
	if n := utf8.RuneCountInString(d.Note); n > maxNote {
		return nil, rest.InvalidField("body.note", "must be at most %d characters, not %d", maxNote, n)
	}
	if err := rest.CheckStorable("body.note", d.Note); err != nil {
		return nil, err
	}
	decided, err := h.calls.DecideQuestion(ctx, d)
	if late, ok := errors.AsType[*call.QuestionConflictError](err); ok {
		return nil, h.questionConflict(ctx, late.Question)
	}
	if errors.Is(err, approval.ErrDigestMismatch) {
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeDigestMismatch,
			"the digest is stale: fetch the approval again and review the question and its answer")
	}
	if err != nil {
		return nil, rest.WithName(err, "question of approval", input.ID)
	}
	views, err := h.questionViews(ctx, []call.AskedQuestion{decided})
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(views[0]), nil
}

// questionConflict adds the earlier decision to the problem of a late one.
func (h *approvalHandlers) questionConflict(ctx context.Context, q call.AskedQuestion) error {
	names, err := h.NamePeople(ctx, q.DecidedBy)
	if err != nil {
		return err
	}
	origins, err := h.calls.ReadQuestionOrigins(ctx, q.CallID)
	if err != nil {
		return err
	}
	p := rest.NewProblem(http.StatusConflict, rest.CodeAlreadyDecided, "the question was %s before", q.Outcome())
	switch q.Status {
	case call.QuestionExpired:
		p.Code, p.Detail = rest.CodeExpired, "the question expired before a decision"
	case call.QuestionWithdrawn:
		if q.DecidedAt == nil {
			p.Code, p.Detail = rest.CodeStateConflict, "the call's server no longer waits for an answer"
		}
	default:
	}
	p.ApprovalStatus, p.Decision = q.Outcome(), newQuestionDecision(q, names, origins[q.Number])
	return p
}
