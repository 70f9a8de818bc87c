package call

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// EventChannel carries, with NOTIFY, what happens to calls on their way to the processes where
// somebody waits for them, and the wish to have one cancelled to the process that sends it.
const EventChannel = "holdpoint_call_events"

// EventKind is what an [Event] is about.
type EventKind string

// The kinds of events.
const (
	EventProgress EventKind = "progress" // Params are those of notifications/progress, without a token
	EventLog      EventKind = "log"      // Params are those of notifications/message
	EventTask     EventKind = "task"     // the server answered with a task: it will take its time
	eventCancel   EventKind = "cancel"
)

// Event is something that happened to a call on its way. Nothing depends on its arrival.
type Event struct {
	CallID uuid.UUID       `json:"call"`
	Kind   EventKind       `json:"kind"`
	Params json.RawMessage `json:"params,omitempty"`
}

const (
	maxNotice     = 7900                   // bytes that PostgreSQL takes as one payload, with a margin
	relayInterval = 100 * time.Millisecond // between two events of a call that are sent to other processes
)

// relay is the way between a call's server and whoever waits for the call, here or in another process.
type relay struct {
	s      *Service
	c      *Call
	limit  time.Duration // that an answer may take, and again a decision about it
	review bool          // a reviewer decides about what the server asks
	cancel chan struct{}
	once   sync.Once

	mu   sync.Mutex
	last time.Time // that an event was sent to other processes
}

// relays are those of the calls that this process sends and that somebody may wish to cancel.
type relays struct {
	mu   sync.Mutex
	open map[uuid.UUID]*relay
}

func newRelays() *relays { return &relays{open: map[uuid.UUID]*relay{}} }

func (all *relays) add(r *relay) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.open[r.c.ID] = r
}

func (all *relays) remove(r *relay) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.open[r.c.ID] == r {
		delete(all.open, r.c.ID)
	}
}

func (all *relays) cancel(id uuid.UUID) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	r := all.open[id]
	if r != nil {
		r.once.Do(func() { close(r.cancel) })
	}
	return r != nil
}

// meet makes the caller that the server of a call meets, until done is called.
func (s *Service) meet(c *Call, skill *agent.Skill) (caller tool.Caller, done func()) {
	if c.caller.zero() && !c.awaited && !c.Gated {
		return tool.Caller{}, func() {} // nearly always
	}
	r := &relay{s: s, c: c, limit: skill.ApprovalTimeout, review: c.Gated && skill.Questions != agent.QuestionsClient, cancel: make(chan struct{})}
	s.relays.add(r)
	caller = tool.Caller{
		Capabilities: c.caller.Capabilities, LogLevel: c.caller.LogLevel, Depth: c.caller.Depth, Cancel: r.cancel,
		Task: func() { r.tell(EventTask, nil) },
	}
	if c.caller.Capabilities != nil {
		caller.Ask = r.ask
	}
	if c.caller.Progress {
		caller.Progress = func(params json.RawMessage) { r.tell(EventProgress, params) }
	}
	if c.caller.LogLevel != "" {
		caller.Log = func(params json.RawMessage) { r.tell(EventLog, params) }
	}
	return caller, func() { s.relays.remove(r) }
}

// tell tells whoever waits here, or else those elsewhere, who may miss some of it.
func (r *relay) tell(kind EventKind, params json.RawMessage) {
	e := Event{r.c.ID, kind, params}
	if r.s.hub.tell(e) || !r.due(kind) {
		return
	}
	r.s.background.Go(func() { r.s.broadcast(r.s.running, e) })
}

// due reports whether another event may be sent to other processes.
func (r *relay) due(kind EventKind) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.s.Now()
	if kind != EventTask && now.Sub(r.last) < relayInterval {
		return false
	}
	r.last = now
	return true
}

func (s *Service) broadcast(ctx context.Context, e Event) {
	payload, err := json.Marshal(e)
	if err != nil || len(payload) > maxNotice {
		return // it would be nice to have, no more
	}
	if _, err := s.Pool.Exec(ctx, `SELECT pg_notify($1, $2)`, EventChannel, string(payload)); err != nil && ctx.Err() == nil {
		s.Logger.Warn("telling other processes of a call", "call", e.CallID, "kind", e.Kind, "error", err)
	}
}

// HandleEvent takes what arrives on [EventChannel].
func (s *Service) HandleEvent(payload string) {
	var e Event
	if err := json.Unmarshal([]byte(payload), &e); err != nil {
		s.Logger.Warn("notification is not an event", "channel", EventChannel, "error", err)
		return
	}
	if e.Kind == eventCancel {
		s.relays.cancel(e.CallID)
		return
	}
	s.hub.tell(e)
}
