package session

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Operation is a call or another request over all its rounds: its caller, and the time that it has.
type Operation struct {
	Caller tool.Caller
	client clientCapabilities
	key    Key
	token  string // its progress token
	Logger *slog.Logger

	Context context.Context // ends with the operation, or when its time runs out
	cancel  context.CancelCauseFunc
	clock   *clock

	mu            sync.Mutex
	done          bool // the caller gets no more notifications
	notifications int
	questions     int
}

// Operations are the running operations by their progress tokens.
type Operations struct {
	logger *slog.Logger
	now    func() time.Time
	mu     sync.Mutex
	lastID atomic.Int64
	byID   map[string]*Operation
}

// NewOperations returns an empty registry.
func NewOperations(logger *slog.Logger, now func() time.Time) *Operations {
	return &Operations{logger: logger, now: now, byID: map[string]*Operation{}}
}

// Begin begins an operation, which the caller of Begin finishes. If input is set, the caller itself continues after a result that asks for
// input. Such a result may use the capabilities that the caller declared; the server can ask in no other way.
func (all *Operations) Begin(ctx context.Context, server tool.Server, caller tool.Caller, limit time.Duration, input bool) (*Operation, *tool.Failure) {
	if caller.LogLevel != "" && RankLogLevel(caller.LogLevel) == 0 {
		return nil, tool.BrokeOff(tool.EffectNone, nil, "log level %q is not one of MCP", plain.Line(caller.LogLevel, 32))
	}
	op := &Operation{
		Caller: caller, key: KeyOf(server), Logger: all.logger.With("skill", server.Skill),
		token: "hp" + strconv.FormatInt(all.lastID.Add(1), 10),
	}
	if input {
		op.Caller.Ask = nil
	}
	if caller.Ask != nil || input {
		var err error
		if op.client, err = readClientCapabilities(caller.Capabilities); err != nil {
			return nil, tool.BrokeOff(tool.EffectNone, err, "capabilities of the caller: %s", plain.Line(err.Error(), 200))
		}
	}
	op.Context, op.cancel = context.WithCancelCause(ctx)
	op.clock = startClock(limit, all.now, func() { op.cancel(context.DeadlineExceeded) })
	all.mu.Lock()
	all.byID[op.token] = op
	all.mu.Unlock()
	return op, nil
}

// Finish ends an operation. Its caller gets no more notifications or questions.
func (all *Operations) Finish(op *Operation) {
	all.mu.Lock()
	delete(all.byID, op.token)
	all.mu.Unlock()
	op.clock.stopClock()
	op.mu.Lock()
	op.done = true
	op.mu.Unlock()
	op.cancel(nil)
}

// HandleProgress passes a notifications/progress on to its operation, if that is one of this session.
func (all *Operations) HandleProgress(key Key, params json.RawMessage) {
	if len(params) > maxProgress {
		return
	}
	token, rest, err := splitProgressToken(params)
	if err != nil {
		return
	}
	all.mu.Lock()
	op := all.byID[token]
	all.mu.Unlock()
	if op == nil || op.key != key || op.Caller.Progress == nil {
		return
	}
	op.notify(op.Caller.Progress, rest)
}

// splitProgressToken takes the progressToken out of the params of a notifications/progress.
func splitProgressToken(params json.RawMessage) (token string, rest json.RawMessage, err error) {
	rest = append(rest, '{')
	err = EachMember(params, func(name string, value json.RawMessage) error {
		if name == "progressToken" {
			return json.Unmarshal(value, &token)
		}
		rest = rawjson.AppendMember(rest, name, value)
		return nil
	})
	return token, append(rest, '}'), err
}

// The limits on notifications to the caller of one operation. Notifications beyond them are dropped.
const (
	maxNotifications = 10_000    // notifications/progress and notifications/message together
	maxProgress      = 16 << 10  // bytes of the params of one notifications/progress
	maxLog           = 256 << 10 // bytes of the params of one notifications/message
)

// CanBeAsked reports whether servers may ask the caller anything.
func (op *Operation) CanBeAsked() bool {
	return op != nil && op.Caller.Ask != nil && op.client.areAny()
}

// WantsLogs reports whether the caller wants log messages.
func (op *Operation) WantsLogs() bool {
	return op != nil && op.Caller.Log != nil && op.Caller.LogLevel != ""
}

// HandleLog passes a notifications/message on, if it has at least the level that the caller wants.
func (op *Operation) HandleLog(params json.RawMessage) {
	if !op.WantsLogs() || len(params) > maxLog {
		return
	}
	var level string
	value, err := ReadMember(params, "level")
	if err == nil && value != nil {
		err = json.Unmarshal(value, &level)
	}
	if err != nil || RankLogLevel(level) < RankLogLevel(op.Caller.LogLevel) {
		return
	}
	op.notify(op.Caller.Log, bytes.Clone(params))
}

// notify calls the caller in order, and not after the end of the operation.
func (op *Operation) notify(to func(json.RawMessage), params json.RawMessage) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.done || op.notifications == maxNotifications {
		return
	}
	op.notifications++
	to(params)
}

// RankLogLevel returns the rank of a log level of MCP (RFC 5424), from 1 for debug, or 0 if it is not one of them.
func RankLogLevel(level string) int {
	return 1 + slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
}

// clock is the time that an operation has. It is paused while the caller is being asked. A nil clock never runs out.
type clock struct {
	now func() time.Time
	end func()

	mu    sync.Mutex
	left  time.Duration // when it was last started or resumed
	since time.Time
	open  int // pauses
	timer *time.Timer
}

// startClock calls end when limit has passed. Zero is no limit.
func startClock(limit time.Duration, now func() time.Time, end func()) *clock {
	if limit <= 0 {
		return nil
	}
	return &clock{now: now, end: end, left: limit, since: now(), timer: time.AfterFunc(limit, end)}
}

// pauseClock pauses the clock until resume is called, which the caller does once for each pause.
func (c *clock) pauseClock() (resume func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open++; c.open == 1 && c.timer.Stop() {
		c.left -= c.now().Sub(c.since)
	}
	return c.resumeClock
}

func (c *clock) resumeClock() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.open == 0 {
		c.since = c.now()
		c.timer.Reset(max(c.left, 0))
	}
}

// stopClock ends the clock for good.
func (c *clock) stopClock() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	c.timer.Stop()
}
