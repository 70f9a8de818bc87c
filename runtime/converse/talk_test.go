package converse_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func (w *world) wantStatus(id uuid.UUID, want string) {
	w.t.Helper()
	if got := w.transcript(id); got != want {
		w.t.Errorf("transcript\n%s\nwant\n%s", got, want)
	}
}

func (w *world) sendMessage(id uuid.UUID, text string) {
	w.t.Helper()
	_, err := w.converse.Say(w.t.Context(), w.newViewer(), id, text)
	check(w.t, err)
}

func TestMessagesMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`), answerText("Both."), answerText("Third."))
	id := w.beginConversation("One.")
	waiting := w.waitForParked(1)
	w.sendMessage(id, "Two.")
	if c, err := w.converse.Get(t.Context(), w.newViewer(), id); err != nil || len(c.Pending) != 1 || c.Pending[0].Text != "Two." {
		t.Fatalf("pending %+v, %v", c.Pending, err)
	}
	w.decideCall(waiting[0], true, "")
	w.waitForStatus(id, converse.Idle)
	w.sendMessage(id, "Three.")
	w.untilIt(id, "idle after three turns", func(c *converse.Conversation) bool { return c.Turns == 3 && c.Status == converse.Idle })
	w.wantStatus(id, `user: One.
assistant: Writing. [files__write]
call: files__write parked
call: files__write approved
call: files__write succeeded
told: A reviewer approved this call, and it was made as you wanted it.  done {"n":1}
user: Two.
assistant: Both.
user: Three.
assistant: Third.
`)
}

func TestStopWhileTheModelThinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{})
	w.mind.think = func(ctx context.Context, _ *model.Request, _ func(string)) (*model.Response, error) {
		close(began)
		<-ctx.Done()
		return nil, &model.Error{Message: "broke off", Err: ctx.Err()}
	}
	id := w.beginConversation("Think.")
	<-began
	check(t, w.converse.Stop(t.Context(), w.newViewer(), audit.Agent(w.agent.ID), id))
	w.waitForStatus(id, converse.Idle)
	w.wantStatus(id, "user: Think.\nnotice: stopped\n")
	if err := w.converse.Stop(t.Context(), w.newViewer(), audit.Agent(w.agent.ID), id); !errors.Is(err, converse.ErrIdle) {
		t.Errorf("stopping an idle conversation: %v", err)
	}
	w.mind.think = answerInTurn(answerText("Here."))
	w.sendMessage(id, "Again.")
	w.waitForStatus(id, converse.Idle)
	w.wantStatus(id, "user: Think.\nnotice: stopped\nuser: Again.\nassistant: Here.\n")
}

func TestStopCancelsUndecidedCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	held := make(chan struct{})
	w.server.Answer(func(tool.CallRequest) (tool.Result, error) { <-held; return textResult("written"), nil })
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`, "files__write", `{"n": 2}`), answerText("never asked for"))
	id := w.beginConversation("Write.")
	w.decideCall(w.waitForParked(2)[0], true, "")
	eventually.Holds(t, "the approved call is sent", func() bool { return len(w.server.Arguments()) == 1 })
	check(t, w.converse.Stop(t.Context(), w.newViewer(), audit.Agent(w.agent.ID), id))
	c := w.untilIt(id, "waiting for one", func(c *converse.Conversation) bool { return c.OpenCalls == 1 })
	if !c.Stopping || c.Status != converse.Waiting {
		t.Errorf("the conversation is %+v", c)
	}
	close(held) // approved calls still finish
	w.waitForStatus(id, converse.Idle)
	w.wantStatus(id, `user: Write.
assistant: Writing. [files__write] [files__write]
call: files__write parked
call: files__write parked
call: files__write approved
call: files__write cancelled
call: files__write succeeded
told: A reviewer approved this call, and it was made as you wanted it.  written
told: This call was cancelled before it was sent. It was not executed. Note: "the call was cancelled before anyone decided"
notice: stopped
`)
	if w.mind.countRequests() != 1 {
		t.Errorf("the model was asked %d times", w.mind.countRequests())
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`))
	id := w.beginConversation("Write.")
	w.waitForParked(1)
	by := audit.Agent(w.agent.ID)
	check(t, w.converse.End(t.Context(), w.newViewer(), by, id))
	w.waitForStatus(id, converse.Ended)
	w.waitForParked(0)
	if _, err := w.converse.Say(t.Context(), w.newViewer(), id, "More."); !errors.Is(err, converse.ErrEnded) {
		t.Errorf("speaking after the end: %v", err)
	}
	for _, act := range []func() error{
		func() error { return w.converse.End(t.Context(), w.newViewer(), by, id) },
		func() error { return w.converse.Stop(t.Context(), w.newViewer(), by, id) },
	} {
		if err := act(); !errors.Is(err, converse.ErrEnded) {
			t.Errorf("after the end: %v", err)
		}
	}
	read, err := w.registry.Catalog.ReadConversation(t.Context(), id)
	check(t, err)
	if read.EndedAt == nil {
		t.Error("the conversation is still open")
	}
}

func TestFork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Writing.", "open__look", `{}`), answerText("One."), answerText("Two."), answerText("Another two."), answerText("Third."))
	id := w.beginConversation("First.")
	w.waitForStatus(id, converse.Idle)
	w.sendMessage(id, "Second.")
	w.untilIt(id, "idle again", func(c *converse.Conversation) bool { return c.Turns == 3 && c.Status == converse.Idle })
	by := audit.Agent(w.agent.ID)
	for _, seq := range []int64{0, 4, 8} { // no calls, results, past the end
		var invalid *fault.InvalidError
		if _, err := w.converse.Fork(t.Context(), w.newViewer(), by, id, seq, ""); !errors.As(err, &invalid) || invalid.Fields[0].Name != "seq" {
			t.Errorf("fork at %d: %v", seq, err)
		}
	}
	again, err := w.converse.Fork(t.Context(), w.newViewer(), by, id, 6, "")
	check(t, err)
	if again.ForkedFrom != id {
		t.Errorf("forked from %s", again.ForkedFrom)
	}
	w.waitForStatus(again.ID, converse.Idle)
	const upToOne = "user: First.\nassistant: Writing. [open__look]\n"
	w.wantStatus(again.ID, upToOne+"told: done {}\nassistant: One.\nuser: Second.\nassistant: Another two.\n")
	quiet, err := w.converse.Fork(t.Context(), w.newViewer(), by, id, 5, "")
	check(t, err)
	w.waitForStatus(quiet.ID, converse.Idle)
	w.wantStatus(quiet.ID, upToOne+"told: done {}\nassistant: One.\n")
	w.sendMessage(quiet.ID, "Other.")
	w.untilIt(quiet.ID, "idle with an answer", func(c *converse.Conversation) bool { return c.Turns == 1 && c.Status == converse.Idle })
	w.wantStatus(quiet.ID, upToOne+"told: done {}\nassistant: One.\nuser: Other.\nassistant: Third.\n")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for code, limits := range map[string]agent.Limits{
		converse.CodeTurnLimit:  {ConversationTurns: 1},
		converse.CodeTokenLimit: {ConversationTokens: 15},
		converse.CodeCostLimit:  {ConversationCost: 0.00002},
	} {
		w.setLimits(limits)
		w.mind.think = answerInTurn(answerCalls("Looking.", "open__look", `{}`), answerText("never asked for"))
		id := w.beginConversation("Look.")
		if c := w.waitForStatus(id, converse.Ended); c.Code != code {
			t.Errorf("ended as %s, want %s", c.Code, code)
		}
		w.wantStatus(id, "user: Look.\nassistant: Looking. [open__look]\ncall: open__look succeeded\ntold: done {}\nnotice: "+code+"\n")
	}
	w.setLimits(agent.Limits{ConversationTime: agent.Duration(time.Hour)})
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`), answerText("never asked for"))
	id := w.beginConversation("Write.")
	waiting := w.waitForParked(1)
	w.decideCall(waiting[0], true, "")
	_ = waiting
	w.waitForStatus(id, converse.Idle)
	w.moveClock("2 hours")
	w.sendMessage(id, "More.")
	if c := w.waitForStatus(id, converse.Ended); c.Code != converse.CodeTimeLimit {
		t.Errorf("ended as %s", c.Code)
	}
}

func TestModelFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct {
		err  *model.Error
		code string
	}{
		{&model.Error{Status: 401, Message: "wrong key"}, converse.CodeModelFailed},
		{&model.Error{Status: 400, TooLong: true, Message: "too long"}, converse.CodeTooLong},
	} {
		w.mind.think = func(context.Context, *model.Request, func(string)) (*model.Response, error) { return nil, test.err }
		id := w.beginConversation("Hello.")
		w.waitForStatus(id, converse.Idle)
		w.wantStatus(id, "user: Hello.\nnotice: "+test.code+"\n")
		w.mind.think = answerInTurn(answerText("Now it works."))
		w.sendMessage(id, "Again.")
		w.untilIt(id, "answered", func(c *converse.Conversation) bool { return c.Turns == 1 && c.Status == converse.Idle })
		w.wantStatus(id, "user: Hello.\nnotice: "+test.code+"\nuser: Again.\nassistant: Now it works.\n")
	}
	refusal := answerText("I will not.")
	refusal.Stop = model.StopRefusal
	cut := answerText("And so")
	cut.Stop = model.StopMaxTokens
	for code, reply := range map[string]*model.Response{converse.CodeRefused: refusal, converse.CodeCut: cut} {
		w.mind.think = answerInTurn(reply)
		id := w.beginConversation("Hello.")
		w.waitForStatus(id, converse.Idle)
		w.wantStatus(id, "user: Hello.\nassistant: "+joinTexts(reply.Parts)+"\nnotice: "+code+"\n")
	}
}

func TestOnlyOwnersSpeak(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerText("Hello."))
	id := w.beginConversation("Hello.")
	w.waitForStatus(id, converse.Idle)
	somebody := uuid.New()
	for name, test := range map[string]struct {
		viewer converse.Viewer
		want   error
	}{
		"a reviewer":              {converse.Viewer{PrincipalID: somebody}, converse.ErrReadOnly},
		"another principal":       {converse.Viewer{AgentID: w.agent.ID, PrincipalID: somebody}, converse.ErrNotFound},
		"another agent":           {converse.Viewer{AgentID: somebody}, converse.ErrNotFound},
		"a conversation of chaos": {converse.Viewer{AgentID: somebody, PrincipalID: somebody}, converse.ErrNotFound},
	} {
		ctx, by := t.Context(), audit.Person(somebody)
		_, said := w.converse.Say(ctx, test.viewer, id, "Hi.")
		_, forked := w.converse.Fork(ctx, test.viewer, by, id, 1, "")
		stopped, ended := w.converse.Stop(ctx, test.viewer, by, id), w.converse.End(ctx, test.viewer, by, id)
		for i, err := range []error{said, forked, stopped, ended} {
			if !errors.Is(err, test.want) {
				t.Errorf("%s, act %d: %v, want %v", name, i, err, test.want)
			}
		}
		_, err := w.converse.Entries(ctx, test.viewer, id, 0, 10)
		if (err == nil) != errors.Is(test.want, converse.ErrReadOnly) {
			t.Errorf("%s looks: %v", name, err)
		}
	}
	for _, text := range []string{"", " \n", "a\xff", strings.Repeat("a", converse.MaxMessageBytes+1)} {
		var invalid *fault.InvalidError
		if _, err := w.converse.Say(t.Context(), w.newViewer(), id, text); !errors.As(err, &invalid) || invalid.Fields[0].Name != "message" {
			t.Errorf("saying %d bytes: %v", len(text), err)
		}
	}
}

// Nothing runs for a blocked principal.
func TestBlockedPrincipal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`), answerText("never asked for"))
	somebody := uuid.New()
	_, err := w.db.Pool().Exec(t.Context(), `INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'local', 'ann', 'ann')`, somebody)
	check(t, err)
	c, err := w.converse.Begin(t.Context(), converse.Opening{Agent: w.agent, Principal: somebody, Message: "Write."})
	check(t, err)
	waiting := w.waitForParked(1)
	w.blocked.Store(true)
	w.decideCall(waiting[0], false, "")
	viewer := converse.Viewer{AgentID: w.agent.ID, PrincipalID: somebody}
	eventually.Holds(t, "the run ends", func() bool {
		list, err := w.converse.Entries(t.Context(), viewer, c.ID, 0, 100)
		check(t, err)
		last := list[len(list)-1]
		return last.Notice != nil && last.Notice.Code == converse.CodeBlocked
	})
	if n := w.mind.countRequests(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	w.blocked.Store(false)
	_, err = w.converse.Say(t.Context(), viewer, c.ID, "Again.")
	check(t, err)
	eventually.Holds(t, "it goes on", func() bool { return w.mind.countRequests() == 2 })
}

func TestWaitingMessagesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`))
	id := w.beginConversation("Write.")
	w.waitForParked(1)
	for range converse.MaxWaiting {
		w.sendMessage(id, "More.")
	}
	var invalid *fault.InvalidError
	if _, err := w.converse.Say(t.Context(), w.newViewer(), id, "Too much."); !errors.As(err, &invalid) || invalid.Fields[0].Name != "message" {
		t.Errorf("one more: %v", err)
	}
}

// A repeated form returns the conversation that it began, until that has ended.
func TestBeginOncePerKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerText("Here."))
	o := converse.Opening{Agent: w.agent, Message: "Hello.", Key: "of a form"}
	first, err := w.converse.Begin(t.Context(), o)
	check(t, err)
	again, err := w.converse.Begin(t.Context(), o)
	check(t, err)
	latest, err := w.converse.Latest(t.Context(), w.newViewer())
	check(t, err)
	if again.ID != first.ID || latest.ID != first.ID {
		t.Errorf("it began %s, led to %s then, and the latest is %s", first.ID, again.ID, latest.ID)
	}
	check(t, w.converse.End(t.Context(), w.newViewer(), audit.Agent(w.agent.ID), first.ID))
	if other, err := w.converse.Begin(t.Context(), o); err != nil || other.ID == first.ID {
		t.Errorf("after it ended: %s, %v", other.ID, err)
	}
}
