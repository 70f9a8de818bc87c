package ui_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// asked returns an approved call whose server asked a question. The client answers it unless answer is empty.
func (w *world) asked(q tool.Question, answer string) uuid.UUID {
	w.t.Helper()
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		answers, err := r.Caller.Ask(context.Background(), []tool.Question{q})
		if err != nil {
			return tool.Result{}, err
		}
		return tool.Result{Raw: json.RawMessage(`{"content":[],"structuredContent":` + string(answers[0]) + `}`)}, nil
	})
	ctx := w.t.Context()
	c, err := w.catalog.StartConversation(ctx, w.agent, uuid.Nil, "2025-11-25", nil)
	check(w.t, err)
	entry, ok := c.Catalog.Lookup("files__save_csv")
	if !ok {
		w.t.Fatal("no tool files__save_csv")
	}
	ticket, err := w.calls.Submit(ctx, call.Submission{
		Agent: w.agent, ConversationID: c.ID, Entry: entry, Arguments: json.RawMessage(`{"filename":"` + uuid.NewString() + `"}`),
		Caller: call.Caller{Capabilities: json.RawMessage(`{"elicitation":{"form":{},"url":{}}}`)},
	})
	check(w.t, err)
	a := w.getApproval(ticket.ID)
	_, err = w.calls.Decide(ctx, call.Decision{CallID: ticket.ID, Approve: true, Digest: a.Digest.String(), By: uuid.New()})
	check(w.t, err)
	if answer != "" {
		w.question(ticket.ID, call.QuestionAsked)
		check(w.t, w.calls.Answer(ctx, call.Viewer{AgentID: w.agent.ID}, ticket.ID, 1, call.Answer{Result: json.RawMessage(answer)}))
	}
	w.question(ticket.ID, call.QuestionPending)
	return ticket.ID
}

// question waits until the first question of a call has the status.
func (w *world) question(id uuid.UUID, status call.QuestionStatus) call.AskedQuestion {
	w.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		list, err := w.calls.ListQuestions(w.t.Context(), id)
		check(w.t, err)
		if len(list) > 0 && list[0].Status == status {
			return list[0]
		}
	}
	w.t.Fatalf("no question of call %s is %s", id, status)
	return call.AskedQuestion{}
}

var account = tool.Question{Method: "elicitation/create", Params: json.RawMessage(
	`{"message":"<b>Which</b> account?","requestedSchema":{"type":"object","properties":{"iban":{"type":"string"},"pin":{"type":"string","format":"password"}}}}`)}

// A reviewer finds a question in the queue, sees it with its answer on the call's page, and decides there.
func TestQuestionOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.asked(account, `{"action":"accept","content":{"iban":"DE02\u202e","pin":"4711"}}`)

	queue := v.get("/")
	if rows := queue.find("pending-question"); rows.Length() != 1 || !strings.Contains(rows.Text(), "asks the client for input") {
		t.Errorf("the queue shows %q", queue.text())
	}
	page := v.get(callPath(id))
	part := page.find("questions").Text()
	for _, want := range []string{"<b>Which</b> account?", "DE02", "U+202E", "Look closely", "The server does not have this answer yet"} {
		if !strings.Contains(part, want) {
			t.Errorf("the page does not say %q: %s", want, part)
		}
	}
	if strings.Contains(part, "4711") || page.find("question-reveal").Length() != 1 {
		t.Errorf("a secret is shown: %s", part)
	}
	path := callPath(id) + "/questions/1"
	if revealed := v.post(path+"/reveal", nil); !strings.Contains(revealed.find("question-answer").Text(), "4711") {
		t.Errorf("not revealed: %s", revealed.text())
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: id, Action: audit.QuestionRevealed})
	if err != nil || len(events) != 1 {
		t.Errorf("revealing was recorded as %v (%v)", events, err)
	}

	form := page.form("decide-question")
	other := page.form("decide-question")
	other.Set("digest", strings.Repeat("0", 64))
	if a := v.post(path+"/approve", other); a.status != http.StatusConflict || !strings.Contains(a.text(), "differs from the one on your screen") {
		t.Errorf("another digest: %d %s", a.status, a.text())
	}
	if a := w.signedIn("olga", identity.Operator).post(path+"/approve", form); a.status != http.StatusForbidden {
		t.Errorf("an operator: %d", a.status)
	}
	form.Set("reason", "checked the account")
	if a := v.post(path+"/approve", form); a.status != http.StatusSeeOther || a.header.Get("Location") != callPath(id) {
		t.Fatalf("approve: %d %s", a.status, a.text())
	}
	if c := w.waitForEnd(id); c.Status != call.Succeeded || !strings.Contains(string(c.Result), "DE02") {
		t.Errorf("%s %s", c.Status, c.Result)
	}
	if a := v.post(path+"/reject", form); a.status != http.StatusConflict || !strings.Contains(a.text(), "Approved by ana at ") {
		t.Errorf("too late: %d %s", a.status, a.text())
	}
	page = v.get(callPath(id))
	if text := page.find("outcome").Text(); !strings.Contains(text, "The server asked 1 question. Answers it got: 1 approved by a reviewer, 0 without review.") {
		t.Errorf("the outcome says %s", text)
	}
	if text := page.find("questions").Text(); !strings.Contains(text, "checked the account") || page.find("decide-question").Length() != 0 {
		t.Errorf("decided: %s", text)
	}
	if rows := v.get("/").find("pending-question"); rows.Length() != 0 {
		t.Error("the queue still shows the question")
	}
}

// All of an answer is shown before it is approved, also the values that the question declares as secrets.
func TestWithheldAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.asked(account, `{"action":"accept","content":{"iban":"DE02","pin":"4711"}}`)
	path := callPath(id) + "/questions/1"
	form := v.get(callPath(id)).form("decide-question")
	if a := v.post(path+"/approve", form); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.text(), "Reveal it before you approve") {
		t.Fatalf("unseen: %d %s", a.status, a.text())
	}
	revealed := v.post(path+"/reveal", nil)
	if a := v.post(path+"/approve", revealed.form("decide-question")); a.status != http.StatusSeeOther {
		t.Fatalf("seen: %d %s", a.status, a.text())
	}
	w.waitForEnd(id)
	long := `{"action":"accept","content":{"text":"` + strings.Repeat("word ", 5000) + `"}}`
	id = w.asked(account, long)
	path = callPath(id) + "/questions/1"
	form = v.get(callPath(id)).form("decide-question")
	if a := v.post(path+"/approve", form); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.text(), "Show everything") {
		t.Fatalf("folded: %d %s", a.status, a.text())
	}
	if a := v.post(path+"/approve", v.get(callPath(id)+"?full=1").form("decide-question")); a.status != http.StatusSeeOther {
		t.Fatalf("whole: %d %s", a.status, a.text())
	}
	w.waitForEnd(id)
}

// A question of a high-risk tool needs a recent sign-in, as its call does.
func TestQuestionOfHighRisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.asked(tool.Question{Method: "elicitation/create", Params: json.RawMessage(`{"mode":"url","url":"https://bank.example/"}`)}, "")
	w.marksHighRisk("files", "save_csv")
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at - interval '1 day'`)
	page := v.get(callPath(id))
	if text := page.find("questions").Text(); !strings.Contains(text, "https://bank.example/") || !strings.Contains(text, "The client has not seen this URL") {
		t.Errorf("the page says %s", text)
	}
	path, form := callPath(id)+"/questions/1", page.form("decide-question")
	if a := v.post(path+"/approve", form); a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/sign-in") {
		t.Errorf("without a recent proof: %d to %q", a.status, a.header.Get("Location"))
	}
	w.question(id, call.QuestionPending)
	if a := v.post(path+"/reject", form); a.status != http.StatusSeeOther {
		t.Fatalf("reject: %d %s", a.status, a.text())
	}
	if c := w.waitForEnd(id); !strings.Contains(string(c.Result), `{"action":"decline"}`) {
		t.Errorf("%s %s", c.Status, c.Result)
	}
}
