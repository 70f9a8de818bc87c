package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
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
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	reviewers   = 8
	endInterval = 2 * time.Second  // from a restart to the next stop
	duration    = 25 * time.Second // of the decisions about 1,000 calls, or fewer
	maxHits     = 10               // of a failpoint until it kills its process
)

// chaosCalls returns the number of calls to park: HOLDPOINT_E2E_CALLS or usual.
func chaosCalls(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv("HOLDPOINT_E2E_CALLS")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("HOLDPOINT_E2E_CALLS=%q: want a number", text)
	}
	return n
}

// chaos has two servers, of which one is repeatedly stopped, and reviewers who send each decision to both.
type chaos struct {
	t        *testing.T
	w        *world
	counting *skill.Counting
	parked   []holdpoint.Approval
	tokens   []string
	end      func(*holdpoint.Process) // stops a server, in turn
	points   []string                 // the servers kill themselves at these failpoints instead
	first    holdpoint.Program        // of the servers before they are ended for the first time

	databaseFails bool  // decisions are repeated after internal errors
	load          *load // of other clients during the decisions; nil: none

	mu      sync.Mutex
	servers [2]*holdpoint.Process
	renewed [2]bool                    // the server runs program
	said    map[string]map[string]bool // accepted decisions by approval
	killed  map[string]int             // processes by failpoint
}

// TestChaos: processes are killed at random. Each call has one outcome, an approved call arrives once, a rejected one
// never, and the audit log agrees.
func TestChaos(t *testing.T) {
	t.Parallel()
	newChaos(t, (*holdpoint.Process).Kill).runCalls(chaosCalls(t, 1000))
}

// TestChaosAtFailpoints: each process is killed again and again while it decides, dispatches and claims calls, at each commit boundary
// of these. Another process sends the call, or the outcome is unknown.
func TestChaosAtFailpoints(t *testing.T) {
	t.Parallel()
	c := newChaos(t, nil)
	c.points = []string{
		failpoint.DecideBeforeCommit, failpoint.DecideAfterCommit, failpoint.ExecuteBeforeClaim, failpoint.ClaimBeforeCommit, failpoint.ClaimAfterCommit,
	}
	c.runCalls(chaosCalls(t, 200))
	t.Logf("processes killed: %v", c.killed)
	if len(c.killed) == 0 {
		t.Error("no process was killed")
	}
}

// newChaos returns a world that stops servers with end.
func newChaos(t *testing.T, end func(*holdpoint.Process)) *chaos {
	t.Helper()
	return &chaos{
		t: t, w: newWorld(t), counting: skill.NewCounting(t), end: end, first: program, said: map[string]map[string]bool{}, killed: map[string]int{},
	}
}

func (c *chaos) runCalls(n int) []holdpoint.Call {
	c.servers = [2]*holdpoint.Process{c.first.Serve(c.t, c.w.serverOptions()), c.first.Serve(c.t, c.w.serverOptions())}
	c.w.applyManifest(c.servers[0], strings.Replace(oneSkill(c.counting.URL, "approval_timeout: 1h\n"), "pending: 1000", fmt.Sprintf("pending: %d", max(n, 1000)), 1))
	if c.load != nil {
		c.load.register()
	}
	for i := range reviewers {
		c.tokens = append(c.tokens, c.w.invitePerson(c.servers[0], fmt.Sprintf("reviewer-%d", i), "reviewer"))
	}
	c.parkCalls(n)
	c.counting.TakeUpTo(300 * time.Millisecond) // so that some calls are in flight at a stop

	ctx, calm := context.WithCancel(c.t.Context())
	var restarter sync.WaitGroup
	if c.points == nil {
		restarter.Go(func() { c.endAndRestart(ctx) })
	}
	var turn atomic.Int64
	for i := range min(len(c.points), len(c.servers)) {
		restarter.Go(func() { c.restartAtFailpoints(ctx, i, &turn) })
	}
	if c.load != nil {
		restarter.Go(func() { c.load.run(ctx) })
	}
	c.decideAll()
	calm()
	restarter.Wait()

	calls := c.awaitSettled("agent=worker")
	c.checkCalls(calls)
	c.checkAudit(calls)
	return calls
}

// parkCalls makes n calls, whose agent disconnects.
func (c *chaos) parkCalls(n int) {
	agent := c.w.newAgent(c.servers[0], "worker")
	numbers := make(chan int)
	var agents sync.WaitGroup
	for i := range 32 {
		agents.Go(func() {
			mine := agent
			mine.URL = c.servers[i%2].URL
			for number := range numbers {
				c.parkOne(mine, number)
			}
		})
	}
	for number := range n {
		numbers <- number
	}
	close(numbers)
	agents.Wait()
	var err error
	c.parked, err = holdpoint.List[holdpoint.Approval](c.t.Context(), operatorAPI(c.servers[0]), "approvals", "status=pending")
	if err != nil || len(c.parked) != n {
		c.t.Fatalf("%d calls are parked, want %d: %v", len(c.parked), n, err)
	}
}

// parkOne disconnects once the response is held open, because the call is recorded by then.
func (c *chaos) parkOne(agent holdpoint.Agent, number int) {
	if err := agent.CallAndLeave(c.t.Context(), "counting__record", fmt.Sprintf(`{"n":%d}`, number)); err != nil {
		c.t.Errorf("park call %d: %v", number, err)
	}
}

// endAndRestart stops and restarts the servers in turn until ctx ends. Then both run. The second one runs its first program for half of
// the time.
func (c *chaos) endAndRestart(ctx context.Context) {
	ended := 0
	for victim := 0; pause.For(ctx, endInterval) == nil; victim = 1 - victim {
		if c.first != program && ended < int(duration/endInterval/2) {
			victim = 0
		}
		c.end(c.serverAt(victim))
		ended++
		if !c.restart(victim, "") {
			return
		}
	}
	c.t.Logf("%d servers were ended", ended)
}

// restart starts a server in place of one that has ended. The new one kills itself at a failpoint; empty: it does not.
func (c *chaos) restart(i int, point string) (ok bool) {
	o := c.w.serverOptions()
	o.Port, o.Failpoint = c.serverAt(i).Port, point
	started, err := program.TryStart(c.t, o)
	if err != nil {
		c.t.Error(err)
		return false
	}
	c.mu.Lock()
	c.servers[i], c.renewed[i] = started, true
	c.mu.Unlock()
	err = eventually.Poll(c.t.Context(), patience, func() error {
		if point != "" && started.Ended() { // the first requests may reach the failpoint
			return nil
		}
		return started.Ready()
	})
	if err != nil {
		c.t.Errorf("a restarted server does not come up: %v", err)
	}
	return err == nil
}

// restartAtFailpoints has a server kill itself at one failpoint after the other until ctx ends. Then the server runs without one.
func (c *chaos) restartAtFailpoints(ctx context.Context, i int, turn *atomic.Int64) {
	c.serverAt(i).Kill()
	for ctx.Err() == nil {
		point := c.points[int(turn.Add(1))%len(c.points)]
		if !c.restart(i, fmt.Sprintf("%s:%d", point, 1+rand.IntN(maxHits))) {
			return
		}
		armed := c.serverAt(i)
		select {
		case <-ctx.Done():
			armed.Kill()
			continue
		case <-armed.Done():
		}
		if err := armed.CheckKilled(); err != nil {
			c.t.Error(err)
			return
		}
		c.mu.Lock()
		c.killed[point]++
		c.mu.Unlock()
	}
	c.restart(i, "")
}

func (c *chaos) serverAt(i int) *holdpoint.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[i]
}

// decideAll makes two independent reviewers decide each approval.
func (c *chaos) decideAll() {
	tasks := make(chan holdpoint.Approval)
	whole := duration * time.Duration(max(len(c.parked), 1000)) / 1000
	pace := 2 * whole * reviewers / time.Duration(2*len(c.parked)) // longest pause between two decisions
	var people sync.WaitGroup
	for i := range reviewers {
		people.Go(func() {
			for shown := range tasks {
				c.decideAtBoth(c.tokens[i], shown, rand.IntN(2) == 0)
				_ = pause.For(c.t.Context(), rand.N(pace))
			}
		})
	}
	order := append(append([]holdpoint.Approval{}, c.parked...), c.parked...)
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, shown := range order {
		tasks <- shown
	}
	close(tasks)
	people.Wait()
}

// decideAtBoth sends a decision to both servers at once, and retries until each answers.
func (c *chaos) decideAtBoth(token string, shown holdpoint.Approval, approve bool) {
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			err := eventually.Poll(c.t.Context(), 2*patience, func() error { return c.sendDecision(i, token, shown, approve) })
			if err != nil {
				c.t.Errorf("decide %s at server %d: %v", shown.ID, i, err)
			}
		})
	}
	both.Wait()
}

func (c *chaos) sendDecision(server int, token string, shown holdpoint.Approval, approve bool) error {
	api := holdpoint.API{URL: c.serverAt(server).URL, Token: token}
	var err error
	outcome := "approved"
	if approve {
		err = api.Approve(c.t.Context(), shown)
	} else {
		outcome, err = "rejected", api.Reject(c.t.Context(), shown, "chance")
	}
	var refused *holdpoint.Problem
	switch {
	case err == nil:
	case alreadyDecided(err) && errors.As(err, &refused):
		outcome = refused.ApprovalStatus
	case c.databaseFails && errors.As(err, &refused) && refused.Status >= http.StatusInternalServerError:
		return err
	case errors.As(err, &refused):
		c.t.Errorf("decide %s at server %d: %v", shown.ID, server, refused)
		return nil
	default:
		return err // the server is down
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said[shown.ID] == nil {
		c.said[shown.ID] = map[string]bool{}
	}
	c.said[shown.ID][outcome] = true
	return nil
}

// awaitSettled waits until all calls of a query have ended.
func (c *chaos) awaitSettled(query string) []holdpoint.Call {
	var calls []holdpoint.Call
	eventually.Succeeds(c.t, 2*patience, "the end of all calls", func() error {
		var err error
		calls, err = holdpoint.List[holdpoint.Call](c.t.Context(), operatorAPI(c.serverAt(0)), "calls", query)
		open := map[string]int{}
		for _, call := range calls {
			if !call.Final() {
				open[call.Status]++
			}
		}
		if err == nil && len(open) > 0 {
			err = fmt.Errorf("still on their way: %v", open)
		}
		return err
	})
	return calls
}
