package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// clientWorld is one server that all clients share. Each call has its own number.
type clientWorld struct {
	*holdpoint.Process
	counting *skill.Counting
	agent    holdpoint.Agent // its responses are held open for 6 minutes
	hasty    holdpoint.Agent // its responses are held open for a configured time
	last     atomic.Int64
}

const clientSkills = `skills:
  - {name: counting, transport: http, url: %[1]s, approval_timeout: 30m}
  - {name: open, transport: http, url: %[1]s, auto_approve: true}
  - {name: brief, transport: http, url: %[1]s, approval_timeout: 2s}
agents:
  - {name: worker, wait_budget: 6m, skills: [counting, open, brief]}
  - {name: hasty, wait_budget: %[2]s, skills: [counting]}
`

func newClientWorld(t *testing.T, hasty string) *clientWorld {
	t.Helper()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	p := w.startServer()
	w.applyManifest(p, fmt.Sprintf(clientSkills, counting.URL, hasty))
	return &clientWorld{Process: p, counting: counting, agent: w.newAgent(p, "worker"), hasty: w.newAgent(p, "hasty")}
}

// nextNumber returns a number that no other call has.
func (w *clientWorld) nextNumber() int { return int(w.last.Add(1)) }

// decideCall waits for the approval of call n and decides it.
func (w *clientWorld) decideCall(t *testing.T, n int, decide decision) holdpoint.Approval {
	t.Helper()
	shown, err := w.tryDecide(t.Context(), n, decide)
	if err != nil {
		t.Fatalf("decide about call %d: %v", n, err)
	}
	return shown
}

type decision func(context.Context, holdpoint.Approval) error

// tryDecide is decideCall for goroutines, which must not fail the test.
func (w *clientWorld) tryDecide(ctx context.Context, n int, decide decision) (holdpoint.Approval, error) {
	shown, err := pendingFor(ctx, strconv.Itoa(n), w.Process)
	if err == nil {
		err = decide(ctx, shown)
	}
	return shown, err
}

func (w *clientWorld) approveCall(t *testing.T, n int) holdpoint.Approval {
	t.Helper()
	return w.decideCall(t, n, operatorAPI(w.Process).Approve)
}

// wantCount checks how often call n was executed.
func (w *clientWorld) wantCount(t *testing.T, n, want int) {
	t.Helper()
	if got := w.counting.Count(strconv.Itoa(n)); got != want {
		t.Errorf("call %d was executed %d times, want %d", n, got, want)
	}
}

// beginCall makes a call in the background.
func beginCall(t *testing.T, c mcpClient, tool string, n int) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		raw, err := c.callTool(t.Context(), tool, n)
		if err != nil {
			done <- outcome{err: err}
			return
		}
		answer, err := parseResult(raw)
		done <- outcome{answer, err}
	}()
	return done
}

// wantRecorded checks that a call returned the result of its execution.
func wantRecorded(t *testing.T, got outcome, n int) {
	t.Helper()
	if err := got.checkRecorded(n); err != nil {
		t.Fatal(err)
	}
}

var errNotRecorded = errors.New("this is not the result of its execution")

// checkRecorded returns nil if o is the result of call n's execution.
func (o outcome) checkRecorded(n int) error {
	if o.err != nil || o.answer.Result.IsError || o.answer.Text() != recordedText(n) {
		return fmt.Errorf("call %d came out as %s: %w", n, o.answer.Raw, cmp.Or(o.err, errNotRecorded))
	}
	return nil
}

// wantSaid checks that a call returned an error result with these words for the model.
func wantSaid(t *testing.T, got outcome, code string, words ...string) {
	t.Helper()
	if got.err != nil || !got.answer.Result.IsError || got.answer.Call().Code != code {
		t.Fatalf("the call came out as %s, %v; want the code %s", got.answer.Raw, got.err, code)
	}
	for _, word := range words {
		if !strings.Contains(got.answer.Text(), word) {
			t.Errorf("the model is told %q, want %q in it", got.answer.Text(), word)
		}
	}
}

// clientCase is a case that each client must pass: at most one execution, and always the outcome.
type clientCase struct {
	name string
	run  func(t *testing.T, w *clientWorld, kind clientKind, c mcpClient)
}

var clientCases = []clientCase{
	{"list", func(t *testing.T, _ *clientWorld, _ clientKind, c mcpClient) {
		names, err := c.listTools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mustContain(t, names, "counting__record", "open__record", "brief__record", "holdpoint_await")
	}},
	{"auto-approved", func(t *testing.T, w *clientWorld, _ clientKind, c mcpClient) {
		n := w.nextNumber()
		wantRecorded(t, <-beginCall(t, c, "open__record", n), n)
		w.wantCount(t, n, 1)
	}},
	{"approved", func(t *testing.T, w *clientWorld, _ clientKind, c mcpClient) {
		n := w.nextNumber()
		done := beginCall(t, c, "counting__record", n)
		w.approveCall(t, n)
		wantRecorded(t, <-done, n)
		w.wantCount(t, n, 1)
	}},
	{"rejected", func(t *testing.T, w *clientWorld, _ clientKind, c mcpClient) {
		n := w.nextNumber()
		done := beginCall(t, c, "counting__record", n)
		w.decideCall(t, n, func(ctx context.Context, shown holdpoint.Approval) error {
			return operatorAPI(w.Process).Reject(ctx, shown, "not on a Sunday")
		})
		wantSaid(t, <-done, "rejected", "rejected by a reviewer", "not on a Sunday")
		w.wantCount(t, n, 0)
	}},
	{"expired", func(t *testing.T, w *clientWorld, _ clientKind, c mcpClient) {
		n := w.nextNumber()
		wantSaid(t, <-beginCall(t, c, "brief__record", n), "expired", "was not executed")
		w.wantCount(t, n, 0)
	}},
	{"left before the decision", func(t *testing.T, w *clientWorld, kind clientKind, c mcpClient) {
		n := w.nextNumber()
		w.callAndLeave(t, kind, n)
		done := beginCall(t, c, "counting__record", n)
		w.approveCall(t, n)
		wantRecorded(t, <-done, n)
		w.wantCount(t, n, 1)
	}},
	{"left until the end", func(t *testing.T, w *clientWorld, kind clientKind, c mcpClient) {
		n := w.nextNumber()
		w.callAndLeave(t, kind, n)
		shown := w.approveCall(t, n)
		awaitCall(t, operatorAPI(w.Process), shown.CallID, hasStatus("succeeded"))
		got := <-beginCall(t, c, "counting__record", n)
		wantRecorded(t, got, n)
		if !got.answer.Call().Attached {
			t.Errorf("the result does not say that it is of a call made before: %s", got.answer.Raw)
		}
		w.wantCount(t, n, 1)
	}},
}

// callAndLeave makes call n with another client, in its own session if it has one, and kills the client.
func (w *clientWorld) callAndLeave(t *testing.T, kind clientKind, n int) {
	t.Helper()
	c := kind.make(t, w.agent)
	left := beginCall(t, c, "counting__record", n)
	if _, err := pendingFor(t.Context(), strconv.Itoa(n), w.Process); err != nil {
		t.Fatal(err)
	}
	c.dropClient()
	if got := <-left; got.err == nil {
		t.Fatalf("a client that was dropped got %s", got.answer.Raw)
	}
}

// TestClients runs all cases with all clients.
func TestClients(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, "50s")
	for _, kind := range clientKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			c := kind.make(t, w.agent)
			for _, tc := range clientCases {
				t.Run(tc.name, func(t *testing.T) { tc.run(t, w, kind, c) })
			}
		})
	}
}

// TestClientsOwnTimer: a client that times out and says so cancels nothing. The same call in the same session gets the
// outcome.
func TestClientsOwnTimer(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, "50s")
	for _, kind := range clientKinds {
		if !kind.timer {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			n := w.nextNumber()
			c := kind.make(t, w.agent).(*sdkClient)
			c.timeout = 2 * time.Second
			for range 2 {
				if got := <-beginCall(t, c, "counting__record", n); got.err == nil || !strings.Contains(got.err.Error(), "timed out") {
					t.Fatalf("a call that waits came out as %s, %v; want the client's time-out", got.answer.Raw, got.err)
				}
			}
			shown := w.approveCall(t, n)
			awaitCall(t, operatorAPI(w.Process), shown.CallID, hasStatus("succeeded"))
			c.timeout = time.Minute
			wantRecorded(t, <-beginCall(t, c, "counting__record", n), n)
			w.wantCount(t, n, 1)
		})
	}
}

// TestClientsWaitLong approves after 70 s, with the clients' default limits. A client that would time out learns before
// that the call waits, and gets the outcome with the same call. Clients that progress keeps alive, or without a limit,
// get it at once. All wait in parallel.
func TestClientsWaitLong(t *testing.T) {
	t.Parallel()
	decided, budget := 70*time.Second, "50s" // default
	if testing.Short() {
		decided, budget = 6*time.Second, "4s"
	}
	w := newClientWorld(t, budget)
	type waiter struct {
		name  string
		make  func(*testing.T, holdpoint.Agent) mcpClient
		hasty bool
		reset bool
	}
	var all sync.WaitGroup
	for _, c := range []waiter{
		{"typescript 1.x", newTypeScriptClient("1"), true, false},
		{"typescript 2.x of 2026-07-28", newTypeScriptClient("2-modern"), true, false},
		{"typescript 1.x through connect", throughConnect("1"), true, false},
		{"go with sessions", goSDK("2025-11-25"), true, false},
		{"curl", newCurl, true, false},
		{"inspector", newInspector, true, false},
		{"typescript 1.x that progress keeps", newTypeScriptClient("1"), false, true},
		{"typescript 2.x that progress keeps", newTypeScriptClient("2"), false, true},
		{"typescript 2.x of 2026-07-28 that progress keeps", newTypeScriptClient("2-modern"), false, true},
		{"typescript 1.x through connect that progress keeps", throughConnect("1"), false, true},
		{"go of 2026-07-28 without a limit", goSDK("2026-07-28"), false, false},
		{"curl without a limit", newCurl, false, false},
	} {
		agent, n := w.agent, w.nextNumber()
		if c.hasty {
			agent = w.hasty
		}
		client := c.make(t, agent)
		if sdk, ok := client.(*sdkClient); ok {
			sdk.reset = c.reset
		}
		all.Go(func() {
			if err := w.waitLong(t, client, n, decided, c.hasty); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	all.Wait()
}

var errNotExpected = errors.New("this was not expected")

// waitLong makes a call that is approved after a while, and repeats it while the answer is that it waits.
func (w *clientWorld) waitLong(t *testing.T, c mcpClient, n int, decided time.Duration, toldFirst bool) error {
	done := beginCall(t, c, "counting__record", n)
	if _, err := pendingFor(t.Context(), strconv.Itoa(n), w.Process); err != nil {
		return err
	}
	reviewed := make(chan error, 1)
	go func() {
		_ = pause.For(t.Context(), decided)
		_, err := w.tryDecide(t.Context(), n, operatorAPI(w.Process).Approve)
		reviewed <- err
	}()
	got := <-done
	if told := got.answer.Pending(); told != toldFirst {
		return fmt.Errorf("at first it was told %s: %w", got.answer.Raw, cmp.Or(got.err, errNotExpected))
	}
	if text := got.answer.Text(); toldFirst && (!strings.Contains(text, "not executed yet") || !strings.Contains(text, "holdpoint_await")) {
		return fmt.Errorf("the model is told %q", text)
	}
	for got.answer.Pending() { // the call may be executing at this moment
		got = <-beginCall(t, c, "counting__record", n)
	}
	w.wantCount(t, n, 1)
	return errors.Join(got.checkRecorded(n), <-reviewed)
}
