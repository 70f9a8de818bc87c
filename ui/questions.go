package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

const questionWindow = 100 // pending questions on the queue page

// questionState differs when the list of questions that wait for a reviewer does.
func (u *UI) questionState(ctx context.Context) (string, error) {
	list, err := u.cfg.Calls.PendingQuestions(ctx, questionWindow)
	if err != nil || len(list) == 0 {
		return "", err
	}
	sum := fnv.New64a()
	for i := range list {
		_, _ = sum.Write(strconv.AppendInt(list[i].CallID[:], int64(list[i].Number), 10)) // never fails
	}
	return strconv.FormatUint(sum.Sum64(), 36), nil
}

// pendingQuestions presents the questions that wait for a reviewer.
func (u *UI) pendingQuestions(ctx context.Context, now time.Time) ([]view.PendingQuestion, error) {
	list, err := u.cfg.Calls.PendingQuestions(ctx, questionWindow)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	ids := make([]uuid.UUID, len(list))
	for i := range list {
		ids[i] = list[i].CallID
	}
	calls, err := u.cfg.Calls.Listed(ctx, ids)
	if err != nil {
		return nil, err
	}
	people := make([]uuid.UUID, 0, len(calls))
	for _, c := range calls {
		people = append(people, c.PrincipalID)
	}
	names, err := u.names(ctx, people...)
	if err != nil {
		return nil, err
	}
	rows := make([]view.PendingQuestion, len(list))
	for i := range list {
		q, c := &list[i], calls[list[i].CallID]
		rows[i] = view.PendingQuestion{
			ID: fmt.Sprintf("%s-%d", q.CallID, q.Number), URL: callURL(q.CallID) + "#question-" + strconv.Itoa(q.Number),
			Skill: c.Skill, Tool: c.Tool, Agent: c.Agent, Principal: personName(c.PrincipalID, names), Kind: questionKind(q),
		}
		if q.Deadline != nil {
			left := countdown(*q.Deadline, now)
			rows[i].Countdown = &left
		}
	}
	return rows, nil
}

func questionKind(q *call.AskedQuestion) string {
	switch {
	case q.IsURL():
		return "asks the client to open a URL"
	case q.Method == "elicitation/create":
		return "asks the client for input"
	case q.Method == "sampling/createMessage":
		return "asks the client’s model"
	case q.Method == "roots/list":
		return "asks which folders the client works in"
	}
	return "asks the client something"
}

// answerSecrets are the values of an answer that are hidden until somebody asks: by their names, and by what the
// question's own schema says.
func answerSecrets(q *call.AskedQuestion) *hostile.Secrets {
	var params struct {
		Schema json.RawMessage `json:"requestedSchema"`
	}
	if jsonv2.Unmarshal(q.Params, &params) != nil || len(params.Schema) == 0 {
		return hostile.SecretsOf(nil)
	}
	return hostile.SecretsOf([]byte(`{"properties":{"content":` + string(params.Schema) + `}}`))
}

// presentQuestions shows what the call's server asked.
func (u *UI) presentQuestions(ctx context.Context, s *subject, who identity.Access, f format, how shown) ([]view.Question, error) {
	if len(s.questions) == 0 {
		return nil, nil
	}
	origins, err := u.cfg.Calls.QuestionOrigins(ctx, s.call.ID)
	if err != nil {
		return nil, err
	}
	list := make([]view.Question, len(s.questions))
	for i := range s.questions {
		if list[i], err = u.presentQuestion(ctx, s, &s.questions[i], who, f, how); err != nil {
			return nil, err
		}
		if d := presentQuestionDecision(&s.questions[i], s.names); d != nil {
			d.Who, d.Via = s.who(s.questions[i].DecidedBy), originWords(origins[s.questions[i].Number])
			list[i].Decision = d
		}
	}
	return list, nil
}

func (u *UI) presentQuestion(ctx context.Context, s *subject, q *call.AskedQuestion, who identity.Access, f format, how shown) (view.Question, error) {
	base := callURL(s.call.ID)
	v := view.Question{
		Number: q.Number, URL: base + "/questions/" + strconv.Itoa(q.Number), Kind: questionKind(q), Method: q.Method,
		Status: questionBadge(q), Words: questionWords(q), Format: f.view, Full: f.full, WholeURL: format{f.view, true}.url(base),
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
		if withheld := secrets.Withheld(q.Answer.Result); withheld > 0 {
			revealed, err := u.questionRevealed(ctx, q, who.Person.ID)
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
		left := countdown(*q.Deadline, s.pulse.Now)
		v.Countdown = &left
	}
	for _, document := range [][]byte{q.Params, q.Answer.Result} {
		if found, err := hostile.Find(document); err == nil {
			v.Warning = v.Warning || found.Hidden > 0 || found.Suspect > 0
		}
	}
	v.Digest = q.Digest.String()
	if v.Why, v.MayDecide = s.mayDecide(who); v.MayDecide && how.question == q.Number {
		v.Complaint, v.Draft = how.err, how.draft
	}
	return v, nil
}

func (u *UI) questionRevealed(ctx context.Context, q *call.AskedQuestion, reader uuid.UUID) (bool, error) {
	events, err := audit.List(ctx, u.cfg.Pool, audit.Filter{
		Subject: q.CallID, Actors: []uuid.UUID{reader}, Action: call.ActionQuestionRevealed, Limit: 200,
	})
	for _, e := range events {
		if e.Data["digest"] == q.Digest.String() {
			return true, err
		}
	}
	return false, err
}

func presentDocument(document []byte, limits hostile.Limits) *view.Document {
	if pretty, err := hostile.ReadPretty(document, limits); err == nil {
		return &view.Document{Pretty: &pretty}
	}
	raw := hostile.ShowDocument(document, limits)
	return &view.Document{Raw: &raw}
}

func questionBadge(q *call.AskedQuestion) view.Badge {
	switch q.Status {
	case call.QuestionAsked:
		return view.Badge{Word: "Client asked", Icon: "running", Level: view.Info}
	case call.QuestionPending:
		return view.Badge{Word: "Waiting", Icon: "expired", Level: view.Warn}
	case call.QuestionAnswered:
		return view.Badge{Word: "Answered", Icon: "good", Level: view.Good}
	case call.QuestionRejected:
		return view.Badge{Word: "Rejected", Icon: "rejected", Level: view.Quiet}
	case call.QuestionExpired:
		return view.Badge{Word: "Expired", Icon: "expired", Level: view.Quiet}
	case call.QuestionDeclined:
		return view.Badge{Word: "Declined", Icon: "rejected", Level: view.Quiet}
	case call.QuestionUnanswered:
		return view.Badge{Word: "Unanswered", Icon: "expired", Level: view.Quiet}
	case call.QuestionWithdrawn:
	}
	return view.Badge{Word: "Withdrawn", Icon: "info", Level: view.Quiet}
}

// questionWords say who has what, in plain words.
func questionWords(q *call.AskedQuestion) string {
	switch q.Status {
	case call.QuestionAsked:
		return "The client has not answered yet."
	case call.QuestionPending:
		if q.Review == call.ReviewQuestion {
			return "The client has not seen this URL. It gets it once a reviewer approves."
		}
		return "The server has not got this answer. It gets it, exactly as shown, once a reviewer approves."
	case call.QuestionAnswered:
		if q.Review == call.ReviewNone {
			return "The server got the client’s answer. No reviewer decided about it."
		}
		return "The server got the client’s answer after it was approved."
	case call.QuestionRejected:
		return "The server got a refusal and no data."
	case call.QuestionExpired:
		return "Nobody decided in time. The server got a refusal and no data."
	case call.QuestionDeclined:
		return "The client refused. The server got a refusal and no data."
	case call.QuestionUnanswered:
		return "The client did not answer in time."
	case call.QuestionWithdrawn:
	}
	return "The server does not wait for an answer any more."
}

func presentQuestionDecision(q *call.AskedQuestion, names map[uuid.UUID]string) *view.Decision {
	if q.DecidedAt == nil {
		return nil
	}
	word := map[string]string{"approved": "Approved", "rejected": "Rejected", "expired": "Expired"}[q.Outcome()]
	return &view.Decision{Word: word, By: personName(q.DecidedBy, names), At: *q.DecidedAt, Note: q.Note}
}

// questionNumber is the number that the request's path names, 0 for none.
func questionNumber(r *http.Request) int {
	number, err := strconv.ParseUint(r.PathValue("number"), 10, 31)
	if err != nil {
		return 0
	}
	return int(number)
}

// askedQuestion finds the question that a request is about, or answers.
func (u *UI) askedQuestion(w http.ResponseWriter, r *http.Request) (*subject, *call.AskedQuestion, bool) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return nil, nil, false
	}
	access, _ := login.Access(r.Context())
	subject, err := u.subject(r.Context(), access, id)
	if err != nil {
		u.fail(w, r, err)
		return nil, nil, false
	}
	for i := range subject.questions {
		if subject.questions[i].Number == questionNumber(r) {
			return subject, &subject.questions[i], true
		}
	}
	u.fail(w, r, call.ErrNotFound)
	return nil, nil, false
}

func (u *UI) approveQuestion(w http.ResponseWriter, r *http.Request) { u.decideQuestion(w, r, true) }

func (u *UI) rejectQuestion(w http.ResponseWriter, r *http.Request) { u.decideQuestion(w, r, false) }

// decideQuestion records what the form says about a question. As with calls, nothing is approved that was not shown whole,
// and high risk takes somebody who proved a short while ago who they are.
func (u *UI) decideQuestion(w http.ResponseWriter, r *http.Request, approve bool) {
	subject, q, ok := u.askedQuestion(w, r)
	if !ok {
		return
	}
	access, _ := login.Access(r.Context())
	note, complaint := reason(r, reasonField)
	how := shown{draft: note, err: complaint, question: q.Number}
	current := q.Status == call.QuestionPending && q.Digest.String() == r.PostFormValue("digest")
	if approve && current && complaint == "" {
		presented, err := u.presentQuestion(r.Context(), subject, q, access, formatOf(r), shown{})
		if err != nil {
			u.fail(w, r, err)
			return
		}
		switch {
		case presented.Withheld:
			how.err = "A part of the answer is hidden. Reveal it before you approve."
		case presented.Folded && r.PostFormValue("revealed") == "":
			how.err = "The question or its answer was not shown whole. Show everything before you approve."
		case subject.risk.proof && presented.MayDecide && !u.login.Fresh(r, u.cfg.ProofAge):
			u.login.Reauthenticate(w, r, callURL(subject.call.ID))
			return
		}
	}
	if how.err != "" {
		u.answerWithCall(w, r, http.StatusUnprocessableEntity, how)
		return
	}
	_, err := u.cfg.Calls.DecideQuestion(r.Context(), call.QuestionDecision{
		CallID: subject.call.ID, Number: q.Number, Approve: approve, Digest: r.PostFormValue("digest"), Note: note, By: access.Person.ID,
	})
	if err != nil {
		u.questionNotDecided(w, r, err)
		return
	}
	http.Redirect(w, r, formatOf(r).url(callURL(subject.call.ID)), http.StatusSeeOther)
}

// questionNotDecided tells why a decision did not count.
func (u *UI) questionNotDecided(w http.ResponseWriter, r *http.Request, err error) {
	notice, status := &view.Notice{Level: view.Warn, Title: "Nothing was decided.", Draft: clean(r.PostFormValue(reasonField))}, http.StatusConflict
	var late *call.QuestionConflictError
	switch {
	case errors.Is(err, approval.ErrDigestMismatch):
		notice.Level, notice.Text = view.Danger, "The question is not what you had on the screen. Look at it again."
	case errors.Is(err, approval.ErrSelfApproval):
		status, notice.Text = http.StatusForbidden, "This call was made on your behalf. Somebody else has to decide about it."
	case errors.Is(err, approval.ErrInvitedApproval):
		status, notice.Text = http.StatusForbidden, invitedWords
	case errors.As(err, &late):
		names, nameErr := u.names(r.Context(), late.Question.DecidedBy)
		if nameErr != nil {
			u.fail(w, r, nameErr)
			return
		}
		notice.Title, notice.Text = "Your decision came too late.", questionWords(&late.Question)
		if d := presentQuestionDecision(&late.Question, names); d != nil {
			notice.Text = conflictNotice(d).Text
		}
	default:
		u.fail(w, r, err)
		return
	}
	u.answerWithCall(w, r, status, shown{notice: notice})
}

// revealQuestion shows the secrets of a client's answer, after that was recorded.
func (u *UI) revealQuestion(w http.ResponseWriter, r *http.Request) {
	_, q, ok := u.askedQuestion(w, r)
	if !ok {
		return
	}
	access, _ := login.Access(r.Context())
	hidden := answerSecrets(q).Count(q.Answer.Result)
	if hidden == 0 {
		http.Redirect(w, r, formatOf(r).url(callURL(q.CallID)), http.StatusSeeOther)
		return
	}
	if err := u.cfg.Calls.QuestionRevealed(r.Context(), q, access.Person.ID, hidden); err != nil {
		u.fail(w, r, err)
		return
	}
	u.answerWithCall(w, r, http.StatusOK, shown{revealed: q.Number, question: q.Number, draft: clean(r.PostFormValue(reasonField))})
}
