package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgrestest/replica"
)

// failoverCalls returns the number of calls of the drill: HOLDPOINT_FAILOVER_CALLS or 100.
func failoverCalls(t *testing.T) int {
	t.Helper()
	text := os.Getenv("HOLDPOINT_FAILOVER_CALLS")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 10 {
		t.Fatalf("HOLDPOINT_FAILOVER_CALLS=%q: want a number, at least 10", text)
	}
	return n
}

// TestFailoverThatLosesCommits: a standby without the last commits is promoted. Calls that were sent in the gap are not sent again: not
// by a repeat of the call, with or without an idempotency key, and not by an approval that the database lost.
func TestFailoverThatLosesCommits(t *testing.T) {
	t.Parallel()
	pair := replica.Start(t, false)
	w := &world{t: t, databaseURL: pair.URL(), dataDir: passableDir(t)}
	counting := skill.NewCounting(t)
	servers := [2]*holdpoint.Process{w.startServer(), w.startServer()}
	w.applyManifest(servers[0], fmt.Sprintf(`skills:
  - {name: counting, transport: http, url: %q, approval_timeout: 1h}
  - {name: open, transport: http, url: %q, auto_approve: true}
agents:
  - {name: worker, wait_budget: 20s, skills: [counting, open]}
`, counting.URL, counting.URL))
	agent := w.newAgent(servers[0], "worker")
	made := []struct{ tool, key string }{
		{"counting__record", ""}, // parked before the gap
		{"counting__record", ""},
		{"counting__record", "three"},
		{"open__record", "four"},
	}
	at := func(server, n int) *stubborn {
		s := newStubborn(agent, servers[server])
		if key := made[n].key; key != "" {
			s.meta = fmt.Sprintf(`{"dev.holdpoint/idempotency_key":%q}`, key)
		}
		return s
	}
	arguments := func(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }
	park := func(n int) holdpoint.Approval {
		if err := agent.CallAndLeave(t.Context(), made[n].tool, arguments(n)); err != nil {
			t.Fatal(err)
		}
		shown, err := pendingFor(t.Context(), strconv.Itoa(n), servers[0])
		if err != nil {
			t.Fatal(err)
		}
		return shown
	}
	approve := func(shown holdpoint.Approval) {
		if err := operatorAPI(servers[0]).Approve(t.Context(), shown); err != nil {
			t.Fatal(err)
		}
	}
	parked := park(0)
	pair.Disconnect()
	approve(parked)
	approve(park(1))
	keyed := at(0, 2).beginCall(t.Context(), made[2].tool, arguments(2))
	shown, err := pendingFor(t.Context(), "2", servers[0])
	if err != nil {
		t.Fatal(err)
	}
	approve(shown)
	if got := <-keyed; got.err != nil || got.answer.Text() != "recorded 2" {
		t.Fatalf("told %s, %v", got.answer.Raw, got.err)
	}
	if answer, err := at(0, 3).callTool(t.Context(), made[3].tool, arguments(3)); err != nil || answer.Text() != "recorded 3" {
		t.Fatalf("told %s, %v", answer.Raw, err)
	}
	for n := range made {
		awaitArrival(t, counting.Ledger, strconv.Itoa(n))
	}
	pair.FailOver()

	for n := range made { // at the process that did not send them
		answer, err := at(1, n).callTool(t.Context(), made[n].tool, arguments(n))
		if err != nil || answer.Call().Code != "outcome_unknown" || !strings.Contains(answer.Text(), "lost its last commits") {
			t.Errorf("the repeat of call %d was told %s, %v", n, answer.Raw, err)
		}
	}
	calls, err := holdpoint.List[holdpoint.Call](t.Context(), operatorAPI(servers[1]), "calls", "status=unknown")
	if err != nil || len(calls) != len(made) {
		t.Errorf("%d calls are unknown, want %d: %v", len(calls), len(made), err)
	}
	later := newStubborn(agent, servers[1]).beginCall(t.Context(), "counting__record", `{"n":100}`)
	shown, err = pendingFor(t.Context(), "100", servers[1])
	if err != nil {
		t.Fatal(err)
	}
	if pending, err := holdpoint.List[holdpoint.Approval](t.Context(), operatorAPI(servers[1]), "approvals", "status=pending"); err != nil || len(pending) != 1 {
		t.Errorf("%d calls wait for a decision, want one: %v", len(pending), err)
	}
	approve(shown)
	if got := <-later; got.err != nil || got.answer.Text() != "recorded 100" {
		t.Errorf("a later call was told %s, %v", got.answer.Raw, got.err)
	}
	for n := range made {
		if arrived := counting.Count(strconv.Itoa(n)); arrived != 1 {
			t.Errorf("call %d arrived %d times", n, arrived)
		}
	}
}

// loadFrom is the first number of the auto-approved calls that are made during the drill.
const loadFrom = 1_000_000

// TestFailover: the primary is killed while calls are parked, decided and sent, and its synchronous standby is promoted. The processes
// go on without a restart. No call is lost, none is sent twice, and all decisions that reviewers were told hold.
func TestFailover(t *testing.T) {
	t.Parallel()
	pair := replica.Start(t, true)
	c := newChaos(t, nil)
	c.databaseFails = true
	c.w = &world{t: t, databaseURL: pair.URL(), dataDir: passableDir(t)}
	c.servers = [2]*holdpoint.Process{c.w.startServer(), c.w.startServer()}
	c.w.applyManifest(c.servers[0], strings.Replace(oneSkill(c.counting.URL, "approval_timeout: 1h\n"), "agents:\n",
		fmt.Sprintf("  - {name: open, transport: http, url: %q, auto_approve: true}\nagents:\n  - {name: busy, wait_budget: 20s, skills: [open]}\n", c.counting.URL), 1))
	for i := range reviewers {
		c.tokens = append(c.tokens, c.w.invitePerson(c.servers[0], fmt.Sprintf("reviewer-%d", i), "reviewer"))
	}
	c.parkCalls(failoverCalls(t))
	c.counting.TakeUpTo(300 * time.Millisecond) // so that some calls are in flight

	var load sync.WaitGroup
	var loaded atomic.Int64
	ctx, calm := context.WithCancel(t.Context())
	busy := c.w.newAgent(c.servers[0], "busy")
	for i := range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				n := loadFrom + loaded.Add(1)
				agent := newStubborn(busy, c.servers[i%2], c.servers[1-i%2])
				agent.meta = fmt.Sprintf(`{"dev.holdpoint/idempotency_key":"%d"}`, n)
				answer, err := agent.callTool(t.Context(), "open__record", fmt.Sprintf(`{"n":%d}`, n))
				if err != nil || answer.Text() != fmt.Sprintf("recorded %d", n) {
					t.Errorf("call %d was told %s, %v", n, answer.Raw, err)
				}
			}
		})
	}
	load.Go(func() {
		defer calm()
		eventually.Succeeds(t, 2*patience, "a third of the decisions", func() error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if decided := len(c.said); decided < len(c.parked)/3 {
				return fmt.Errorf("there are %d", decided)
			}
			return nil
		})
		pair.FailOver()
		began := time.Now()
		for i, p := range c.servers {
			eventually.Succeeds(t, patience, fmt.Sprintf("server %d is ready", i), p.Ready)
		}
		until := loaded.Load() + 8
		eventually.Succeeds(t, patience, "calls go on", func() error {
			if n := loaded.Load(); n < until {
				return fmt.Errorf("%d of %d", n, until)
			}
			return nil
		})
		t.Logf("service was back %s after the promotion", time.Since(began).Round(10*time.Millisecond))
	})
	c.decideAll()
	load.Wait()

	var gated, direct []holdpoint.Call
	for _, call := range c.awaitSettled("") {
		if call.Status == "unknown" {
			t.Errorf("call %s is unknown: %s", argumentN(call.Arguments), call.Message)
		}
		if n, _ := strconv.Atoi(argumentN(call.Arguments)); n >= loadFrom {
			direct = append(direct, call)
		} else {
			gated = append(gated, call)
		}
	}
	c.checkCalls(gated)
	c.checkAudit(gated)
	if len(direct) != int(loaded.Load()) {
		t.Errorf("there are %d auto-approved calls, want %d", len(direct), loaded.Load())
	}
	for _, call := range direct {
		if n := argumentN(call.Arguments); call.Status != "succeeded" || c.counting.Count(n) != 1 {
			t.Errorf("call %s is %s and arrived %d times", n, call.Status, c.counting.Count(n))
		}
	}
	t.Logf("%d auto-approved calls", len(direct))
}
