package call_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// connectSkill stores a connection, as package oauthclient does.
func (w *world) connectSkill(skill string) {
	w.t.Helper()
	found, err := w.agents.SkillByName(w.t.Context(), skill)
	check(w.t, err)
	w.source.Require(nil)
	check(w.t, postgres.InTx(w.t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		return w.calls.ResumeConnected(w.t.Context(), tx, found.ID)
	}))
}

// waitForStatus waits until a call has the status.
func (w *world) waitForStatus(id uuid.UUID, status call.Status) call.Call {
	w.t.Helper()
	var c call.Call
	eventually.Succeeds(w.t, patience, "a call is "+string(status), func() error {
		var err error
		if c, err = w.calls.Get(w.t.Context(), call.Viewer{}, id); err == nil && c.Status != status {
			err = fmt.Errorf("it is %s (%s)", c.Status, c.Message)
		}
		return err
	})
	return c
}

// refuseOnce makes the server refuse the first call because the skill is not connected.
func (w *world) refuseOnce() {
	first := true
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		w.source.Lock()
		defer w.source.Unlock()
		if first {
			first = false
			w.source.Missing = &tool.Connect{Reason: "connect again"}
			return tool.Result{}, &tool.Failure{
				Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: "not connected", Connect: w.source.Missing,
			}
		}
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	})
}

func TestGatedCallWaitsForConnectionThenForReviewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Require(notConnected)
	ticket := w.submit("files__write", `{"n":1}`)
	if ticket.Status != call.NeedsConnection || ticket.Deadline.IsZero() {
		t.Fatalf("ticket %+v, want a call that waits for a connection, with a deadline", ticket)
	}
	if _, err := w.calls.GetApproval(t.Context(), ticket.ID); !errors.Is(err, approval.ErrNotFound) {
		t.Fatalf("there is an approval before the connection: %v", err)
	}
	waiting, err := w.calls.ListUnconnected(t.Context(), uuid.Nil, 0)
	check(t, err)
	if len(waiting) != 1 || waiting[0].Call.ID != ticket.ID || waiting[0].Reason != "the skill is not connected yet" {
		t.Fatalf("unconnected calls: %+v", waiting)
	}
	wantDeadline := func(status call.Status, want time.Time) {
		t.Helper()
		if got, err := w.calls.WaitDeadline(t.Context(), call.Viewer{}, ticket.ID, status); err != nil || !got.Equal(want) {
			t.Errorf("%s until %s, %v, want %s", status, got, err, want)
		}
	}
	wantDeadline(call.NeedsConnection, ticket.Deadline)
	wantDeadline(call.Parked, time.Time{})
	w.connectSkill("files")
	w.waitForStatus(ticket.ID, call.Parked)
	asked, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	wantDeadline(call.Parked, asked.Approval.Deadline)
	wantDeadline(call.NeedsConnection, time.Time{})
	check(t, w.decide(ticket.ID, true))
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded || len(w.source.Arguments()) != 1 {
		t.Fatalf("call ended as %s, sent %d times", c.Status, len(w.source.Arguments()))
	}
	want := "call.needs_connection call.connected approval.approved call.executing call.succeeded"
	if got := w.db.Actions(ticket.ID); got != want {
		t.Errorf("audit: %s, want %s", got, want)
	}
}

func TestAutoApprovedCallGoesOnWhenConnected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Require(notConnected)
	ticket := w.submit("open__echo", `{}`)
	again := w.submit("open__echo", `{}`)
	if !again.Attached || again.ID != ticket.ID {
		t.Fatalf("a repeat did not attach: %+v", again)
	}
	if len(w.source.Arguments()) != 0 {
		t.Fatal("the call was sent without a connection")
	}
	w.connectSkill("open")
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded || len(w.source.Arguments()) != 1 {
		t.Fatalf("call ended as %s (%s), sent %d times", c.Status, c.Message, len(w.source.Arguments()))
	}
}

// TestRefusedAtSending: the server asks for a connection when the call arrives. The call resumes once the skill is connected,
// without a second approval.
func TestRefusedAtSending(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"open__echo", "files__write"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.refuseOnce()
			ticket := w.submit(name, `{"n":1}`)
			if ticket.Gated {
				check(t, w.decide(ticket.ID, true))
			}
			if c := w.waitForStatus(ticket.ID, call.NeedsConnection); c.Message != "connect again" {
				t.Errorf("message %q", c.Message)
			}
			skill, _, _ := strings.Cut(name, "__")
			w.connectSkill(skill)
			if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded || len(w.source.Arguments()) != 2 {
				t.Fatalf("call ended as %s (%s), sent %d times", c.Status, c.Message, len(w.source.Arguments()))
			}
		})
	}
}

// TestRefusedAtTheCheckBeforeSending: the tool's definition cannot be verified without a connection.
func TestRefusedAtTheCheckBeforeSending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	found, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	w.discovery.ListChanged(found.ID)
	w.source.Failure = &tool.Failure{Kind: tool.TransportFailure, Message: "not connected", Connect: &tool.Connect{Reason: "connect again"}}
	w.source.Require(notConnected)
	check(t, w.decide(ticket.ID, true))
	w.waitForStatus(ticket.ID, call.NeedsConnection)
	w.source.Failure = nil
	w.discovery.ListChanged(found.ID)
	w.connectSkill("files")
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded || len(w.source.Arguments()) != 1 {
		t.Fatalf("call ended as %s (%s), sent %d times", c.Status, c.Message, len(w.source.Arguments()))
	}
}

func TestWaitForConnectionExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Require(notConnected)
	ticket := w.submit("files__write", `{"n":1}`)
	w.db.MoveClock("2 minutes")
	if c := w.waitForEnd(ticket.ID); c.Status != call.Expired || c.Code != call.CodeExpired || c.Effect != tool.EffectNone {
		t.Fatalf("call ended as %s, %s", c.Status, c.Code)
	}
	w.connectSkill("files")
	w.submit("open__echo", `{}`) // time for the job
	if n := len(w.source.Arguments()); n > 1 {
		t.Fatalf("the expired call was sent: %d arrivals", n)
	}
	if c := w.waitForStatus(ticket.ID, call.Expired); c.Status != call.Expired {
		t.Fatalf("the late connection made the call %s", c.Status)
	}
}

// TestWaitForConnectionHasOneDeadline: repeated refusals do not extend the deadline.
func TestWaitForConnectionHasOneDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseOnce()
	ticket := w.submit("open__echo", `{}`)
	w.waitForStatus(ticket.ID, call.NeedsConnection)
	w.refuseOnce()
	w.db.MoveClock("6 minutes") // the default deadline of skill open is 5 minutes
	if c := w.waitForEnd(ticket.ID); c.Status != call.Expired {
		t.Fatalf("call is %s", c.Status)
	}
}

func TestCancelWhileWaitingForConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Require(notConnected)
	ticket := w.submit("files__write", `{"n":1}`)
	c, err := w.calls.Cancel(t.Context(), call.Viewer{AgentID: w.agent.ID}, uuid.Nil, ticket.ID)
	check(t, err)
	if c.Status != call.Cancelled || c.Code != call.CodeCancelled {
		t.Fatalf("call is %s, %s", c.Status, c.Code)
	}
	if _, err := w.calls.Cancel(t.Context(), call.Viewer{AgentID: w.agent.ID}, uuid.Nil, ticket.ID); !errors.Is(err, call.ErrState) {
		t.Fatalf("a second cancel: %v", err)
	}
}

// TestManyConnectAtOnce: each call resumes once, even if the connection is announced many times.
func TestManyConnectAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Require(notConnected)
	var tickets []call.Ticket
	for i := range 10 {
		tickets = append(tickets, w.submit("open__echo", `{"i":`+string(rune('0'+i))+`}`))
	}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { w.connectSkill("open") })
	}
	all.Wait()
	for _, ticket := range tickets {
		if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
			t.Errorf("call ended as %s: %s", c.Status, c.Message)
		}
	}
	if n := len(w.source.Arguments()); n != len(tickets) {
		t.Errorf("%d calls arrived, want %d", n, len(tickets))
	}
}

func TestPerUserWithoutPrincipal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.newSubmission("open__echo", `{}`)
	_, err := w.agents.Apply(t.Context(), audit.System(), agent.Spec{Skills: []agent.SkillSpec{
		{Name: "open", Transport: tool.HTTP, URL: "http://127.0.0.1:1/open", AutoApprove: true, Connection: "per_user"},
	}}, false)
	check(t, err)
	ticket, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	c := w.waitForEnd(ticket.ID)
	if c.Status != call.Denied || c.Code != call.CodeNoPrincipal || len(w.source.Arguments()) != 0 {
		t.Fatalf("call ended as %s, %s", c.Status, c.Code)
	}
}

// TestMissingScopeHoldsBackWhoNeedsIt: a scope that only one tool needs does not hold back calls of other tools.
func TestMissingScopeHoldsBackWhoNeedsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	refused := map[string]bool{}
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		arguments := string(r.Arguments)
		if refused[arguments] {
			return tool.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
		}
		refused[arguments] = true
		return tool.Result{}, &tool.Failure{
			Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: "not connected",
			Connect: &tool.Connect{Reason: "connect", Partial: strings.Contains(arguments, "scope")},
		}
	})
	more, other := w.submit("open__echo", `{"needs":"scope"}`), w.submit("open__echo", `{}`)
	w.waitForStatus(more.ID, call.NeedsConnection)
	w.waitForStatus(other.ID, call.NeedsConnection)
	w.source.Require(&tool.Connect{Reason: "more scope", Partial: true})
	// No connection was announced: the periodic check resumes the call.
	if c := w.waitForEnd(other.ID); c.Status != call.Succeeded {
		t.Fatalf("the other call ended as %s: %s", c.Status, c.Message)
	}
	w.waitForStatus(more.ID, call.NeedsConnection)
	w.connectSkill("open")
	if c := w.waitForEnd(more.ID); c.Status != call.Succeeded || len(w.source.Arguments()) != 4 {
		t.Fatalf("call ended as %s, %d arrivals", c.Status, len(w.source.Arguments()))
	}
}
