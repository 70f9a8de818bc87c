package converse_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// manyCalls returns a reply with n calls of a tool.
func manyCalls(n int, name, arguments string) *model.Response {
	wish := make([]string, 0, 2*n)
	for range n {
		wish = append(wish, name, arguments)
	}
	return answerCalls("All of them.", wish...)
}

func (w *world) countSteps(id uuid.UUID) (n int) {
	w.t.Helper()
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT step FROM loops WHERE conversation_id = $1`, id).Scan(&n))
	return n
}

// A stop does not interrupt the turn that records the end of the stopped run.
func TestStopIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large := strings.Repeat("x", 400<<10)
	w.server.Answer(func(tool.CallRequest) (tool.Result, error) { return textResult(large), nil })
	reply := manyCalls(40, "open__look", `{}`)
	reply.Parts = append(reply.Parts, answerCalls("", "files__write", `{"n": 1}`).Parts[1])
	w.mind.think = answerInTurn(reply)
	id := w.beginConversation("Look.")
	w.waitForParked(1)
	w.untilIt(id, "waiting for one", func(c *converse.Conversation) bool { return c.Status == converse.Waiting && c.OpenCalls == 1 })
	check(t, w.converse.Stop(t.Context(), w.newViewer(), audit.Agent(w.agent.ID), id))
	w.waitForStatus(id, converse.Idle)
	if n := w.countSteps(id); n > 4 { // two, or a few more on a busy machine
		t.Errorf("it took %d turns", n)
	}
}

// Ending a conversation while a reply's calls are submitted leaves no call behind.
func TestEndWhileCallsAreMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(manyCalls(60, "files__write", `{"n": 1}`))
	id := w.beginConversation("Write.")
	eventually.Holds(t, "a parked call", func() bool {
		ids, err := w.waitingIDs()
		check(t, err)
		return len(ids) > 0
	})
	check(t, w.converse.End(t.Context(), w.newViewer(), audit.Agent(w.agent.ID), id))
	w.stop() // ends any running turn
	ids, err := w.waitingIDs()
	check(t, err)
	if len(ids) > 0 {
		t.Errorf("%d calls wait for a decision in a conversation that ended", len(ids))
	}
	if n := len(w.server.Arguments()); n > 0 {
		t.Errorf("%d calls were sent", n)
	}
}

// A stop prevents calls that were not submitted yet, even auto-approved ones.
func TestStopWhileCallsAreMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 64
	var id uuid.UUID
	var once sync.Once
	w.server.Answer(func(tool.CallRequest) (tool.Result, error) {
		once.Do(func() {
			if err := w.converse.Stop(t.Context(), w.newViewer(), audit.Agent(w.agent.ID), id); err != nil {
				t.Error(err)
			}
		})
		return textResult("looked"), nil
	})
	began := make(chan struct{})
	w.mind.think = func(context.Context, *model.Request, func(string)) (*model.Response, error) {
		<-began
		return manyCalls(n, "open__look", `{}`), nil
	}
	id = w.beginConversation("Look.")
	close(began)
	w.waitForStatus(id, converse.Idle)
	sent, told := len(w.server.Arguments()), strings.Count(w.transcript(id), "It was stopped before this call was made.")
	if told == 0 || sent == 0 || sent+told > n {
		t.Errorf("%d of %d calls were sent, the model learned of %d calls that were not made", sent, n, told)
	}
}

// A silent model ends the run when the turn times out. It is not retried.
func TestSilentModel(t *testing.T) {
	t.Parallel()
	w := &world{traces: telemetry.Off(), turnTime: 2 * time.Second}
	w.build(t)
	w.mind.think = func(ctx context.Context, _ *model.Request, _ func(string)) (*model.Response, error) {
		<-ctx.Done()
		return nil, &model.Error{Message: "broke off", Err: ctx.Err()}
	}
	id := w.beginConversation("Think.")
	w.waitForStatus(id, converse.Idle)
	w.wantStatus(id, "user: Think.\nnotice: model_failed\n")
	if n := w.mind.countRequests(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestStopReasons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refusal := answerCalls("", "open__look", `{}`)
	refusal.Stop = model.StopRefusal
	for name, test := range map[string]struct {
		answer *model.Response
		want   string
	}{
		"cut":                    {&model.Response{Parts: answerText("Half an").Parts, Stop: model.StopMaxTokens}, "assistant: Half an\nnotice: cut\n"},
		"cut in its first call":  {&model.Response{Stop: model.StopMaxTokens}, "assistant: \nnotice: cut\n"},
		"empty":                  {&model.Response{Stop: model.StopEnd}, "assistant: \nnotice: model_failed\n"},
		"refused after a call":   {refusal, "assistant: \nnotice: refused\n"},
		"refused, with a reason": {&model.Response{Parts: answerText("No.").Parts, Stop: model.StopRefusal}, "assistant: No.\nnotice: refused\n"},
	} {
		w.mind.think = answerInTurn(test.answer)
		id := w.beginConversation("Hello.")
		w.waitForStatus(id, converse.Idle)
		if got := w.transcript(id); got != "user: Hello.\n"+test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if sent := w.server.Arguments(); len(sent) > 0 {
		t.Errorf("sent %q", sent)
	}
}

// Token limits hold even if the provider reports no usage.
func TestTokensAreEstimated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setLimits(agent.Limits{ConversationTokens: 1000})
	answer := answerText(strings.Repeat("four", 1000))
	answer.Usage = model.Usage{}
	w.mind.think = answerInTurn(answer)
	id := w.beginConversation("Hello.")
	w.waitForStatus(id, converse.Idle)
	list, err := w.converse.Entries(t.Context(), w.newViewer(), id, 0, 10)
	check(t, err)
	if u := list[1].Assistant.Usage; !u.Estimated || u.OutputTokens != 1000 || u.InputTokens < 100 {
		t.Errorf("it took %+v", u)
	}
	w.sendMessage(id, "More.")
	if c := w.waitForStatus(id, converse.Ended); c.Code != converse.CodeTokenLimit {
		t.Errorf("it ended with %s", c.Code)
	}
}
