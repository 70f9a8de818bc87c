package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The bounds of what a server may tell the caller of one errand, beyond which it is not heard.
const (
	maxReports  = 10_000    // notifications/progress and notifications/message together
	maxProgress = 16 << 10  // bytes of the params of one notifications/progress
	maxLog      = 256 << 10 // bytes of the params of one notifications/message
)

// errand is one Call or Request over all its rounds: who it is made for, and the time that it has.
type errand struct {
	caller tool.Caller
	may    capabilities
	key    keeperKey
	token  string // its progress token
	log    *slog.Logger

	ctx    context.Context // ends with the errand, or when its time runs out
	cancel context.CancelCauseFunc
	clock  *clock

	mu        sync.Mutex
	done      bool // the caller hears nothing any more
	reports   int
	questions int
}

// errands are those under way, by their progress tokens.
type errands struct {
	mu     sync.Mutex
	lastID atomic.Int64
	byID   map[string]*errand
}

// newErrand begins an errand, which the caller finishes. With input, results that ask for input are the caller's own business:
// they may ask for what it declared, and nothing else may ask.
func (s *Source) newErrand(ctx context.Context, server tool.Server, caller tool.Caller, limit time.Duration, input bool) (*errand, *tool.Failure) {
	if caller.LogLevel != "" && gravity(caller.LogLevel) == 0 {
		return nil, tool.BrokeOff(tool.EffectNone, nil, "log level %q is none of MCP's", plain(caller.LogLevel, 32))
	}
	e := &errand{
		caller: caller, key: keyOf(server), log: s.config.Logger.With("skill", server.Skill),
		token: "hp" + strconv.FormatInt(s.errands.lastID.Add(1), 10),
	}
	if input {
		e.caller.Ask = nil
	}
	if caller.Ask != nil || input {
		may, err := readCapabilities(caller.Capabilities)
		if err != nil {
			return nil, tool.BrokeOff(tool.EffectNone, err, "capabilities of the caller: %s", plain(err.Error(), 200))
		}
		e.may = may
	}
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	e.clock = startClock(limit, s.config.Now, func() { e.cancel(context.DeadlineExceeded) })
	s.errands.mu.Lock()
	s.errands.byID[e.token] = e
	s.errands.mu.Unlock()
	return e, nil
}

// finish ends an errand: its caller hears and is asked nothing any more.
func (s *Source) finish(e *errand) {
	s.errands.mu.Lock()
	delete(s.errands.byID, e.token)
	s.errands.mu.Unlock()
	e.clock.stop()
	e.mu.Lock()
	e.done = true
	e.mu.Unlock()
	e.cancel(nil)
}

// canBeAsked reports whether servers may ask the caller anything.
func (e *errand) canBeAsked() bool { return e != nil && e.caller.Ask != nil && e.may.any() }

// wantsLogs reports whether the caller wants to hear what is to be logged.
func (e *errand) wantsLogs() bool { return e != nil && e.caller.Log != nil && e.caller.LogLevel != "" }

// progressed passes a notifications/progress on to the errand that it is about, if that is one of
// this server's.
func (all *errands) progressed(key keeperKey, params json.RawMessage) {
	if len(params) > maxProgress {
		return
	}
	token, rest, err := splitToken(params)
	if err != nil {
		return
	}
	all.mu.Lock()
	e := all.byID[token]
	all.mu.Unlock()
	if e == nil || e.key != key || e.caller.Progress == nil {
		return
	}
	e.report(e.caller.Progress, rest)
}

// logged passes a notifications/message on, if it is as grave as the caller wants them.
func (e *errand) logged(params json.RawMessage) {
	if !e.wantsLogs() || len(params) > maxLog {
		return
	}
	var level string
	err := eachMember(params, func(name string, value json.RawMessage) error {
		if name == "level" {
			return json.Unmarshal(value, &level)
		}
		return nil
	})
	if err != nil || gravity(level) < gravity(e.caller.LogLevel) {
		return
	}
	e.report(e.caller.Log, bytes.Clone(params))
}

// report tells the caller something: in order, and not after the end.
func (e *errand) report(to func(json.RawMessage), params json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done || e.reports == maxReports {
		return
	}
	e.reports++
	to(params)
}

// splitToken takes the progressToken out of the params of a notifications/progress.
func splitToken(params json.RawMessage) (token string, rest json.RawMessage, err error) {
	rest = append(rest, '{')
	err = eachMember(params, func(name string, value json.RawMessage) error {
		if name == "progressToken" {
			return json.Unmarshal(value, &token)
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(quoted(rest, name), ':'), value...)
		return nil
	})
	return token, append(rest, '}'), err
}

// gravity ranks the levels of RFC 5424 as MCP names them, from 1 for the least grave; 0 is none of them.
func gravity(level string) int {
	return 1 + slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
}

// capabilities are what a caller declared that it can be asked.
type capabilities struct {
	members                    []byte // as they go to the server, without braces
	form, url, sampling, roots bool
}

func (c capabilities) any() bool { return c.form || c.url || c.sampling || c.roots }

// readCapabilities reads a ClientCapabilities object; nil is an empty one.
func readCapabilities(text json.RawMessage) (capabilities, error) {
	var c capabilities
	if len(text) == 0 {
		return c, nil
	}
	err := eachMember(text, func(name string, value json.RawMessage) error {
		modes := map[string]bool{}
		if err := eachMember(value, func(mode string, _ json.RawMessage) error { modes[mode] = true; return nil }); err != nil {
			return fmt.Errorf("%s: %w", plain(name, 64), err)
		}
		switch name {
		case "elicitation": // an empty one means forms
			c.url = modes["url"]
			c.form = modes["form"] || !c.url
		case "sampling":
			c.sampling = true
		case "roots":
			c.roots = true
		default:
			return fmt.Errorf("%q is none of elicitation, sampling, roots", plain(name, 64))
		}
		return nil
	})
	if err != nil {
		return capabilities{}, err
	}
	c.members, err = membersOf(text)
	return c, err
}

// declared reports whether the caller can be asked by a method.
func (c capabilities) declared(method string) bool {
	switch method {
	case elicitMethod:
		return c.form || c.url
	case samplingMethod:
		return c.sampling
	case rootsMethod:
		return c.roots
	}
	return false
}
