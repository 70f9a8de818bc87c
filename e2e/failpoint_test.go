package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/failpoint"
)

// expectation is how a gated call ends if its process is killed at a failpoint, and how often it reaches the skill
// server.
type expectation struct {
	status   string
	arrivals int
}

// expectations returns the expectations by failpoint. TestKilledWhileExpiring covers the expiry.
func expectations() map[string]expectation {
	once := expectation{"succeeded", 1}
	return map[string]expectation{
		failpoint.SubmitBeforeCommit: once,
		failpoint.SubmitAfterCommit:  once,
		failpoint.DecideBeforeCommit: once,
		failpoint.DecideAfterCommit:  once,
		failpoint.ExecuteBeforeClaim: once,
		failpoint.ClaimBeforeCommit:  once,
		failpoint.ClaimAfterCommit:   {"unknown", 0}, // claimed, so it may have been sent
		failpoint.FinishBeforeCommit: {"unknown", 1},
		failpoint.FinishAfterCommit:  once,
		failpoint.DeliverBefore:      once,
	}
}

func expiryFailpoints() []string {
	return []string{failpoint.ExpireBeforeCommit, failpoint.ExpireAfterCommit}
}

func TestEveryFailpointIsTested(t *testing.T) {
	t.Parallel()
	for _, name := range failpoint.All() {
		if _, ok := expectations()[name]; !ok && !slices.Contains(expiryFailpoints(), name) {
			t.Errorf("failpoint %s has no test here", name)
		}
	}
}

// TestKilledAndRestarted kills the only process at each failpoint and restarts it.
func TestKilledAndRestarted(t *testing.T) {
	t.Parallel()
	for name, want := range expectations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			counting := skill.NewCounting(t)
			armed := w.serveArmed(name)
			w.applyManifest(armed, oneSkill(counting.URL, ""))
			agent := newStubborn(w.newAgent(armed, "worker"), armed)
			done := agent.beginCall(t.Context(), "counting__record", `{"n":1}`)
			decided := approveUntilDecided(t, "1", agent)
			armed.AwaitKilled(t)
			agent.addServer(w.startServer())
			if err := <-decided; err != nil {
				t.Fatal(err)
			}
			got := <-done
			if name == failpoint.DeliverBefore {
				got = askAgain(t, agent, got)
			}
			wantEnd(t, agent, got, claimedMeanwhile(name, got, want, counting), counting)
		})
	}
}

// claimedMeanwhile: after a decision is committed, the call's job may run before the process dies. The call is then
// claimed and may have been sent.
func claimedMeanwhile(name string, got outcome, want expectation, counting *skill.Counting) expectation {
	if name == failpoint.DecideAfterCommit && got.err == nil && got.answer.Call().Status == "unknown" {
		return expectation{"unknown", min(counting.Count("1"), 1)}
	}
	return want
}

// askAgain repeats a call whose process died after the agent got the outcome and before that was recorded. The repeat
// gets the same outcome without another execution.
func askAgain(t *testing.T, agent *stubborn, first outcome) outcome {
	t.Helper()
	second := <-agent.beginCall(t.Context(), "counting__record", `{"n":1}`)
	if second.err != nil || !second.answer.Call().Attached || second.answer.Text() != first.answer.Text() {
		t.Errorf("first the agent was told %s (%v), then %s (%v)", first.answer.Raw, first.err, second.answer.Raw, second.err)
	}
	return second
}

// TestKilledBesideAnother kills one process while a second one runs.
func TestKilledBesideAnother(t *testing.T) {
	t.Parallel()
	for name, want := range expectations() {
		if name == failpoint.DeliverBefore {
			continue // nothing is left to do for the other
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			counting := skill.NewCounting(t)
			armed, other := w.serveArmed(name), w.startServer()
			w.applyManifest(other, oneSkill(counting.URL, ""))
			key := w.newAgent(other, "worker")
			// The other process is stopped until the armed one is dead, so that it does not take the work.
			other.Signal(t, syscall.SIGSTOP)
			agent := newStubborn(key, armed)
			done := agent.beginCall(t.Context(), "counting__record", `{"n":1}`)
			decided := approveUntilDecided(t, "1", agent)
			armed.AwaitKilled(t)
			other.Signal(t, syscall.SIGCONT)
			agent.addServer(other)
			if err := <-decided; err != nil {
				t.Fatal(err)
			}
			got := <-done
			wantEnd(t, agent, got, claimedMeanwhile(name, got, want, counting), counting)
		})
	}
}

// TestStoppedBetweenClaimAndSend: a process is stopped after its claim. Another one reports the outcome as unknown, and
// an operator resolves the call as failed. The first process then resumes and sends nothing.
func TestStoppedBetweenClaimAndSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	o := w.serverOptions()
	o.StopAt = failpoint.ClaimAfterCommit
	armed, other := program.Serve(t, o), w.startServer()
	w.applyManifest(other, oneSkill(counting.URL, ""))
	worker := w.newAgent(other, "worker")
	worker.URL = armed.URL
	other.Signal(t, syscall.SIGSTOP) // so that it does not take the work
	ctx, cancel := context.WithCancel(t.Context())
	var asked sync.WaitGroup
	asked.Go(func() { _, _ = worker.CallTool(ctx, "counting__record", `{"n":1}`) })
	shown, err := pendingFor(t.Context(), "1", armed)
	if err != nil {
		t.Fatal(err)
	}
	asked.Go(func() { _ = operatorAPI(armed).Approve(ctx, shown) }) // its response may be stopped too
	armed.AwaitStopped(t)
	cancel()
	asked.Wait()
	other.Signal(t, syscall.SIGCONT)
	eventually.Succeeds(t, 2*patience, "the call is unknown", func() error {
		call, err := operatorAPI(other).Call(t.Context(), shown.ID)
		if err == nil && call.Status != "unknown" {
			err = fmt.Errorf("the call is %s", call.Status)
		}
		return err
	})
	if err := operatorAPI(other).Resolve(t.Context(), shown.ID, "failed", "it is not there"); err != nil {
		t.Fatal(err)
	}
	armed.Signal(t, syscall.SIGCONT)
	eventually.Succeeds(t, 2*patience, "the first process reports that it sent nothing", func() error {
		call, err := operatorAPI(other).Call(t.Context(), shown.ID)
		if err == nil && call.Late == nil {
			err = errors.New("nothing was reported")
		}
		return err
	})
	if n := counting.Count("1"); n != 0 {
		t.Errorf("the call arrived %d times", n)
	}
}

// TestAutoApprovedKilled: the idempotency key of an auto-approved call identifies its repeat. The claim is recorded
// before the call is sent.
func TestAutoApprovedKilled(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]expectation{
		failpoint.SubmitBeforeCommit: {"succeeded", 1},
		failpoint.SubmitAfterCommit:  {"unknown", 0},
		failpoint.FinishBeforeCommit: {"unknown", 1},
		failpoint.FinishAfterCommit:  {"succeeded", 1},
		failpoint.DeliverBefore:      {"succeeded", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			counting := skill.NewCounting(t)
			armed := w.serveArmed(name)
			w.applyManifest(armed, oneSkill(counting.URL, "auto_approve: true\n"))
			agent := newStubborn(w.newAgent(armed, "worker"), armed)
			agent.meta = `{"dev.holdpoint/idempotency_key":"one"}`
			done := agent.beginCall(t.Context(), "counting__record", `{"n":1}`)
			armed.AwaitKilled(t)
			agent.addServer(w.startServer())
			got := <-done
			if name == failpoint.DeliverBefore {
				got = askAgain(t, agent, got)
			}
			wantEnd(t, agent, got, want, counting)
		})
	}
}

// approveUntilDecided repeats a reviewer's decision until it is confirmed.
func approveUntilDecided(t *testing.T, n string, servers *stubborn) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- eventually.Poll(t.Context(), 2*patience, func() error { return approveOnce(t, n, servers) })
	}()
	return done
}

func approveOnce(t *testing.T, n string, servers *stubborn) error {
	p, ok := servers.nextServer(0)
	if !ok {
		return errNobodyAnswers
	}
	list, err := holdpoint.List[holdpoint.Approval](t.Context(), operatorAPI(p), "approvals", "")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(a holdpoint.Approval) bool { return argumentN(a.Arguments) == n })
	switch {
	case i < 0:
		return fmt.Errorf("there is no approval for n = %s", n)
	case list[i].Status == "approved":
		return nil
	}
	return operatorAPI(p).Approve(t.Context(), list[i])
}

// wantEnd checks the end of a call for its agent, in the API, and at the skill server.
func wantEnd(t *testing.T, agent *stubborn, got outcome, want expectation, counting *skill.Counting) {
	t.Helper()
	if got.err != nil {
		t.Fatal(got.err)
	}
	p, ok := agent.nextServer(0)
	if !ok {
		t.Fatal(errNobodyAnswers)
	}
	call := onlyCall(t, operatorAPI(p))
	if call.Status != want.status {
		t.Errorf("the call is %s (%s), want %s", call.Status, call.Message, want.status)
	}
	if n := counting.Count("1"); n != want.arrivals {
		t.Errorf("it arrived %d times, want %d", n, want.arrivals)
	}
	if want.status == "unknown" {
		wantUnknown(t, operatorAPI(p), call, got.answer)
		return
	}
	if got.answer.Result.IsError || got.answer.Text() != "recorded 1" {
		t.Errorf("the agent was told %s", got.answer.Raw)
	}
}

// onlyCall returns the only call.
func onlyCall(t *testing.T, api holdpoint.API) holdpoint.Call {
	t.Helper()
	calls, err := holdpoint.List[holdpoint.Call](t.Context(), api, "calls", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 1 {
		t.Fatalf("there are %d calls, want 1: %+v", len(calls), calls)
	}
	return calls[0]
}

// wantUnknown checks that a call's outcome is unknown, and resolves it.
func wantUnknown(t *testing.T, api holdpoint.API, call holdpoint.Call, answer holdpoint.Answer) {
	t.Helper()
	if meta := answer.Call(); !answer.Result.IsError || meta.Code != "outcome_unknown" || meta.Effect != "possible" {
		t.Errorf("the agent was told %s, want an error outcome_unknown with effect possible", answer.Raw)
	}
	if call.Code != "outcome_unknown" || call.Effect != "possible" {
		t.Errorf("the call has code %q and effect %q", call.Code, call.Effect)
	}
	if err := api.Resolve(t.Context(), call.ID, "failed", "looked at the server"); err != nil {
		t.Errorf("resolve: %v", err)
	}
	found, err := api.Call(t.Context(), call.ID)
	if err != nil || found.Resolution == nil || found.Resolution.Outcome != "failed" || found.Status != "unknown" {
		t.Errorf("after resolving: %+v, %v", found, err)
	}
	wantProblem(t, api.Resolve(t.Context(), call.ID, "succeeded", ""), 409, "state_conflict")
}

// TestKilledWhileExpiring kills a process while it expires an approval.
func TestKilledWhileExpiring(t *testing.T) {
	t.Parallel()
	for _, name := range expiryFailpoints() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			counting := skill.NewCounting(t)
			armed := w.serveArmed(name)
			w.applyManifest(armed, oneSkill(counting.URL, "approval_timeout: 20s\n"))
			agent := newStubborn(w.newAgent(armed, "worker"), armed)
			done := agent.beginCall(t.Context(), "counting__record", `{"n":1}`)
			shown, err := pendingFor(t.Context(), "1", armed)
			if err != nil {
				t.Fatal(err)
			}
			armed.AwaitKilled(t)
			again := w.startServer()
			agent.addServer(again)
			got := <-done
			if got.err != nil || got.answer.Call().Code != "expired" {
				t.Errorf("the agent was told %s, %v", got.answer.Raw, got.err)
			}
			if p := wantProblem(t, operatorAPI(again).Approve(t.Context(), shown), 409, "expired"); p.ApprovalStatus != "expired" {
				t.Errorf("a late decision was told %+v", p)
			}
			if call := onlyCall(t, operatorAPI(again)); call.Status != "expired" || counting.Count("1") != 0 {
				t.Errorf("the call is %s and arrived %d times", call.Status, counting.Count("1"))
			}
		})
	}
}
