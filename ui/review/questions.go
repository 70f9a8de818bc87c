package review

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// answerSecrets returns the rules for the values of an answer that are hidden until they are revealed: those that the question's schema declares.
func answerSecrets(q *call.AskedQuestion) *secretfield.Rules {
	var params struct {
		Schema json.RawMessage `json:"requestedSchema"`
	}
	if jsonv2.Unmarshal(q.Params, &params) != nil || len(params.Schema) == 0 {
		return nil
	}
	return secretfield.New(nil, []byte(`{"properties":{"content":`+string(params.Schema)+`}}`))
}

// presentQuestions presents the questions of the call's server.
func (h *reader) presentQuestions(ctx context.Context, s *subject, who identity.Access, f format, how shown) ([]Question, error) {
	if len(s.questions) == 0 {
		return nil, nil
	}
	origins, err := h.calls.ReadQuestionOrigins(ctx, s.call.ID)
	if err != nil {
		return nil, err
	}
	list := make([]Question, len(s.questions))
	for i := range s.questions {
		if list[i], err = h.presentQuestion(ctx, s, &s.questions[i], who, f, how); err != nil {
			return nil, err
		}
		if d := presentQuestionDecision(&s.questions[i], s.names); d != nil {
			d.Who, d.Via = s.identifyPerson(s.questions[i].DecidedBy), present.DescribeOrigin(origins[s.questions[i].Number])
			list[i].Decision = d
		}
	}
	return list, nil
}

func (h *reader) presentQuestion(ctx context.Context, s *subject, q *call.AskedQuestion, who identity.Access, f format, how shown) (Question, error) {
	base := present.CallURL(s.call.ID)
	v := Question{
		Number: q.Number, URL: base + "/questions/" + strconv.Itoa(q.Number), Kind: present.DescribeQuestion(q), Method: q.Method,
		Status: questionBadge(q), Words: describeState(q), Format: f.view, Full: f.full, WholeURL: format{f.view, true}.callURL(base),
	}
	limits := hostile.Folded()
	if f.full || how.revealed == q.Number {
		limits = hostile.Limits{}
	}
	if len(q.Params) > 0 {
		v.Params = presentDocument(q.Params, limits)
	}
	if len(q.Answer.Error) > 0 {
		v.Error = presentDocument(q.Answer.Error, limits)
	}
	if len(q.Answer.Result) > 0 {
		secrets := answerSecrets(q)
		v.Secrets = secrets.Count(q.Answer.Result)
		if how.revealed != q.Number {
			limits.Secrets = secrets
		}
		v.Answer = presentDocument(q.Answer.Result, limits)
		if v.Secrets > 0 {
			revealed, err := h.questionRevealed(ctx, q, who.Person.ID)
			if err != nil {
				return v, err
			}
			v.Withheld = !revealed
		}
	}
	v.Folded = v.Params.IsFolded() || v.Answer.IsFolded()
	v.Revealed = how.revealed == q.Number
	if q.Status != call.QuestionPending {
		return v, nil
	}
	if q.Deadline != nil {
		left := present.Countdown(*q.Deadline, s.now)
		v.Countdown = &left
	}
	for _, document := range [][]byte{q.Params, q.Answer.Result} {
		if found, err := hostile.Find(document); err == nil {
			v.Warning = v.Warning || found.IsAlarming()
		}
	}
	v.Digest = q.Digest.String()
	if v.Why, v.MayDecide = s.mayDecide(who); v.MayDecide && how.question == q.Number {
		v.Complaint, v.Draft = how.err, how.draft
	}
	return v, nil
}

func (h *reader) questionRevealed(ctx context.Context, q *call.AskedQuestion, reader uuid.UUID) (bool, error) {
	events, err := audit.List(ctx, h.pool, audit.Filter{
		Subject: q.CallID, Actors: []uuid.UUID{reader}, Action: audit.QuestionRevealed, Limit: 200,
	})
	for _, e := range events {
		if e.Data["digest"] == q.Digest.String() {
			return true, err
		}
	}
	return false, err
}

func presentDocument(document []byte, limits hostile.Limits) *Document {
	if pretty, err := hostile.ReadPretty(document, limits); err == nil {
		return &Document{Pretty: &pretty}
	}
	raw := hostile.ShowDocument(document, limits)
	return &Document{Raw: &raw}
}

func questionBadge(q *call.AskedQuestion) view.Badge {
	switch q.Status {
	case call.QuestionAsked:
		return view.Badge{Word: text.ReviewBadgeClientAsked(), Icon: "running", Level: view.Info}
	case call.QuestionPending:
		return view.Badge{Word: text.CallStatusWaiting(), Icon: "expired", Level: view.Warn}
	case call.QuestionAnswered:
		return view.Badge{Word: text.ReviewBadgeAnswered(), Icon: "good", Level: view.Good}
	case call.QuestionRejected:
		return view.Badge{Word: text.CallStatusRejected(), Icon: "rejected", Level: view.Quiet}
	case call.QuestionExpired:
		return view.Badge{Word: text.CallStatusExpired(), Icon: "expired", Level: view.Quiet}
	case call.QuestionDeclined:
		return view.Badge{Word: text.ReviewBadgeDeclined(), Icon: "rejected", Level: view.Quiet}
	case call.QuestionUnanswered:
		return view.Badge{Word: text.ReviewBadgeUnanswered(), Icon: "expired", Level: view.Quiet}
	case call.QuestionWithdrawn:
	}
	return view.Badge{Word: text.ReviewBadgeWithdrawn(), Icon: "info", Level: view.Quiet}
}

// describeState says which side has the question or its answer.
func describeState(q *call.AskedQuestion) text.Message {
	switch q.Status {
	case call.QuestionAsked:
		return text.ReviewQuestionAsked()
	case call.QuestionPending:
		if q.Review == call.ReviewQuestion {
			return text.ReviewQuestionURLPending()
		}
		return text.ReviewQuestionAnswerPending()
	case call.QuestionAnswered:
		if q.Review == call.ReviewNone {
			return text.ReviewQuestionUnreviewed()
		}
		return text.ReviewQuestionApproved()
	case call.QuestionRejected:
		return text.ReviewQuestionRejected()
	case call.QuestionExpired:
		return text.ReviewQuestionExpired()
	case call.QuestionDeclined:
		return text.ReviewQuestionDeclined()
	case call.QuestionUnanswered:
		return text.ReviewQuestionUnanswered()
	case call.QuestionWithdrawn:
	}
	return text.ReviewQuestionWithdrawn()
}

func presentQuestionDecision(q *call.AskedQuestion, names map[uuid.UUID]string) *view.Decision {
	if q.DecidedAt == nil {
		return nil
	}
	word := map[string]text.Message{"approved": text.CallStatusApproved(), "rejected": text.CallStatusRejected(), "expired": text.CallStatusExpired()}[q.Outcome()]
	return &view.Decision{Word: word, By: present.PersonName(q.DecidedBy, names), At: *q.DecidedAt, Note: q.Note}
}

// questionNumber returns the number in the request's path, or 0.
func questionNumber(r *http.Request) int {
	number, err := strconv.ParseUint(r.PathValue("number"), 10, 31)
	if err != nil {
		return 0
	}
	return int(number)
}

// askedQuestion returns the question of a request. Otherwise it answers.
func (h *QuestionHandler) askedQuestion(w http.ResponseWriter, r *http.Request) (*subject, *call.AskedQuestion, bool) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return nil, nil, false
	}
	access, _ := login.Access(r.Context())
	subject, err := h.reader.readSubject(r.Context(), access, id)
	if err != nil {
		h.Fail(w, r, err)
		return nil, nil, false
	}
	for i := range subject.questions {
		if subject.questions[i].Number == questionNumber(r) {
			return subject, &subject.questions[i], true
		}
	}
	h.Fail(w, r, call.ErrNotFound)
	return nil, nil, false
}

// ApproveQuestion approves a question, or the answer to it.
func (h *QuestionHandler) ApproveQuestion(w http.ResponseWriter, r *http.Request) {
	h.decideQuestion(w, r, true)
}

// RejectQuestion rejects a question, or the answer to it.
func (h *QuestionHandler) RejectQuestion(w http.ResponseWriter, r *http.Request) {
	h.decideQuestion(w, r, false)
}

// decideQuestion records the decision of the form. As with calls, a question must have been shown completely to be approved, and
// a high-risk call needs a recent sign-in.
func (h *QuestionHandler) decideQuestion(w http.ResponseWriter, r *http.Request, approve bool) {
	subject, q, ok := h.askedQuestion(w, r)
	if !ok {
		return
	}
	access, _ := login.Access(r.Context())
	note, complaint := readReason(r, reasonField)
	how := shown{draft: note, err: complaint, question: q.Number}
	current := q.Status == call.QuestionPending && q.Digest.String() == r.PostFormValue("digest")
	if approve && current && complaint.IsZero() {
		presented, err := h.reader.presentQuestion(r.Context(), subject, q, access, formatOf(r), shown{})
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		switch {
		case presented.Withheld:
			how.err = text.ReviewAnswerHidden()
		case presented.Folded && r.PostFormValue("revealed") == "":
			how.err = text.ReviewQuestionCut()
		case subject.risk.Proof && presented.MayDecide && !h.login.Fresh(r, h.proofAge):
			h.login.Reauthenticate(w, r, present.CallURL(subject.call.ID))
			return
		}
	}
	if !how.err.IsZero() {
		h.callPages.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
		return
	}
	_, err := h.calls.DecideQuestion(r.Context(), call.QuestionDecision{
		CallID: subject.call.ID, Number: q.Number, Approve: approve, Digest: r.PostFormValue("digest"), Note: note, By: access.Person.ID,
	})
	if err != nil {
		h.questionNotDecided(w, r, err)
		return
	}
	shell.Redirect(w, r, formatOf(r).callURL(present.CallURL(subject.call.ID)))
}

// questionNotDecided says why a decision did not count.
func (h *QuestionHandler) questionNotDecided(w http.ResponseWriter, r *http.Request, err error) {
	notice, status := &view.Notice{Level: view.Warn, Title: text.ReviewNothingDecided(), Draft: shell.Clean(r.PostFormValue(reasonField))}, http.StatusConflict
	var late *call.QuestionConflictError
	var limit *identity.LimitError
	switch {
	case errors.Is(err, approval.ErrDigestMismatch):
		notice.Level, notice.Text = view.Danger, text.ReviewQuestionChanged()
	case errors.Is(err, approval.ErrSelfApproval):
		status, notice.Text = http.StatusForbidden, text.ReviewOwnCall()
	case errors.As(err, &limit):
		status, notice.Text = http.StatusForbidden, text.ReviewOutsideLimit(limit.Limit.String())
	case errors.Is(err, approval.ErrInvitedApproval):
		status, notice.Text = http.StatusForbidden, text.ReviewInvited()
	case errors.As(err, &late):
		names, nameErr := h.Names(r.Context(), late.Question.DecidedBy)
		if nameErr != nil {
			h.Fail(w, r, nameErr)
			return
		}
		notice.Title, notice.Text = text.ReviewTooLate(), describeState(&late.Question)
		if d := presentQuestionDecision(&late.Question, names); d != nil {
			notice.Text = conflictNotice(r.Context(), d).Text
		}
	default:
		h.Fail(w, r, err)
		return
	}
	h.callPages.answerWithCall(w, r, status, shown{notice: notice})
}

// RevealQuestion shows the secrets of a client's answer and logs it first.
func (h *QuestionHandler) RevealQuestion(w http.ResponseWriter, r *http.Request) {
	_, q, ok := h.askedQuestion(w, r)
	if !ok {
		return
	}
	access, _ := login.Access(r.Context())
	hidden := answerSecrets(q).Count(q.Answer.Result)
	if hidden == 0 {
		shell.Redirect(w, r, formatOf(r).callURL(present.CallURL(q.CallID)))
		return
	}
	if err := h.calls.RecordQuestionReveal(r.Context(), q, access.Person.ID, hidden); err != nil {
		h.Fail(w, r, err)
		return
	}
	h.callPages.answerWithCall(w, r, http.StatusOK, shown{revealed: q.Number, question: q.Number, draft: shell.Clean(r.PostFormValue(reasonField))})
}
