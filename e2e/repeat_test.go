package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// TestIdempotentTool: a call without an answer is resent only if the operator declared the tool idempotent. The
// server's annotations do not count.
func TestIdempotentTool(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settings string
		status   string
		arrivals int
	}{
		"declared":     {"auto_approve: true\ntools: {record: {idempotent: true}}\n", "succeeded", 3},
		"not declared": {"auto_approve: true\n", "failed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			server := &skill.Raw{List: func(w http.ResponseWriter, r *skill.Request) {
				r.Answer(w, `{"tools":[`+skill.RecordTool[:len(skill.RecordTool)-1]+`,"annotations":{"idempotentHint":true}}]}`)
			}}
			server.Call = func(w http.ResponseWriter, r *skill.Request) {
				if server.Count(r.N()) < 3 {
					skill.CloseConnection(w)
					return
				}
				r.Answer(w, `{"content":[{"type":"text","text":"at last"}]}`)
			}
			server.Serve(t)
			p := w.startServer()
			w.applyManifest(p, oneSkill(server.URL, tc.settings))
			if _, err := w.newAgent(p, "worker").CallTool(t.Context(), "counting__record", `{"n":1}`); err != nil {
				t.Fatal(err)
			}
			call := onlyCall(t, operatorAPI(p))
			if n := server.Count("1"); call.Status != tc.status || n != tc.arrivals {
				t.Errorf("the call is %s and arrived %d times, want %s and %d", call.Status, n, tc.status, tc.arrivals)
			}
		})
	}
}

// TestTwins: the same call with two idempotency keys is two calls. Without keys it is one, until its outcome was
// delivered.
func TestTwins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	p := w.startServer()
	w.applyManifest(p, oneSkill(counting.URL, ""))
	agent := w.newAgent(p, "worker")
	twins := []*stubborn{newStubborn(agent, p), newStubborn(agent, p), newStubborn(agent, p)}
	twins[0].meta = `{"dev.holdpoint/idempotency_key":"first"}`
	twins[1].meta = `{"dev.holdpoint/idempotency_key":"second"}`
	var done []<-chan outcome
	for _, twin := range twins {
		done = append(done, twin.beginCall(t.Context(), "counting__record", `{"n":1}`))
	}
	awaitPending(t, p, 3)
	if err := agent.CallAndLeave(t.Context(), "counting__record", `{"n":1}`); err != nil {
		t.Error(err)
	}
	awaitPending(t, p, 3) // those without a key are one call
	approvePending(t, p)
	for i := range done {
		if got := <-done[i]; got.err != nil || got.answer.Text() != "recorded 1" {
			t.Errorf("twin %d was told %s, %v", i, got.answer.Raw, got.err)
		}
	}
	if n := counting.Count("1"); n != 3 {
		t.Errorf("it arrived %d times, want 3", n)
	}
	again := newStubborn(agent, p).beginCall(t.Context(), "counting__record", `{"n":1}`)
	awaitPending(t, p, 1) // the outcome was delivered, so this is a new call
	approvePending(t, p)
	if got := <-again; got.answer.Text() != "recorded 1" || counting.Count("1") != 4 {
		t.Errorf("a new call was told %s, %v and there are %d arrivals", got.answer.Raw, got.err, counting.Count("1"))
	}
}

// TestCommandRepeated: repeating a finished command makes a new call.
func TestCommandRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	p := w.startServer()
	w.applyManifest(p, oneSkill(counting.URL, ""))
	key := w.newAgent(p, "worker").Key
	const times = 10
	ctx, stop := context.WithCancel(t.Context())
	var reviewer sync.WaitGroup
	reviewer.Go(func() { approveAll(ctx, t, operatorAPI(p)) })
	for range times {
		newCLI(p, key).Must(t, "call", "worker", "counting__record", "--args", `{"n":1}`)
	}
	stop()
	reviewer.Wait()
	if n := counting.Count("1"); n != times {
		t.Errorf("of %d commands %d were executed; the others got the outcome of an earlier one", times, n)
	}
}

func pendingApprovals(t *testing.T, p *holdpoint.Process) []holdpoint.Approval {
	t.Helper()
	list, err := holdpoint.List[holdpoint.Approval](t.Context(), operatorAPI(p), "approvals", "status=pending")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func approvePending(t *testing.T, p *holdpoint.Process) {
	t.Helper()
	for _, shown := range pendingApprovals(t, p) {
		if err := operatorAPI(p).Approve(t.Context(), shown); err != nil {
			t.Error(err)
		}
	}
}

func awaitPending(t *testing.T, p *holdpoint.Process, n int) {
	t.Helper()
	eventually.Succeeds(t, patience, "parked calls", func() error {
		if found := len(pendingApprovals(t, p)); found != n {
			return fmt.Errorf("there are %d, want %d", found, n)
		}
		return nil
	})
}
