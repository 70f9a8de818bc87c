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

// loadFrom is the first number of the auto-approved calls that are made during the drill.
const loadFrom = 1_000_000

// TestFailover: the primary is killed while calls are parked, decided and sent, and its synchronous standby is promoted. The processes
// go on without a restart. No call is lost, none is sent twice, and all decisions that reviewers were told hold.
func TestFailover(t *testing.T) {
	t.Parallel()
	pair := replica.Start(t, true)
	c := newChaos(t, nil)
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
	for _, call := range c.awaitSettled() {
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
