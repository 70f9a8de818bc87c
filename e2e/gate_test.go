package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/failpoint"
)

const gateManifest = `skills:
  - name: laptop
    transport: gate
    host: claude-code
agents:
  - name: coder
    skills: [laptop]
`

// gateClient returns a client of the server that runs.
func gateClient(servers *stubborn) (*client.Client, error) {
	p, ok := servers.nextServer(0)
	if !ok {
		return nil, errNobodyAnswers
	}
	return client.New(client.Config{URL: p.URL, Token: servers.agent.Key})
}

// askGate asks whether the caller may execute a command.
func askGate(t *testing.T, servers *stubborn, requestID string, wait int) (client.GateAnswer, error) {
	t.Helper()
	c, err := gateClient(servers)
	if err != nil {
		return client.GateAnswer{}, err
	}
	return c.Gate(t.Context(), servers.agent.Name, client.GateRequest{
		Skill: "laptop", Tool: "Bash", Arguments: json.RawMessage(`{"command":"echo hi > file","n":1}`), RequestID: requestID, Wait: wait,
		Context: client.GateContext{Host: "claude-code", Cwd: "/work", SessionID: "s1"},
	})
}

// TestGateKilled: the only process is killed at each step of a call that its caller executes, and started again. The caller, which asks until
// it gets an answer, may execute the call, and no other one may.
func TestGateKilled(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		failpoint.SubmitBeforeCommit, failpoint.SubmitAfterCommit, failpoint.DecideBeforeCommit, failpoint.DecideAfterCommit,
		failpoint.ExecuteBeforeClaim, failpoint.ClaimBeforeCommit, failpoint.ClaimAfterCommit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			armed := w.serveArmed(name)
			w.applyManifest(armed, gateManifest)
			servers := newStubborn(w.newAgent(armed, "coder"), armed)
			answers := make(chan client.GateAnswer, 1)
			asked := make(chan error, 1)
			go func() {
				asked <- eventually.Poll(t.Context(), 2*patience, func() error {
					answer, err := askGate(t, servers, "toolu_1", 5)
					if err == nil && answer.Decision == client.GatePending {
						err = fmt.Errorf("still pending: %s", answer.Message)
					}
					if err == nil {
						answers <- answer
					}
					return err
				})
			}()
			decided := approveUntilDecided(t, "1", servers)
			armed.AwaitKilled(t)
			servers.addServer(w.startServer())
			if err := errors.Join(<-decided, <-asked); err != nil {
				t.Fatal(err)
			}
			answer := <-answers
			if answer.Decision != client.GateAllow || answer.ReleasedUntil == nil {
				t.Fatalf("the answer is %+v", answer)
			}
			wantOneRelease(t, servers, answer)
		})
	}
}

// wantOneRelease checks that a released call is released to no other request, and reports its outcome.
func wantOneRelease(t *testing.T, servers *stubborn, answer client.GateAnswer) {
	t.Helper()
	c, err := gateClient(servers)
	if err != nil {
		t.Fatal(err)
	}
	same, err := askGate(t, servers, "toolu_1", 0)
	if err != nil || same.Decision != client.GateAllow || same.ID != answer.ID || !same.ReleasedUntil.Equal(*answer.ReleasedUntil) {
		t.Errorf("asked again: %+v (%v), want %+v", same, err, answer)
	}
	for _, name := range []string{"toolu_2", ""} {
		other, err := c.AwaitGate(t.Context(), servers.agent.Name, answer.ID, name, 0)
		if err != nil || other.Decision != client.GateDeny || other.Code != "released_elsewhere" {
			t.Errorf("request %q: %+v (%v)", name, other, err)
		}
	}
	if other, err := askGate(t, servers, "toolu_3", 0); err != nil || other.Decision != client.GatePending || other.ID == answer.ID {
		t.Errorf("the same command again: %+v (%v)", other, err)
	}
	outcome := client.GateOutcome{RequestID: "toolu_1", Status: client.GateSucceeded, Text: "done"}
	for range 2 {
		if err := c.ReportGate(t.Context(), servers.agent.Name, answer.ID, outcome); err != nil {
			t.Error(err)
		}
	}
	if problem, ok := errors.AsType[*client.Problem](c.ReportGate(t.Context(), servers.agent.Name, answer.ID, client.GateOutcome{RequestID: "toolu_2", Status: client.GateFailed})); !ok || problem.Code != "not_released" {
		t.Errorf("another request reported the outcome: %v", problem)
	}
	if after, err := askGate(t, servers, "toolu_1", 0); err != nil || after.Decision != client.GateDeny || after.Code != "already_reported" {
		t.Errorf("after the report: %+v (%v)", after, err)
	}
}
