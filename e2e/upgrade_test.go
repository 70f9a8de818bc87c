package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// TestRollingRestarts: servers that stop gracefully leave no unknown outcomes, and no client sees an error. HOLDPOINT_E2E_OLD is a program
// of an earlier version that the first servers run, on a database of that version: they are upgraded one after the other, and both versions
// decide and send calls of one database meanwhile.
func TestRollingRestarts(t *testing.T) {
	t.Parallel()
	c := newChaos(t, func(p *holdpoint.Process) {
		if err := p.Stop(t.Context()); err != nil {
			t.Errorf("a server did not stop well: %v", err)
		}
	})
	if old := os.Getenv("HOLDPOINT_E2E_OLD"); old != "" {
		c.first = holdpoint.Program{Path: old}
		c.w.databaseURL, c.w.sessionURL = postgrestest.Empty(t).URL(), ""
	}
	c.load = &load{chaos: c, counting: skill.NewCounting(t), requests: map[requestKind]*requests{}}
	for _, call := range c.runCalls(200) {
		if call.Status == "unknown" {
			t.Errorf("call %s is unknown: %s", call.ID, call.Message)
		}
	}
	c.load.report()
}

// load sends requests to both servers, as clients behind a load balancer do: what one server does not accept goes to the other.
type load struct {
	*chaos

	counting *skill.Counting
	agent    holdpoint.Agent
	number   atomic.Int64

	tally    sync.Mutex
	requests map[requestKind]*requests
}

type requestKind struct{ name, version string }

// requests of one kind.
type requests struct {
	took   []time.Duration // of the answered ones
	passed int             // to the other server, because this one stopped
	failed int
}

const loadClients = 4

// register adds an auto-approved skill and its agent.
func (l *load) register() {
	server := l.serverAt(0)
	l.w.applyManifest(server, fmt.Sprintf("skills:\n  - {name: open, transport: http, url: %q, auto_approve: true}\nagents:\n  - {name: clerk, wait_budget: 20s, skills: [open]}\n", l.counting.URL))
	l.agent = holdpoint.Agent{Name: "clerk", Key: l.w.newKey(server, "agent", "key", "create", "clerk")}
}

// run sends requests until ctx ends.
func (l *load) run(ctx context.Context) {
	var clients sync.WaitGroup
	for i := range loadClients {
		clients.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				l.sendToEither("call a tool", n, l.callTool)
				l.sendToEither("list tools", n, func(server *holdpoint.Process) error {
					agent := l.agent
					agent.URL = server.URL
					answer, err := agent.Request(l.t.Context(), "tools/list", "{}")
					if err == nil && answer.Error != nil {
						err = errors.New(answer.Error.Message)
					}
					return err
				})
				l.sendToEither("read the queue", n, func(server *holdpoint.Process) error {
					return operatorAPI(server).Do(l.t.Context(), "GET", "approvals?status=pending&limit=10", nil, nil)
				})
				_ = pause.For(ctx, 50*time.Millisecond)
			}
		})
	}
	clients.Wait()
}

func (l *load) callTool(server *holdpoint.Process) error {
	agent := l.agent
	agent.URL = server.URL
	answer, err := agent.CallTool(l.t.Context(), "open__record", fmt.Sprintf(`{"n":%d}`, l.number.Add(1)))
	for i := 0; err == nil && answer.Pending(); i++ { // a slow machine: as agents do, wait at any server
		agent.URL = l.serverAt(i % 2).URL
		later, failure := agent.Await(l.t.Context(), answer.Call().ID)
		switch {
		case failure == nil:
			answer = later
		case !isCutOff(failure):
			err = failure
		case pause.For(l.t.Context(), 50*time.Millisecond) != nil:
			return l.t.Context().Err()
		}
	}
	switch {
	case err != nil:
		return err
	case answer.Error != nil:
		return fmt.Errorf("%d %s", answer.Error.Code, answer.Error.Message)
	case answer.Result.IsError || !strings.HasPrefix(answer.Text(), "recorded "):
		return fmt.Errorf("result %s", answer.Raw)
	}
	return nil
}

// sendToEither sends a request to one server, or to the other if the first one stops meanwhile and gives no answer. A call that is made
// again attaches to the first one.
func (l *load) sendToEither(name string, first int, send func(*holdpoint.Process) error) {
	for i := range 2 {
		l.mu.Lock()
		server, version := l.servers[(first+i)%2], "new"
		if l.first != program && !l.renewed[(first+i)%2] {
			version = "old"
		}
		l.mu.Unlock()
		began := time.Now()
		err := send(server)
		took, refused := time.Since(began), isCutOff(err)
		l.tally.Lock()
		kind := requestKind{name, version}
		if l.requests[kind] == nil {
			l.requests[kind] = &requests{}
		}
		switch r := l.requests[kind]; {
		case err == nil:
			r.took = append(r.took, took)
		case refused && i == 0:
			r.passed++
		default:
			r.failed++
			l.t.Errorf("%s at a server of the %s version: %v", name, version, err)
		}
		l.tally.Unlock()
		if !refused {
			return
		}
	}
}

// isCutOff reports whether a request has no answer because its server stopped.
func isCutOff(err error) bool {
	return slices.ContainsFunc([]error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF}, func(cut error) bool { return errors.Is(err, cut) })
}

// report prints a table of the requests, and checks that each tool call arrived once.
func (l *load) report() {
	l.t.Helper()
	var table strings.Builder
	fmt.Fprintf(&table, "%-16s %-8s %9s %11s %7s %8s %8s\n", "request", "version", "answered", "passed on", "failed", "median", "p99")
	kinds := make([]requestKind, 0, len(l.requests))
	for kind := range l.requests {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b requestKind) int { return strings.Compare(a.name+" "+b.version, b.name+" "+a.version) })
	answered := 0
	for _, kind := range kinds {
		r := l.requests[kind]
		median, p99 := time.Duration(0), time.Duration(0)
		if n := len(r.took); n > 0 {
			slices.Sort(r.took)
			median, p99 = r.took[n/2].Round(100*time.Microsecond), r.took[n*99/100].Round(100*time.Microsecond)
		}
		if kind.name == "call a tool" {
			answered += len(r.took)
		}
		fmt.Fprintf(&table, "%-16s %-8s %9d %11d %7d %8s %8s\n", kind.name, kind.version, len(r.took), r.passed, r.failed, median, p99)
	}
	l.t.Logf("requests:\n%s", table.String())
	arrived := l.counting.All()
	for n, times := range arrived {
		if times != 1 {
			l.t.Errorf("tool call %s arrived %d times", n, times)
		}
	}
	if len(arrived) != answered || answered == 0 {
		l.t.Errorf("%d tool calls arrived, %d were answered", len(arrived), answered)
	}
}
