package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

var (
	urlForm  = tool.Question{Method: "elicitation/create", Params: json.RawMessage(`{"mode":"url","message":"sign in","url":"https://bank.example/","elicitationId":"1"}`)}
	sampling = tool.Question{Method: "sampling/createMessage", Params: json.RawMessage(`{"messages":[],"maxTokens":5}`)}
	roots    = tool.Question{Method: "roots/list"}
)

const (
	accepted = `{"action":"accept","content":{"iban":"DE02"}}`
	declined = `{"action":"decline"}`
)

// waitForQuestion waits until a question of a call has a status.
func waitForQuestion(t *testing.T, process *call.Service, id uuid.UUID, number int, status call.QuestionStatus) call.AskedQuestion {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		list, err := process.ListQuestions(t.Context(), id)
		check(t, err)
		if len(list) >= number && list[number-1].Status == status {
			return list[number-1]
		}
	}
	list, _ := process.ListQuestions(t.Context(), id)
	t.Fatalf("question %d did not become %s: %+v", number, status, list)
	return call.AskedQuestion{}
}

// decideQuestion decides about the current version of a question.
func decideQuestion(t *testing.T, process *call.Service, by uuid.UUID, id uuid.UUID, number int, approve bool) error {
	t.Helper()
	q := waitForQuestion(t, process, id, number, call.QuestionPending)
	_, err := process.DecideQuestion(t.Context(), call.QuestionDecision{
		CallID: id, Number: number, Approve: approve, Digest: q.Digest.String(), Note: "seen", By: by,
	})
	return err
}

// delivery is the answer that a server got, and the stored question at that moment.
type delivery struct {
	answer, err string
	rpc         string
	stored      call.AskedQuestion
}

// askOne makes the server ask a question, and returns the answer that it gets.
func (w *world) askOne(q tool.Question) <-chan delivery {
	got := make(chan delivery, 1)
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		answers, err := r.Caller.Ask(context.Background(), []tool.Question{q})
		var d delivery
		if list, readErr := w.calls.ListQuestions(context.Background(), r.CallID); readErr == nil && len(list) > 0 {
			d.stored = list[0]
		}
		if err != nil {
			d.err = err.Error()
			if failure, ok := errors.AsType[*tool.Failure](err); ok {
				d.err, d.rpc = failure.Message, string(failure.RPC)
			}
		} else {
			d.answer = string(answers[0])
		}
		got <- d
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	})
	return got
}

// approveAskable returns an approved call whose client answers any question.
func (w *world) approveAskable(name string) uuid.UUID {
	w.t.Helper()
	sub := w.newSubmission(name, fmt.Sprintf(`{"n":%d}`, time.Now().UnixNano()))
	sub.Caller = call.Caller{Capabilities: json.RawMessage(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`)}
	ticket, err := w.calls.Submit(w.t.Context(), sub)
	check(w.t, err)
	check(w.t, w.decide(ticket.ID, true))
	return ticket.ID
}

func (w *world) answerQuestion(id uuid.UUID, number int, a call.Answer) error {
	return w.calls.Answer(w.t.Context(), call.Viewer{AgentID: w.agent.ID}, id, number, a)
}

func result(text string) call.Answer { return call.Answer{Result: json.RawMessage(text)} }

// A client's answer to a form waits for a decision about question and answer. The first decision counts in any process,
// and the server gets exactly the approved answer.
func TestAnswerWaitsForReviewer(t *testing.T) {
	t.Parallel()
	for name, approve := range map[string]bool{"approved": true, "rejected": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			other := w.start()
			got := w.askOne(form)
			id := w.approveAskable("files__write")
			waitForQuestion(t, w.calls, id, 1, call.QuestionAsked)
			own := call.Viewer{AgentID: w.agent.ID}
			if until, err := other.WaitDeadline(t.Context(), own, id, call.Executing); err != nil || !until.IsZero() {
				t.Errorf("reviewed before it was answered: %v %v", until, err)
			}
			check(t, w.answerQuestion(id, 1, result(" "+accepted)))
			q := waitForQuestion(t, other, id, 1, call.QuestionPending)
			if string(q.Answer.Result) != accepted || q.Review != call.ReviewAnswer || q.Deadline == nil {
				t.Errorf("pending question %+v", q)
			}
			if until, err := other.WaitDeadline(t.Context(), own, id, call.Executing); err != nil || !until.Equal(*q.Deadline) {
				t.Errorf("reviewed until %v, want %v (%v)", until, q.Deadline, err)
			}
			if open, err := other.Questions(t.Context(), own, id); err != nil || len(open) != 0 {
				t.Errorf("the client is asked again: %v %v", open, err)
			}
			select {
			case d := <-got:
				t.Fatalf("the server got %+v before a decision", d)
			default:
			}
			_, err := other.DecideQuestion(t.Context(), call.QuestionDecision{CallID: id, Number: 1, Approve: true, Digest: strings.Repeat("0", 64), By: w.reviewer})
			if !errors.Is(err, approval.ErrDigestMismatch) {
				t.Errorf("another digest: %v", err)
			}
			check(t, decideQuestion(t, other, w.reviewer, id, 1, approve))
			_, err = w.calls.DecideQuestion(t.Context(), call.QuestionDecision{CallID: id, Number: 1, Approve: !approve, Digest: q.Digest.String(), By: w.reviewer})
			if late := (*call.QuestionConflictError)(nil); !errors.As(err, &late) || late.Question.Outcome() != name || late.Question.DecidedBy != w.reviewer {
				t.Errorf("a second decision: %v", err)
			}
			d := <-got
			want := map[bool]string{true: accepted, false: declined}[approve]
			if d.answer != want || d.stored.DecidedAt == nil || d.stored.DecidedBy != w.reviewer {
				t.Errorf("the server got %+v, want %s", d, want)
			}
			if c := w.waitForEnd(id); c.Status != call.Succeeded {
				t.Errorf("%s: %s", c.Status, c.Message)
			}
			if got := w.db.Actions(id); !strings.Contains(got, "call.asked call.answered question."+name) {
				t.Errorf("audited %s", got)
			}
		})
	}
}

// A URL is not shown to the client before it is approved, and its answer carries no data.
func TestURLWaitsForReviewerFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.askOne(urlForm)
	id := w.approveAskable("files__write")
	waitForQuestion(t, w.calls, id, 1, call.QuestionPending)
	own := call.Viewer{AgentID: w.agent.ID}
	if open, err := w.calls.Questions(t.Context(), own, id); err != nil || len(open) != 0 {
		t.Fatalf("the client was asked %v before the decision (%v)", open, err)
	}
	if err := w.answerQuestion(id, 1, result(accepted)); !errors.Is(err, call.ErrNotFound) {
		t.Errorf("answered before the decision: %v", err)
	}
	check(t, decideQuestion(t, w.calls, w.reviewer, id, 1, true))
	open, err := w.calls.Questions(t.Context(), own, id)
	if err != nil || len(open) != 1 || string(open[0].Params) != string(urlForm.Params) {
		t.Fatalf("asked %v %v", open, err)
	}
	check(t, w.answerQuestion(id, 1, result(accepted)))
	if d := <-got; d.answer != `{"action":"accept"}` {
		t.Errorf("the server got %+v", d)
	}
	// A client never sees a rejected URL.
	got = w.askOne(urlForm)
	id = w.approveAskable("files__write")
	check(t, decideQuestion(t, w.calls, w.reviewer, id, 1, false))
	if d := <-got; d.answer != declined || d.stored.AnsweredAt != nil {
		t.Errorf("rejected, the server got %+v", d)
	}
}

// After a rejection, an expiry, a refusal or no answer, the server gets no data.
func TestRefusalsCarryNoData(t *testing.T) {
	t.Parallel()
	said := `{"code":-1,"message":"transfer to DE02"}`
	for name, test := range map[string]struct {
		question tool.Question
		answer   call.Answer
		reject   bool
		expire   bool
		status   call.QuestionStatus
		answered string
		message  string
	}{
		"the client declines":         {question: form, answer: result(`{"action":"decline","content":{"iban":"DE02"}}`), status: call.QuestionDeclined, answered: declined},
		"the client cancels":          {question: form, answer: result(`{"action":"cancel","_meta":{"iban":"DE02"}}`), status: call.QuestionDeclined, answered: `{"action":"cancel"}`},
		"the client says otherwise":   {question: form, answer: result(`{"action":"accept","action":"decline"}`), status: call.QuestionDeclined, answered: declined},
		"the client's error":          {question: form, answer: call.Answer{Error: json.RawMessage(said)}, status: call.QuestionDeclined, answered: declined},
		"the client's sampling error": {question: sampling, answer: call.Answer{Error: json.RawMessage(said)}, status: call.QuestionDeclined, message: "the client refused this request"},
		"sampling is rejected":        {question: sampling, answer: result(`{"role":"assistant"}`), reject: true, status: call.QuestionRejected, message: "a reviewer rejected this request"},
		"the decision expires":        {question: form, answer: result(accepted), expire: true, status: call.QuestionExpired, answered: declined},
		"sampling expires":            {question: sampling, answer: result(`{"role":"assistant"}`), expire: true, status: call.QuestionExpired, message: "no reviewer decided about this request in time"},
		"nobody answers":              {question: form, expire: true, status: call.QuestionUnanswered, message: "no answer arrived in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			got := w.askOne(test.question)
			id := w.approveAskable("files__write")
			waitForQuestion(t, w.calls, id, 1, call.QuestionAsked)
			if test.answer.Result != nil || test.answer.Error != nil {
				check(t, w.answerQuestion(id, 1, test.answer))
			}
			if test.reject {
				check(t, decideQuestion(t, w.calls, w.reviewer, id, 1, false))
			}
			if test.expire {
				if test.answer.Result != nil {
					waitForQuestion(t, w.calls, id, 1, call.QuestionPending)
				}
				w.db.MoveClock("1 day")
			}
			d := <-got
			if d.answer != test.answered || !strings.HasSuffix(d.err, test.message) || d.stored.Status != test.status {
				t.Errorf("the server got %+v", d)
			}
			if strings.Contains(d.answer+d.err+d.rpc, "DE02") || test.message != "" && test.question.Method == sampling.Method && !strings.Contains(d.rpc, `"code":-1`) {
				t.Errorf("the server got %+v", d)
			}
		})
	}
}

// Sampling is reviewed together with its answer. Roots are only recorded, as is everything if the skill says so.
func TestWhatReviewersDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.askOne(sampling)
	id := w.approveAskable("files__write")
	waitForQuestion(t, w.calls, id, 1, call.QuestionAsked)
	check(t, w.answerQuestion(id, 1, result(`{"role":"assistant","model":"m"}`)))
	check(t, decideQuestion(t, w.calls, w.reviewer, id, 1, true))
	if d := <-got; d.answer != `{"role":"assistant","model":"m"}` {
		t.Errorf("sampling: %+v", d)
	}
	got = w.askOne(roots)
	id = w.approveAskable("files__write")
	waitForQuestion(t, w.calls, id, 1, call.QuestionAsked)
	check(t, w.answerQuestion(id, 1, result(`{"roots":[]}`)))
	if d := <-got; d.answer != `{"roots":[]}` || d.stored.Status != call.QuestionAnswered {
		t.Errorf("roots: %+v", d)
	}
	client := agent.QuestionsClient
	skill, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), skill.ID, agent.SkillPatch{Questions: &client})
	check(t, err)
	for _, q := range []tool.Question{form, urlForm, sampling} {
		got = w.askOne(q)
		id = w.approveAskable("files__write")
		waitForQuestion(t, w.calls, id, 1, call.QuestionAsked)
		check(t, w.answerQuestion(id, 1, result(accepted)))
		if d := <-got; d.answer != accepted || d.stored.Status != call.QuestionAnswered || string(d.stored.Answer.Result) != accepted {
			t.Errorf("questions: client: %+v", d)
		}
	}
}

// The principal of a call cannot decide about its questions. Questions of an ended call cannot be decided.
func TestWhoDecidesQuestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	principal := uuid.New()
	got := w.askOne(form)
	sub := makeAskable(w.newSubmission("files__write", `{"n":1}`))
	sub.PrincipalID = principal
	ticket, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	check(t, w.decide(ticket.ID, true))
	waitForQuestion(t, w.calls, ticket.ID, 1, call.QuestionAsked)
	own := call.Viewer{AgentID: w.agent.ID, PrincipalID: principal}
	check(t, w.calls.Answer(t.Context(), own, ticket.ID, 1, result(accepted)))
	if err := decideQuestion(t, w.calls, principal, ticket.ID, 1, true); !errors.Is(err, approval.ErrSelfApproval) {
		t.Errorf("the principal decides: %v", err)
	}
	if list, err := w.calls.ListPendingQuestions(t.Context(), 10); err != nil || len(list) != 1 || list[0].CallID != ticket.ID {
		t.Errorf("pending %+v (%v)", list, err)
	}
	q := waitForQuestion(t, w.calls, ticket.ID, 1, call.QuestionPending)
	w.db.Exec(`UPDATE calls SET status = 'unknown', finished_at = holdpoint_now() WHERE id = $1`, ticket.ID)
	_, err = w.calls.DecideQuestion(t.Context(), call.QuestionDecision{CallID: ticket.ID, Number: 1, Approve: true, Digest: q.Digest.String(), By: w.reviewer})
	if late := (*call.QuestionConflictError)(nil); !errors.As(err, &late) || late.Question.Outcome() != "withdrawn" {
		t.Errorf("deciding for a call with unknown outcome: %v", err)
	}
	if list, err := w.calls.ListPendingQuestions(t.Context(), 10); err != nil || len(list) != 0 {
		t.Errorf("still pending: %+v (%v)", list, err)
	}
	w.db.Exec(`UPDATE calls SET status = 'executing', finished_at = NULL WHERE id = $1`, ticket.ID)
	check(t, decideQuestion(t, w.calls, w.reviewer, ticket.ID, 1, false))
	<-got
}

// A stored answer that differs from the approved one does not reach the server.
func TestChangedAnswerIsNotDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.askOne(form)
	id := w.approveAskable("files__write")
	waitForQuestion(t, w.calls, id, 1, call.QuestionAsked)
	check(t, w.answerQuestion(id, 1, result(accepted)))
	waitForQuestion(t, w.calls, id, 1, call.QuestionPending)
	w.db.Exec(`UPDATE call_questions SET answer = $2 WHERE call_id = $1`, id, []byte(`{"action":"accept","content":{"iban":"XX"}}`))
	check(t, decideQuestion(t, w.calls, w.reviewer, id, 1, true))
	if d := <-got; d.answer != "" || d.err != "the answer is not what a reviewer approved" {
		t.Errorf("the server got %+v", d)
	}
}

// TestInvitedPeopleDoNotDecideQuestions: people cannot decide about questions of calls that an agent made with a key of
// their inviter, even if another reviewer approved the call.
func TestInvitedPeopleDoNotDecideQuestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maker, invited := uuid.New(), uuid.New()
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name, invited_by) VALUES ($1, $3, 'maker', 'Mara', NULL), ($2, $3, 'invited', 'Ina', $1)`,
		maker, invited, identity.LocalIssuer)
	_, _, err := w.agents.CreateKey(t.Context(), audit.Person(maker), w.agent.ID)
	check(t, err)
	got := w.askOne(form)
	id := w.approveAskable("files__write")
	waitForQuestion(t, w.calls, id, 1, call.QuestionAsked)
	check(t, w.answerQuestion(id, 1, result(accepted)))
	if err := decideQuestion(t, w.calls, invited, id, 1, true); !errors.Is(err, approval.ErrInvitedApproval) {
		t.Errorf("the invited person decides: %v", err)
	}
	check(t, decideQuestion(t, w.calls, w.reviewer, id, 1, true))
	if d := <-got; d.answer != accepted {
		t.Errorf("the server got %+v", d)
	}
}

// TestQuestionOfAllowedCall: in a skill that is not auto-approved, an answer of a call that a rule allowed waits for a reviewer too: the rule has not
// judged it.
func TestQuestionOfAllowedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.askQuestion()
	w.setRule(rule.Spec{Name: "all", Effect: rule.Allow})
	ticket, err := w.calls.Submit(t.Context(), makeAskable(w.newSubmission("files__write", `{"n":1}`)))
	check(t, err)
	if ticket.Status != call.Executing {
		t.Fatalf("the call is %s", ticket.Status)
	}
	eventually.Holds(t, "the question to be asked", func() bool {
		open, err := w.calls.Questions(t.Context(), call.Viewer{AgentID: w.agent.ID}, ticket.ID)
		return err == nil && len(open) == 1
	})
	check(t, w.answerQuestion(ticket.ID, 1, result(`{"action":"accept","content":{}}`)))
	waiting, err := w.calls.ListPendingQuestions(t.Context(), 10)
	check(t, err)
	if len(waiting) != 1 || waiting[0].CallID != ticket.ID {
		t.Fatalf("waiting: %+v", waiting)
	}
	check(t, decideQuestion(t, w.calls, w.reviewer, ticket.ID, 1, true))
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded || !strings.Contains(string(c.Result), "accept") {
		t.Errorf("%s %s", c.Status, c.Result)
	}
}
