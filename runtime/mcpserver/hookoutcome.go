package mcpserver

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/host"
)

// Bounds on the calls whose outcomes a process expects over HTTP.
const (
	maxOpenHooks   = 10_000
	maxOpenTime    = 24 * time.Hour // then the outcome is unknown
	maxHookOutcome = 16 << 10
)

// openHooks are calls that the process allowed over HTTP, until their hosts report the outcomes. A report that reaches another process is lost, and
// the outcome of its call is unknown.
type openHooks struct {
	mu    sync.Mutex
	calls map[hookCall]openHook
}

// hookCall identifies a call by the host's words. A model may repeat them: then the last call counts.
type hookCall struct {
	agent                 uuid.UUID
	session, callID, tool string
}

type openHook struct {
	id        uuid.UUID
	requestID string
	since     time.Time
}

// add remembers a call that was allowed.
func (o *openHooks) add(key hookCall, released openHook) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.calls) >= maxOpenHooks {
		for key, old := range o.calls {
			if released.since.Sub(old.since) > maxOpenTime {
				delete(o.calls, key)
			}
		}
	}
	if len(o.calls) < maxOpenHooks {
		o.calls[key] = released
	}
}

// take returns a call and forgets it.
func (o *openHooks) take(key hookCall) (openHook, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	released, ok := o.calls[key]
	delete(o.calls, key)
	return released, ok
}

func (x *hookExchange) hookCall(event *host.Event) hookCall {
	return hookCall{x.agent.ID, event.SessionID, event.CallID, event.Tool}
}

// reportOutcome stores the outcome of a tool that has ended.
func (x *hookExchange) reportOutcome(event *host.Event) {
	key := x.hookCall(event)
	released, ok := x.openHooks.take(key)
	if !ok { // a permission tool is not told the session
		key.session = ""
		released, ok = x.openHooks.take(key)
	}
	if !ok { // it passed before the hook was installed, or through another process
		return
	}
	report := call.Report{Outcome: call.ReportedSucceeded}
	if event.Failed {
		report.Outcome = call.ReportedFailed
	}
	report.Text, _ = plain.Page(event.Output, 1, maxHookOutcome)
	if err := x.Calls.ReportOutcome(x.r.Context(), x.viewer(), released.id, released.requestID, report); err != nil {
		x.Logger.Warn("report outcome of a hook", "agent", x.agent.Name, "call_id", released.id, "error", err)
	}
}
