package e2e_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// amongServers are client kinds whose requests alternate between servers.
var amongServers = []struct {
	name string
	make func(*testing.T, holdpoint.Agent) mcpClient
	// carries means that the first call returns the outcome despite all faults.
	carries bool
}{
	{name: "typescript 1.x", make: newTypeScriptClient("1")},
	{name: "typescript 2.x of 2026-07-28", make: newTypeScriptClient("2-modern")},
	{name: "typescript 1.x through connect", make: throughConnect("1"), carries: true},
	{name: "go through connect", make: goThroughConnect, carries: true},
	{name: "curl", make: newCurl},
	{name: "holdpoint_await", make: newAwaiting},
	{name: "tasks", make: newTasking, carries: true},
	{name: "tasks through connect", make: newTaskingThroughConnect, carries: true},
}

// TestClientsAmongServers: a proxy sends each request to the other of two servers with one database. Sessions continue
// at the other server. When one server is killed, all waits continue too.
func TestClientsAmongServers(t *testing.T) {
	t.Parallel()
	db := newWorld(t)
	counting := skill.NewCounting(t)
	servers := []*holdpoint.Process{db.startServer(), db.startServer()}
	db.applyManifest(servers[0], fmt.Sprintf(clientSkills, counting.URL, "50s"))
	rr := newRoundRobin(t, servers...)
	w := &clientWorld{Process: servers[1], counting: counting, agent: db.newAgent(servers[0], "worker")}
	w.agent.URL = rr.URL

	clients := make([]mcpClient, len(amongServers))
	numbers := make([]int, len(amongServers))
	waits := make([]<-chan outcome, len(amongServers))
	for i, kind := range amongServers {
		clients[i], numbers[i] = kind.make(t, w.agent), w.nextNumber()
		for range 2 {
			w.useAll(t, kind.name, clients[i])
		}
		if sdk, ok := clients[i].(*sdkClient); ok && !kind.carries {
			sdk.timeout = 5 * time.Second // it does not notice a broken response itself
		}
		waits[i] = beginCall(t, clients[i], "counting__record", numbers[i])
	}
	for i := range amongServers {
		if _, err := pendingFor(t.Context(), strconv.Itoa(numbers[i]), w.Process); err != nil {
			t.Fatal(err)
		}
	}
	killed, other := rr.findHolder(t, "holdpoint/")
	killed.Kill()
	w.Process = other
	for i := range amongServers {
		w.approveCall(t, numbers[i])
	}
	for i, kind := range amongServers {
		got := <-waits[i]
		if sdk, ok := clients[i].(*sdkClient); ok {
			sdk.timeout = time.Minute
		}
		if !kind.carries {
			got = w.comeBack(t, clients[i], numbers[i], got)
		}
		if err := got.checkRecorded(numbers[i]); err != nil {
			t.Errorf("%s: %v", kind.name, err)
		}
		w.wantCount(t, numbers[i], 1)
		w.useAll(t, kind.name, clients[i]) // the session continues
	}
}

// useAll lists the tools and makes an auto-approved call.
func (w *clientWorld) useAll(t *testing.T, name string, c mcpClient) {
	t.Helper()
	names, err := c.listTools(t.Context())
	if err != nil {
		t.Fatalf("%s: list: %v", name, err)
	}
	mustContain(t, names, "counting__record", "open__record")
	n := w.nextNumber()
	wantRecorded(t, <-beginCall(t, c, "open__record", n), n)
}

// comeBack repeats the same call until it gets the outcome.
func (w *clientWorld) comeBack(t *testing.T, c mcpClient, n int, got outcome) outcome {
	t.Helper()
	eventually.Succeeds(t, patience, fmt.Sprintf("the outcome of call %d", n), func() error {
		if got.err == nil && !got.answer.Pending() {
			return nil
		}
		got = <-beginCall(t, c, "counting__record", n)
		return errors.New("it is made again")
	})
	return got
}
