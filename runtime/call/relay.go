package call

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// EventChannel is the NOTIFY channel of events of calls, and of requests to cancel a call.
const EventChannel postgres.Channel = "holdpoint_call_events"

// EventKind is the kind of an [Event].
type EventKind string

// The kinds of events.
const (
	EventProgress EventKind = "progress" // Params are those of notifications/progress, without a token
	EventLog      EventKind = "log"      // Params are those of notifications/message
	EventTask     EventKind = "task"     // the server answered with a task, which may take long
	eventCancel   EventKind = "cancel"
)

// Event is progress of a call that is being sent. Events may be lost.
type Event struct {
	CallID uuid.UUID       `json:"call"`
	Kind   EventKind       `json:"kind"`
	Params json.RawMessage `json:"params,omitempty"`
	// Number counts the events of a call's request. Zero is an event of an older version.
	Number int64 `json:"number,omitempty"`
}

const (
	maxNotice     = 7900                   // bytes; PostgreSQL's limit is 8000
	relayInterval = 100 * time.Millisecond // least time between two events of a call to other processes
)

// relay connects a call's server with the call's client, which may be connected to another process.
type relay struct {
	s      *Service
	c      *Call
	limit  time.Duration // for an answer, and again for a decision about it
	review bool          // a reviewer decides the server's questions
	cancel chan struct{}
	once   sync.Once

	mu     sync.Mutex
	last   time.Time // when an event was sent to other processes
	number int64     // of the last event
}

// openRelay returns the caller for the request to a call's server. The caller of openRelay calls done after the answer.
func (s *Service) openRelay(c *Call, skill *agent.Skill) (caller tool.Caller, done func()) {
	if c.caller.isZero() && !c.awaited && !c.Gated && c.GrantID == uuid.Nil {
		return tool.Caller{}, func() {} // the usual case
	}
	r := &relay{s: s, c: c, limit: skill.ApprovalTimeout, review: skill.Questions != agent.QuestionsClient, cancel: make(chan struct{})}
	r.review = r.review && (c.Gated || !skill.AutoApprove || c.GrantID != uuid.Nil) // a rule or a grant has judged the arguments, and no answers
	s.relays.Store(c.ID, r)
	caller = tool.Caller{
		Capabilities: c.caller.Capabilities, LogLevel: c.caller.LogLevel, Depth: c.caller.Depth, Cancel: r.cancel,
		Task: func() { r.publishEvent(EventTask, nil) },
	}
	if c.caller.Capabilities != nil {
		caller.Ask = r.askClient
	}
	if c.caller.Progress {
		caller.Progress = func(params json.RawMessage) { r.publishEvent(EventProgress, params) }
	}
	if c.caller.LogLevel != "" {
		caller.Log = func(params json.RawMessage) { r.publishEvent(EventLog, params) }
	}
	return caller, func() { s.relays.CompareAndDelete(c.ID, r) }
}

// cancelRelay asks the server of a call to cancel its task. It reports whether this process is sending the call.
func (s *Service) cancelRelay(id uuid.UUID) bool {
	found, sending := s.relays.Load(id)
	if r, ok := found.(*relay); ok {
		r.once.Do(func() { close(r.cancel) })
	}
	return sending
}

// publishEvent passes an event to the listeners of this process, or, at a limited rate, to other processes.
func (r *relay) publishEvent(kind EventKind, params json.RawMessage) {
	e := Event{CallID: r.c.ID, Kind: kind, Params: params, Number: r.countEvent()}
	if r.s.hub.publish(e) || !r.mayNotify(kind) {
		return
	}
	r.s.background.Go(func() { r.s.notifyProcesses(r.s.running, e) })
}

func (r *relay) countEvent() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	return r.number
}

// mayNotify reports whether an event may be sent to other processes now.
func (r *relay) mayNotify(kind EventKind) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.s.Now()
	if kind != EventTask && now.Sub(r.last) < relayInterval {
		return false
	}
	r.last = now
	return true
}

func (s *Service) notifyProcesses(ctx context.Context, e Event) {
	payload, err := json.Marshal(e)
	if err != nil || len(payload) > maxNotice {
		return // events may be lost
	}
	if _, err := s.Pool.Exec(ctx, `SELECT pg_notify($1, $2)`, EventChannel, string(payload)); err != nil && ctx.Err() == nil {
		s.Logger.Warn("notifying other processes of an event", "call", e.CallID, "kind", e.Kind, "error", err)
	}
}

// HandleEvent handles a notification on [EventChannel].
func (s *Service) HandleEvent(payload string) {
	var e Event
	if err := json.Unmarshal([]byte(payload), &e); err != nil {
		s.Logger.Warn("notification is not an event", "channel", EventChannel, "error", err)
		return
	}
	if e.Kind == eventCancel {
		s.cancelRelay(e.CallID)
		return
	}
	s.hub.publish(e)
}

// Caller has the capabilities of a call's client. The zero value has none.
type Caller struct {
	// Capabilities are those of elicitation, sampling and roots that the client declared, as an MCP
	// ClientCapabilities object. Nil: the client cannot be asked.
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	// LogLevel is the lowest level of log messages for the client. Empty: none.
	LogLevel string `json:"log_level,omitempty"`
	// Progress means that the client wants progress notifications.
	Progress bool `json:"progress,omitempty"`
	// Depth is the number of agents between the client and this call.
	Depth int `json:"depth,omitempty"`
	// Gate says where a gate-only call comes from. Nil: it is none.
	Gate *GateOrigin `json:"gate,omitempty"`
}

func (c Caller) isZero() bool {
	return c.Capabilities == nil && c.LogLevel == "" && !c.Progress && c.Depth == 0 && c.Gate == nil
}

// encodeColumn returns the value of the column caller. Nil: no capabilities.
func (c Caller) encodeColumn() *string {
	if c.isZero() {
		return nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil // invalid JSON counts as no capabilities
	}
	s := string(text)
	return &s
}
