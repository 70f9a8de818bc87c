package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/failpoint"
)

// receiver is the documentation's example, which verifies signatures itself.
type receiver struct {
	mu   sync.Mutex
	said strings.Builder
}

func (r *receiver) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.Write(p)
}

func startReceiver(t *testing.T, port int, secret string) *receiver {
	t.Helper()
	r := &receiver{}
	cmd := exec.Command(findNode(t), "callbacks/receiver.mjs")
	cmd.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", port), "CALLBACK_SECRET="+secret)
	cmd.Stdout, cmd.Stderr = r, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have exited
		_ = cmd.Wait()         // killed
	})
	return r
}

// eventLines returns the received types and statuses, sorted because their order is not guaranteed.
func (r *receiver) eventLines(t *testing.T) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for line := range strings.Lines(r.said.String()) {
		var message struct {
			Type string
			Data struct{ Agent, Status, Tool string }
		}
		if err := json.Unmarshal([]byte(line), &message); err != nil {
			t.Fatalf("the receiver wrote %q: %v", line, err)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", message.Type, message.Data.Tool, message.Data.Status))
	}
	slices.Sort(lines)
	return lines
}

func (r *receiver) awaitEvents(t *testing.T, want ...string) {
	t.Helper()
	eventually.Succeeds(t, patience, "what the receiver is told", func() error {
		if got := r.eventLines(t); !slices.Equal(got, want) {
			return fmt.Errorf("it is told %q, want %q", got, want)
		}
		return nil
	})
}

// TestCallbacks: a receiver that is down at first still gets its events, as does one for a call whose process was
// killed right after the commit.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	w.args = []string{"--trusted-hosts", "127.0.0.1"} // the receiver runs on this machine
	server := w.startServer()
	w.applyManifest(server, fmt.Sprintf(`skills:
  - {name: counting, transport: http, url: %q}
  - {name: open, transport: http, url: %q, auto_approve: true}
agents:
  - {name: worker, wait_budget: 2s, skills: [counting, open]}
`, counting.URL, counting.URL))
	agent := w.newAgent(server, "worker")
	port := holdpoint.FreePort(t)
	secret := strings.TrimSpace(newCLI(server, bootstrapToken).Must(t,
		"agent", "callback", "create", "worker", "ops", "--url", fmt.Sprintf("http://127.0.0.1:%d/", port)))

	if err := agent.CallAndLeave(t.Context(), "counting__record", `{"n":1}`); err != nil {
		t.Fatal(err)
	}
	waiting, err := pendingFor(t.Context(), "1", server)
	if err != nil {
		t.Fatal(err)
	}
	deliveries := func() string {
		return newCLI(server, bootstrapToken).Must(t, "agent", "callback", "deliveries", "worker", "ops")
	}
	eventually.Succeeds(t, patience, "an attempt while nobody is there", func() error {
		if log := deliveries(); !strings.Contains(log, "could not be reached") {
			return fmt.Errorf("the deliveries are\n%s", log)
		}
		return nil
	})
	other := startReceiver(t, port, secret) // long before the next attempt
	if err := operatorAPI(server).Approve(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	awaitCall(t, operatorAPI(server), waiting.CallID, hasStatus("succeeded"))
	first := []string{"call.decided counting__record approved", "call.finished counting__record succeeded", "call.parked counting__record parked"}
	other.awaitEvents(t, first...)

	armed := w.serveArmed(failpoint.FinishAfterCommit)
	agent.URL = armed.URL
	if _, err := agent.CallTool(t.Context(), "open__record", `{"n":2}`); err == nil {
		t.Error("the armed server answered")
	}
	armed.AwaitKilled(t)
	other.awaitEvents(t, slices.Insert(first, 2, "call.finished open__record succeeded")...)

	eventually.Succeeds(t, patience, "the log of deliveries", func() error {
		log := deliveries()
		if strings.Count(log, "delivered") != 4 || strings.Contains(log, secret) {
			return fmt.Errorf("it is\n%s", log)
		}
		return nil
	})
}
