package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/limit"
)

// fakeLimits refuses with err, and counts the admitted and the running requests.
type fakeLimits struct {
	mu             sync.Mutex
	err            error
	admitted, open int
	last           limit.Limits
}

func (f *fakeLimits) Admit(_ context.Context, _ uuid.UUID, l limit.Limits) (func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	if l == (limit.Limits{}) {
		return nil, errors.New("asked about an agent without limits")
	}
	f.last = l
	f.admitted++
	f.open++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.open--
	}, nil
}

func (f *fakeLimits) countRequests() (admitted, open int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.admitted, f.open
}

func TestLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agents.agents["billing"].Limits = agent.Limits{CallsPerMinute: 60}
	var during int
	b.calls.outcome = func(call.Submission) call.Call {
		_, during = b.limits.countRequests()
		return call.Call{Status: call.Succeeded, Result: []byte(`{"content":[]}`)}
	}
	if a := b.post(callBody("1", "echo", `{}`)); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if admitted, open := b.limits.countRequests(); admitted != 1 || during != 1 || open != 0 {
		t.Errorf("%d admitted, %d during the call, %d after it", admitted, during, open)
	}
	b.limits.err = fmt.Errorf("admit: %w", &limit.Exceeded{Kind: limit.Rate, Limit: 60, RetryAfter: 1200 * time.Millisecond})
	for _, method := range []string{"tools/call", "resources/read", "prompts/get", "completion/complete"} {
		a := b.post(`{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{"name":"echo","uri":"x:y"}}`, "Accept", "text/event-stream")
		want := `{"jsonrpc":"2.0","id":7,"error":{"code":-32005,"message":"this agent may make 60 calls a minute; nothing was executed, ` +
			`try again in 2 s","data":{"code":"rate_limited","retry_after":2}}}`
		if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "2" || a.body != want {
			t.Errorf("%s: %d %v %s", method, a.status, a.header, a.body)
		}
	}
	for _, method := range []string{"tools/list", "ping", "initialize"} {
		a := b.post(`{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{"protocolVersion":"2025-11-25"}}`)
		if a.status != http.StatusOK {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
	if len(b.calls.submitted) != 1 {
		t.Errorf("%d calls were submitted", len(b.calls.submitted))
	}
}

func TestLimitsFailClosed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agents.agents["billing"].Limits = agent.Limits{Concurrency: 1}
	b.limits.err = errors.New("no database")
	a := b.post(callBody("1", "echo", `{}`))
	if !strings.Contains(a.body, "-32603") || strings.Contains(a.body, "database") || len(b.calls.submitted) != 0 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestPendingLimit checks that the answer names the limit, the number of waiting calls, and the possible next steps.
func TestPendingLimit(t *testing.T) {
	t.Parallel()
	for style, want := range map[string][]string{
		agent.ErrorStyleMCP:   {`"isError":true`, `{"code":"pending_limited","limit":100,"waiting":100}`, "holdpoint_await"},
		agent.ErrorStyleCodes: {`"error":{"code":-32005`, `"code":"pending_limited"`, `"limit":100`},
	} {
		b := newBench(t)
		b.agents.agents["billing"].ErrorStyle = style
		b.calls.submitErr = fmt.Errorf("submit: %w", &call.PendingError{Waiting: 100, Limit: 100})
		a := b.post(callBody("1", "gated", `{}`))
		for _, part := range append(want, "was not made", "its limit (limits.pending) is 100") {
			if a.status != http.StatusOK || !strings.Contains(a.body, part) {
				t.Errorf("%s: %d %s, want %s", style, a.status, a.body, part)
			}
		}
	}
}
