package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// TestKilledInFlight kills a process while the skill server has its call.
func TestKilledInFlight(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ auto, beside bool }{
		"gated, restarted":       {false, false},
		"gated, another":         {false, true},
		"auto-approved, another": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			counting := skill.NewCounting(t)
			first := w.startServer()
			w.applyManifest(first, oneSkill(counting.URL, fmt.Sprintf("auto_approve: %t\n", tc.auto)))
			agent := newStubborn(w.newAgent(first, "worker"), first)
			agent.meta = `{"dev.holdpoint/idempotency_key":"one"}`
			var other *holdpoint.Process
			if tc.beside {
				other = w.startServer()
				other.Signal(t, syscall.SIGSTOP) // so that it does not send the call
			}
			done := inFlight(t, agent, counting, !tc.auto)
			if tc.beside {
				other.Signal(t, syscall.SIGCONT)
			}
			first.Kill()
			if !tc.beside {
				other = w.startServer()
			}
			agent.addServer(other)
			got := <-done
			counting.Release()
			wantEnd(t, agent, got, expectation{"unknown", 1}, counting)
		})
	}
}

// inFlight makes a call and returns while the skill server holds it.
func inFlight(t *testing.T, agent *stubborn, counting *skill.Counting, gated bool) <-chan outcome {
	t.Helper()
	counting.Hold()
	done := agent.beginCall(t.Context(), "counting__record", `{"n":1}`)
	if gated {
		if err := <-approveUntilDecided(t, "1", agent); err != nil {
			t.Fatal(err)
		}
	}
	awaitArrival(t, counting.Ledger, "1")
	return done
}

func awaitArrival(t testing.TB, ledger *skill.Ledger, n string) {
	t.Helper()
	eventually.Succeeds(t, patience, "arrival of "+n, func() error {
		if ledger.Count(n) == 0 {
			return errors.New("it has not arrived")
		}
		return nil
	})
}

// TestFrozenInFlight stops a process until it loses its claim. The late outcome is kept as evidence and changes
// nothing.
func TestFrozenInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	frozen, other := w.startServer(), w.startServer()
	w.applyManifest(other, oneSkill(counting.URL, ""))
	agent := newStubborn(w.newAgent(other, "worker"), frozen)
	other.Signal(t, syscall.SIGSTOP) // so that it does not send the call
	done := inFlight(t, agent, counting, true)
	frozen.Signal(t, syscall.SIGSTOP)
	other.Signal(t, syscall.SIGCONT)
	id := onlyCall(t, operatorAPI(other)).ID
	awaitCall(t, operatorAPI(other), id, hasStatus("unknown"))
	counting.Release()
	agent.addServer(other)
	frozen.Signal(t, syscall.SIGCONT)
	late := awaitCall(t, operatorAPI(other), id, func(c holdpoint.Call) error {
		if len(c.Late) == 0 || string(c.Late) == "null" {
			return errors.New("there is no evidence of the late outcome")
		}
		return hasStatus("unknown")(c)
	})
	if n := counting.Count("1"); n != 1 {
		t.Errorf("it arrived %d times", n)
	}
	if got := <-done; got.err != nil || got.answer.Call().Code != "outcome_unknown" {
		t.Errorf("the agent was told %s, %v; the evidence is %s", got.answer.Raw, got.err, late.Late)
	}
}

// TestFailuresAfterReceipt: a call whose server fails after receipt may have been executed, and is not resent.
func TestFailuresAfterReceipt(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, *skill.Request){
		"500": func(w http.ResponseWriter, _ *skill.Request) {
			http.Error(w, "out of order", http.StatusInternalServerError)
		},
		"close":   func(w http.ResponseWriter, _ *skill.Request) { skill.CloseConnection(w) },
		"timeout": func(_ http.ResponseWriter, r *skill.Request) { <-r.HTTP.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			server := (&skill.Raw{Call: answer}).Serve(t)
			p := w.startServer()
			w.applyManifest(p, oneSkill(server.URL, "call_timeout: 10s\n"))
			agent := newStubborn(w.newAgent(p, "worker"), p)
			done := agent.beginCall(t.Context(), "counting__record", `{"n":1}`)
			if err := <-approveUntilDecided(t, "1", agent); err != nil {
				t.Fatal(err)
			}
			got := <-done
			if meta := got.answer.Call(); got.err != nil || !got.answer.Result.IsError || meta.Effect != "possible" {
				t.Errorf("the agent was told %s, %v", got.answer.Raw, got.err)
			}
			call := onlyCall(t, operatorAPI(p))
			if call.Status != "failed" || call.Failure != "transport" || call.Effect != "possible" {
				t.Errorf("the call is %s, failure %s, effect %s: %s", call.Status, call.Failure, call.Effect, call.Message)
			}
			if n := server.Count("1"); n != 1 {
				t.Errorf("it arrived %d times", n)
			}
		})
	}
}

// TestStdioKilledInFlight: the child of a killed process exits too.
func TestStdioKilledInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := t.TempDir() + "/arrivals"
	if err := os.WriteFile(file+".hold", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first := w.startServer()
	w.applyManifest(first, stdioSkill(t, file))
	agent := newStubborn(w.newAgent(first, "worker"), first)
	done := agent.beginCall(t.Context(), "local__record", `{"n":1}`)
	if err := <-approveUntilDecided(t, "1", agent); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, patience, "arrival", func() error {
		if len(skill.StdioArrivals(file)["1"]) == 0 {
			return errors.New("it has not arrived")
		}
		return nil
	})
	first.Kill()
	agent.addServer(w.startServer())
	pids := skill.StdioArrivals(file)["1"]
	awaitGone(t, pids[0])
	got := <-done
	if meta := got.answer.Call(); got.err != nil || meta.Code != "outcome_unknown" {
		t.Errorf("the agent was told %s, %v", got.answer.Raw, got.err)
	}
	if again := skill.StdioArrivals(file)["1"]; len(again) != 1 {
		t.Errorf("it arrived %d times", len(again))
	}
}

func stdioSkill(t *testing.T, file string) string {
	command := skill.StdioCommand(t, file)
	return fmt.Sprintf(`skills:
  - name: local
    transport: stdio
    command: [%q, %q, %q]
    paths: {write: [%q]}
    env: {GIVEN: "a value"}
agents:
  - name: worker
    wait_budget: 2s
    skills: [local]
`, command[0], command[1], command[2], filepath.Dir(file))
}

// awaitGone waits until a process has exited or is a zombie.
func awaitGone(t *testing.T, pid string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, patience, "the end of process "+pid, func() error {
		return checkGone(number)
	})
}
