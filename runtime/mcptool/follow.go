package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The bounds of following a task.
const (
	maxTaskPoll = 30 * time.Second
	maxTaskID   = 1024 // bytes
)

// follower follows one task of a server to its end: as the extension has them (SEP-2663), or
// as MCP 2025-11-25 does, whose results are asked for by a request of their own.
type follower struct {
	source *Source
	errand *errand
	server tool.Server
	first  *request
	id     string
	legacy bool

	asking  context.Context // ends when nothing that the server asks is answered any more
	stop    context.CancelFunc
	known   map[string]bool               // keys of questions that were asked
	open    map[string]context.CancelFunc // those without an answer
	answers chan taskAnswer
	ready   map[string]json.RawMessage // answers that the server has not taken yet
}

// taskAnswer is what became of one question.
type taskAnswer struct {
	key     string
	answer  json.RawMessage
	refused *notAnswered
}

// follow follows the task that a server answered a call with, and has the result of the call. When
// the errand's time ends before, the server is told to cancel the task.
func (s *Source) follow(e *errand, server tool.Server, first *request, raw json.RawMessage, legacy bool) (json.RawMessage, *tool.Failure) {
	state, err := readTask(raw)
	if err != nil {
		return nil, protocolFailure(raw, err, "%s: the server answered with a task that cannot be followed: %s", first.what, plain(err.Error(), 200))
	}
	f := &follower{
		source: s, errand: e, server: server, first: first, id: state.id, legacy: legacy,
		known: map[string]bool{}, open: map[string]context.CancelFunc{}, ready: map[string]json.RawMessage{},
		answers: make(chan taskAnswer),
	}
	if e.caller.Task != nil {
		e.caller.Task()
	}
	f.asking, f.stop = context.WithCancel(e.ctx)
	defer f.stop()
	defer context.AfterFunc(s.ctx, f.stop)()
	stopWatching := f.watchCancel()
	defer stopWatching()
	result, failure := f.run(state)
	if failure != nil && e.ctx.Err() != nil {
		f.cancel()
		return nil, tool.Ended(e.ctx, tool.EffectPossible, first.what)
	}
	return result, failure
}

// watchCancel has the task cancelled when the caller wants it, until stop is called.
func (f *follower) watchCancel() (stop func()) {
	if f.errand.caller.Cancel == nil {
		return func() {}
	}
	done := make(chan struct{})
	f.source.tasks.run(func() {
		select {
		case <-f.errand.caller.Cancel:
			f.stop()
			f.cancel()
		case <-done:
		}
	})
	return func() { close(done) }
}

// cancel asks the server to cancel the task, without waiting for what it says.
func (f *follower) cancel() {
	f.source.tasks.run(func() {
		ctx, cancel := context.WithTimeout(f.source.ctx, f.source.config.Limits.Connect)
		defer cancel()
		r := f.request("tasks/cancel", nil)
		r.errand = nil // which may have ended
		if _, _, failure := f.source.send(ctx, f.server, r); failure != nil {
			f.errand.log.Debug("cancel a server's task", "task", plain(f.id, 100), "error", failure)
		}
	})
}

// request makes a request about the task.
func (f *follower) request(method string, responses []byte) *request {
	members := quoted([]byte(`"taskId":`), f.id)
	if responses != nil {
		members = append(append(members, `,"inputResponses":`...), responses...)
	}
	return &request{
		method: method, name: f.id, members: members, limit: f.first.limit + envelopeRoom,
		what: f.first.what + ": " + method, errand: f.errand, continues: !f.legacy,
	}
}

// run looks at the task, answers what it asks and waits, until it ends.
func (f *follower) run(state taskState) (json.RawMessage, *tool.Failure) {
	pause := f.pause(state)
	wait := !state.terminal() // a handle has no result yet
	for {
		if wait {
			if failure := f.wait(pause); failure != nil {
				return nil, failure
			}
		}
		wait = true
		if failure := f.update(); failure != nil && !lost(failure) {
			return nil, continued(failure)
		}
		raw, next, failure := f.look()
		switch {
		case failure != nil && lost(failure):
			pause = min(2*pause, maxTaskPoll)
			continue
		case failure != nil:
			return nil, continued(failure)
		}
		state, pause = next, f.pause(next)
		switch result, failure := f.ended(raw, state); {
		case failure != nil && lost(failure):
			continue
		case failure != nil, result != nil:
			return result, failure
		}
		if failure := f.meet(raw, state); failure != nil {
			f.cancel()
			return nil, failure
		}
	}
}

// lost reports whether a failure is of the kind after which it is worth to look again.
func lost(failure *tool.Failure) bool {
	return failure.Kind == tool.TransportFailure && !failure.Unauthorized && failure.Connect == nil && !errors.Is(failure.Err, errOtherRevision)
}

// pause is how long the server wants not to be asked, within bounds.
func (f *follower) pause(state taskState) time.Duration {
	least := f.source.config.Limits.TaskPoll
	if state.interval == nil {
		return 4 * least
	}
	return min(max(*state.interval, least), max(maxTaskPoll, least))
}

// wait waits for the next time to look, or for an answer, which is told at once.
func (f *follower) wait(pause time.Duration) *tool.Failure {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case a := <-f.answers:
			cancel, wanted := f.open[a.key]
			if !wanted {
				continue // the server took the question back
			}
			cancel()
			delete(f.open, a.key)
			switch {
			case a.refused != nil && f.asking.Err() != nil: // the caller wants the task cancelled
			case a.refused != nil:
				f.cancel()
				return protocolFailure(nil, a.refused, "%s: the server asks for input, and %s", f.first.what, a.refused.message)
			default:
				f.ready[a.key] = a.answer
				return nil
			}
		case <-f.errand.ctx.Done():
			return tool.Ended(f.errand.ctx, tool.EffectPossible, f.first.what)
		case <-f.source.ctx.Done():
			return tool.BrokeOff(tool.EffectPossible, errPeerClosed, "%s: %s", f.first.what, errPeerClosed)
		}
	}
}

// update gives the server the answers that it has not taken yet. One that refuses them is left to
// say so by the task's status.
func (f *follower) update() *tool.Failure {
	if len(f.ready) == 0 {
		return nil
	}
	responses := []byte{'{'}
	for key, answer := range f.ready {
		responses = appendMember(responses, key, answer)
	}
	_, _, failure := f.source.send(f.errand.ctx, f.server, f.request("tasks/update", append(responses, '}')))
	if failure != nil && failure.Kind != tool.JSONRPCError {
		return failure
	}
	clear(f.ready)
	return nil
}

// look asks for the task's state.
func (f *follower) look() (json.RawMessage, taskState, *tool.Failure) {
	r := f.request("tasks/get", nil)
	raw, _, failure := f.source.send(f.errand.ctx, f.server, r)
	if failure != nil {
		return nil, taskState{}, failure
	}
	state, err := readTask(raw)
	if err == nil && state.id != f.id {
		err = errors.New("it is about another task")
	}
	if err != nil {
		return nil, taskState{}, protocolFailure(raw, err, "%s: the task's state cannot be read: %s", r.what, plain(err.Error(), 200))
	}
	return raw, state, nil
}

// ended is the call's outcome if the task has ended; neither, if it goes on.
func (f *follower) ended(raw json.RawMessage, state taskState) (json.RawMessage, *tool.Failure) {
	switch state.status {
	case "working":
		return nil, nil
	case "cancelled":
		message := f.first.what + ": the server cancelled the task"
		if state.message != "" {
			message += ": " + plain(state.message, 300)
		}
		failure := notSent(codeInternal, "%s", message)
		failure.Effect, failure.Cancelled = tool.EffectPossible, true
		return nil, failure
	}
	if f.legacy { // also one that asks: its questions come on the stream of that request
		return f.legacyResult()
	}
	switch {
	case state.status == "input_required":
		return nil, nil
	case state.status == "completed" && state.result != nil:
		kind, failure := resultType(f.first.what, state.result)
		switch {
		case failure != nil:
			return nil, failure
		case kind != typeComplete:
			return nil, unknownType(f.first.what, state.result, kind)
		case int64(len(state.result)) > f.first.limit:
			return nil, protocolFailure(state.result, errTooLarge, "%s: the answer is larger than %d bytes", f.first.what, f.first.limit)
		}
		return bytes.Clone(state.result), nil
	case state.status == "failed" && state.err != nil:
		return nil, rpcFailure(bytes.Clone(state.err))
	}
	return nil, protocolFailure(raw, nil, "%s: the task's status %q says nothing of what became of it", f.first.what, plain(state.status, 64))
}

// legacyResult waits for the result of a task of MCP 2025-11-25.
func (f *follower) legacyResult() (json.RawMessage, *tool.Failure) {
	r := f.request("tasks/result", nil)
	r.limit = f.first.limit
	raw, _, failure := f.source.send(f.errand.ctx, f.server, r)
	if failure != nil && failure.Kind != tool.JSONRPCError {
		failure = continued(failure)
	}
	return raw, failure
}

// meet has new questions of the task answered, and takes those back that the server asks no longer.
func (f *follower) meet(raw json.RawMessage, state taskState) *tool.Failure {
	var wants inputRequired
	if state.status == "input_required" && f.asking.Err() == nil {
		if err := eachMember(state.requests, wants.add); err != nil {
			return protocolFailure(raw, err, "%s: the server asks for input that cannot be given: %s", f.first.what, plain(err.Error(), 300))
		}
	}
	asked := map[string]bool{}
	for i, key := range wants.keys {
		asked[key] = true
		if f.known[key] {
			continue
		}
		f.known[key] = true
		if refused := f.errand.mayAsk(wants.questions[i]); refused != nil {
			return protocolFailure(raw, refused, "%s: the server asks for input that cannot be given: request %q: %s", f.first.what, plain(key, 64), refused.message)
		}
		f.ask(key, wants.questions[i])
	}
	for key, cancel := range f.open {
		if !asked[key] {
			cancel()
			delete(f.open, key)
		}
	}
	return nil
}

// ask begins to have a question answered.
func (f *follower) ask(key string, question tool.Question) {
	ctx, cancel := context.WithCancel(f.asking)
	f.open[key] = cancel
	question.Params = bytes.Clone(question.Params)
	f.source.tasks.run(func() {
		answer, refused := f.errand.ask(ctx, question)
		select {
		case f.answers <- taskAnswer{key, answer, refused}:
		case <-ctx.Done():
		}
	})
}

// taskState is what a server says of a task.
type taskState struct {
	id, status, message string
	interval            *time.Duration
	result, err         json.RawMessage
	requests            json.RawMessage
}

// terminal reports whether the task has ended.
func (s taskState) terminal() bool {
	return s.status == "completed" || s.status == "failed" || s.status == "cancelled"
}

// readTask reads a task, in the members of either revision.
func readTask(raw json.RawMessage) (taskState, error) {
	var s taskState
	err := eachMember(raw, func(name string, value json.RawMessage) error {
		text := func(into *string) error {
			if json.Unmarshal(value, into) != nil {
				return errors.New(name + " is not a string")
			}
			return nil
		}
		switch name {
		case "taskId":
			return text(&s.id)
		case "status":
			return text(&s.status)
		case "statusMessage":
			return text(&s.message)
		case "pollIntervalMs", "pollInterval":
			s.interval = readTTL(value) // a number of milliseconds, too
		case "result":
			s.result = value
		case "error":
			s.err = value
		case "inputRequests":
			s.requests = value
		}
		return nil
	})
	switch {
	case err != nil:
	case s.id == "" || len(s.id) > maxTaskID:
		err = errors.New("its taskId is empty or too long")
	case s.status == "":
		err = errors.New("it has no status")
	}
	return s, err
}
