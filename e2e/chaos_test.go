package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	reviewers   = 8
	endInterval = 2 * time.Second  // from a restart to the next stop
	duration    = 25 * time.Second // of the decisions
)

// chaosCalls returns the number of calls to park: HOLDPOINT_E2E_CALLS or 1,000.
func chaosCalls(t *testing.T) int {
	t.Helper()
	text := os.Getenv("HOLDPOINT_E2E_CALLS")
	if text == "" {
		return 1000
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
	end      func(*holdpoint.Process)
	first    holdpoint.Program // of the servers before they are ended for the first time

	databaseFails bool  // decisions are repeated after internal errors
	load          *load // of other clients during the decisions; nil: none

	mu      sync.Mutex
	servers [2]*holdpoint.Process
	renewed [2]bool                    // the server runs program
	said    map[string]map[string]bool // accepted decisions by approval
}

// TestChaos: processes are killed at random. Each call has one outcome, an approved call arrives once, a rejected one
// never, and the audit log agrees.
func TestChaos(t *testing.T) {
	t.Parallel()
	newChaos(t, (*holdpoint.Process).Kill).runCalls(chaosCalls(t))
}

// newChaos returns a world that stops servers with end.
func newChaos(t *testing.T, end func(*holdpoint.Process)) *chaos {
	t.Helper()
	return &chaos{t: t, w: newWorld(t), counting: skill.NewCounting(t), end: end, first: program, said: map[string]map[string]bool{}}
}

func (c *chaos) runCalls(n int) []holdpoint.Call {
	c.servers = [2]*holdpoint.Process{c.first.Serve(c.t, c.w.serverOptions()), c.first.Serve(c.t, c.w.serverOptions())}
	c.w.applyManifest(c.servers[0], oneSkill(c.counting.URL, "approval_timeout: 1h\n"))
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
	restarter.Go(func() { c.endAndRestart(ctx) })
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
		old := c.serverAt(victim)
		c.end(old)
		ended++
		o := c.w.serverOptions()
		o.Port = old.Port
		started, err := program.TryStart(c.t, o)
		if err != nil {
			c.t.Error(err)
			return
		}
		c.mu.Lock()
		c.servers[victim], c.renewed[victim] = started, true
		c.mu.Unlock()
		if err := eventually.Poll(c.t.Context(), patience, started.Ready); err != nil {
			c.t.Errorf("a restarted server does not come up: %v", err)
			return
		}
	}
	c.t.Logf("%d servers were ended", ended)
}

func (c *chaos) serverAt(i int) *holdpoint.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[i]
}

// decideAll makes two independent reviewers decide each approval.
func (c *chaos) decideAll() {
	tasks := make(chan holdpoint.Approval)
	pace := 2 * duration * reviewers / time.Duration(2*len(c.parked)) // longest pause between two decisions
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
