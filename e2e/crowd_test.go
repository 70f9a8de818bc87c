package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	crowd      = 500
	crowdConns = 20
)

// TestCrowd: with many more clients than database connections, each call waits its turn. None is refused or hangs.
func TestCrowd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.args = []string{"--max-conns", strconv.Itoa(crowdConns)}
	open, gated := skill.NewCounting(t), skill.NewCounting(t)
	p := w.startServer()
	w.applyManifest(p, fmt.Sprintf(`skills:
  - {name: open, transport: http, url: %q, auto_approve: true}
  - {name: gated, transport: http, url: %q}
agents:
  - name: worker
    wait_budget: 5m
    limits: {pending: 1000}
    skills: [open, gated]
`, open.URL, gated.URL))
	agent := w.newAgent(p, "worker")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() { callInCrowd(ctx, t, agent, i) })
	}
	decided, stop := context.WithCancel(ctx)
	var reviewer sync.WaitGroup
	reviewer.Go(func() { approveAll(decided, t, operatorAPI(p)) })
	all.Wait()
	stop()
	reviewer.Wait()
	for i := range crowd {
		counting := gated
		if i%2 == 0 {
			counting = open
		}
		if n := counting.Count(strconv.Itoa(i)); n != 1 {
			t.Errorf("call %d arrived %d times", i, n)
		}
	}
}

func callInCrowd(ctx context.Context, t *testing.T, agent holdpoint.Agent, i int) {
	tool := "gated__record"
	if i%2 == 0 {
		tool = "open__record"
	}
	answer, err := agent.CallTool(ctx, tool, fmt.Sprintf(`{"n":%d}`, i))
	if err != nil || answer.Error != nil || answer.Text() != fmt.Sprintf("recorded %d", i) {
		t.Errorf("client %d: %s, %v %v", i, answer.Raw, answer.Error, err)
	}
}

// approveAll approves all pending calls until ctx ends.
func approveAll(ctx context.Context, t *testing.T, reviewer holdpoint.API) {
	for ctx.Err() == nil {
		list, err := holdpoint.List[holdpoint.Approval](ctx, reviewer, "approvals", "status=pending")
		if err != nil && ctx.Err() == nil {
			t.Errorf("list approvals: %v", err)
			return
		}
		for _, shown := range list {
			if err := reviewer.Approve(ctx, shown); err != nil && !alreadyDecided(err) && ctx.Err() == nil {
				t.Errorf("approve: %v", err)
				return
			}
		}
		_ = pause.For(ctx, 50*time.Millisecond)
	}
}

// TestArgumentsArriveAsSent: numbers beyond floating point and deep nesting reach the skill server byte for byte, gated
// or not.
func TestArgumentsArriveAsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	open, gated := (&skill.Raw{List: offerAnything}).Serve(t), (&skill.Raw{List: offerAnything}).Serve(t)
	p := w.startServer()
	w.applyManifest(p, fmt.Sprintf(`skills:
  - {name: open, transport: http, url: %q, auto_approve: true}
  - {name: gated, transport: http, url: %q}
agents:
  - {name: worker, skills: [open, gated]}
`, open.URL, gated.URL))
	agent := newStubborn(w.newAgent(p, "worker"), p)
	deep := strings.Repeat(`{"a":`, 199) + `[]` + strings.Repeat(`}`, 199)
	for i, value := range []string{
		`9007199254740993`, `1e400`, `-0`, `1.0`, `1E+2`, `"\u0041\u2028 <&>"`, deep,
	} {
		arguments := fmt.Sprintf(`{"n":%d,"value":%s}`, i, value)
		for tool, server := range map[string]*skill.Raw{"open__any": open, "gated__any": gated} {
			done := agent.beginCall(t.Context(), tool, arguments)
			if server == gated {
				if err := <-approveUntilDecided(t, strconv.Itoa(i), agent); err != nil {
					t.Fatal(err)
				}
			}
			if got := <-done; got.err != nil || got.answer.Result.IsError {
				t.Errorf("%s %.100s: %s, %v", tool, arguments, got.answer.Raw, got.err)
			}
			if sent := server.Arguments(strconv.Itoa(i)); sent != arguments {
				t.Errorf("%s: %.100s arrived as %.100s", tool, arguments, sent)
			}
		}
	}
}

// offerAnything offers a tool that accepts any arguments.
func offerAnything(w http.ResponseWriter, r *skill.Request) {
	r.Answer(w, `{"tools":[{"name":"any","inputSchema":{"type":"object"}}]}`)
}
