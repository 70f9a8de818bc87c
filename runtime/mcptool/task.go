package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The limits on following a task.
const (
	maxTaskPoll = 30 * time.Second
	maxTaskID   = 1024 // bytes
)

// taskFollower follows one task of a server to its end. The task is one of the extension (SEP-2663), or of MCP 2025-11-25, whose results
// are fetched by a request of their own.
type taskFollower struct {
	source    *Source
	operation *session.Operation
	server    tool.Server
	first     *session.Request
	id        string
	legacy    bool

	asking  context.Context // ends when no more questions are answered
	stop    context.CancelFunc
	known   map[string]bool               // keys of all questions so far
	open    map[string]context.CancelFunc // questions without an answer
	answers chan taskAnswer
	ready   map[string]json.RawMessage // answers that the server does not have yet
}

// taskAnswer is the answer to a question of a task, or why there is none.
type taskAnswer struct {
	key     string
	answer  json.RawMessage
	refused *session.Refusal
}

// followTask follows the task that a server answered a call with, and returns the result of the call. When the time of the operation ends
// first, it asks the server to cancel the task.
func (s *Source) followTask(op *session.Operation, server tool.Server, first *session.Request, raw json.RawMessage, legacy bool) (json.RawMessage, *tool.Failure) {
	state, err := readTask(raw)
	if err != nil {
		return nil, session.NewProtocolFailure(raw, err, "%s: the server answered with a task that cannot be followed: %s", first.Label, plain.Line(err.Error(), 200))
	}
	f := &taskFollower{
		source: s, operation: op, server: server, first: first, id: state.id, legacy: legacy,
		known: map[string]bool{}, open: map[string]context.CancelFunc{}, ready: map[string]json.RawMessage{},
		answers: make(chan taskAnswer),
	}
	if op.Caller.Task != nil {
		op.Caller.Task()
	}
	f.asking, f.stop = context.WithCancel(op.Context)
	defer f.stop()
	defer context.AfterFunc(s.ctx, f.stop)()
	stopWatching := f.watchCancel()
	defer stopWatching()
	result, failure := f.followToEnd(state)
	if failure != nil && op.Context.Err() != nil {
		f.cancelTask()
		return nil, tool.Ended(op.Context, tool.EffectPossible, first.Label)
	}
	return result, failure
}

// watchCancel asks the server to cancel the task when the caller wants that, until stop is called.
func (f *taskFollower) watchCancel() (stop func()) {
	if f.operation.Caller.Cancel == nil {
		return func() {}
	}
	done := make(chan struct{})
	f.source.background.Go(func() {
		select {
		case <-f.operation.Caller.Cancel:
			f.stop()
			f.cancelTask()
		case <-done:
		}
	})
	return func() { close(done) }
}

// cancelTask asks the server to cancel the task, and does not wait for the answer.
func (f *taskFollower) cancelTask() {
	f.source.background.Go(func() {
		ctx, cancel := context.WithTimeout(f.source.ctx, f.source.config.Limits.Connect)
		defer cancel()
		r := f.newRequest("tasks/cancel", nil)
		r.Operation = nil // it may have ended
		if _, _, failure := f.source.sendRequest(ctx, f.server, r); failure != nil {
			f.operation.Logger.Debug("cancel a server's task", "task", plain.Line(f.id, 100), "error", failure)
		}
	})
}

// newRequest returns a request about the task.
func (f *taskFollower) newRequest(method string, responses []byte) *session.Request {
	members := rawjson.AppendString([]byte(`"taskId":`), f.id)
	if responses != nil {
		members = append(append(members, `,"inputResponses":`...), responses...)
	}
	return &session.Request{
		Method: method, Name: f.id, Members: members, Limit: f.first.Limit + session.EnvelopeRoom,
		Label: f.first.Label + ": " + method, Operation: f.operation, Continues: !f.legacy,
	}
}

// followToEnd polls the task and answers its questions until it ends.
func (f *taskFollower) followToEnd(state taskState) (json.RawMessage, *tool.Failure) {
	pause := f.pollPause(state)
	// The first state has no result: if the task has ended, its result is requested at once.
	wait := state.status != "completed" && state.status != "failed" && state.status != "cancelled"
	for {
		if wait {
			if failure := f.waitForPoll(pause); failure != nil {
				return nil, failure
			}
		}
		wait = true
		if failure := f.sendAnswers(); failure != nil && !isLost(failure) {
			return nil, withPossibleEffect(failure)
		}
		raw, next, failure := f.pollTask()
		switch {
		case failure != nil && isLost(failure):
			pause = min(2*pause, maxTaskPoll)
			continue
		case failure != nil:
			return nil, withPossibleEffect(failure)
		}
		state, pause = next, f.pollPause(next)
		switch result, failure := f.readOutcome(raw, state); {
		case failure != nil && isLost(failure):
			continue
		case failure != nil, result != nil:
			return result, failure
		}
		if failure := f.meetQuestions(raw, state); failure != nil {
			f.cancelTask()
			return nil, failure
		}
	}
}

// isLost reports whether polling again may succeed after this failure.
func isLost(failure *tool.Failure) bool {
	return failure.Kind == tool.TransportFailure && !failure.Unauthorized && failure.Connect == nil && !errors.Is(failure.Err, errOtherRevision)
}

// pollPause returns the poll interval that the server wishes, within bounds.
func (f *taskFollower) pollPause(state taskState) time.Duration {
	least := f.source.config.Limits.TaskPoll
	if state.interval == nil {
		return 4 * least
	}
	return min(max(*state.interval, least), max(maxTaskPoll, least))
}

// waitForPoll waits for the next poll. An answer of the caller ends the wait.
func (f *taskFollower) waitForPoll(pause time.Duration) *tool.Failure {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case a := <-f.answers:
			cancel, wanted := f.open[a.key]
			if !wanted {
				continue // the server withdrew the question
			}
			cancel()
			delete(f.open, a.key)
			switch {
			case a.refused != nil && f.asking.Err() != nil: // the caller cancels the task
			case a.refused != nil:
				f.cancelTask()
				return session.NewProtocolFailure(nil, a.refused, "%s: the server asks for input, and %s", f.first.Label, a.refused.Message)
			default:
				f.ready[a.key] = a.answer
				return nil
			}
		case <-f.operation.Context.Done():
			return tool.Ended(f.operation.Context, tool.EffectPossible, f.first.Label)
		case <-f.source.ctx.Done():
			return tool.BrokeOff(tool.EffectPossible, session.ErrClosed, "%s: %s", f.first.Label, session.ErrClosed)
		}
	}
}

// sendAnswers sends the answers that the server does not have yet. If the server refuses them, the status of the task will say so.
func (f *taskFollower) sendAnswers() *tool.Failure {
	if len(f.ready) == 0 {
		return nil
	}
	responses := []byte{'{'}
	for key, answer := range f.ready {
		responses = rawjson.AppendMember(responses, key, answer)
	}
	_, _, failure := f.source.sendRequest(f.operation.Context, f.server, f.newRequest("tasks/update", append(responses, '}')))
	if failure != nil && failure.Kind != tool.JSONRPCError {
		return failure
	}
	clear(f.ready)
	return nil
}

// pollTask requests the state of the task.
func (f *taskFollower) pollTask() (json.RawMessage, taskState, *tool.Failure) {
	r := f.newRequest("tasks/get", nil)
	raw, _, failure := f.source.sendRequest(f.operation.Context, f.server, r)
	if failure != nil {
		return nil, taskState{}, failure
	}
	state, err := readTask(raw)
	if err == nil && state.id != f.id {
		err = errors.New("it is about another task")
	}
	if err != nil {
		return nil, taskState{}, session.NewProtocolFailure(raw, err, "%s: the task's state cannot be read: %s", r.Label, plain.Line(err.Error(), 200))
	}
	return raw, state, nil
}

// readOutcome returns the outcome of the call if the task has ended. It returns neither a result nor a failure if the task goes on.
func (f *taskFollower) readOutcome(raw json.RawMessage, state taskState) (json.RawMessage, *tool.Failure) {
	switch state.status {
	case "working":
		return nil, nil
	case "cancelled":
		message := f.first.Label + ": the server cancelled the task"
		if state.message != "" {
			message += ": " + plain.Line(state.message, 300)
		}
		failure := failUnsent(jsonrpc.CodeInternalError, "%s", message)
		failure.Effect, failure.Cancelled = tool.EffectPossible, true
		return nil, failure
	}
	if f.legacy { // also if it asks for input: the questions come on the stream of that request
		r := f.newRequest("tasks/result", nil)
		r.Limit = f.first.Limit
		raw, _, failure := f.source.sendRequest(f.operation.Context, f.server, r)
		if failure != nil && failure.Kind != tool.JSONRPCError {
			failure = withPossibleEffect(failure)
		}
		return raw, failure
	}
	switch {
	case state.status == "input_required":
		return nil, nil
	case state.status == "completed" && state.result != nil:
		kind, failure := readResultType(f.first.Label, state.result)
		switch {
		case failure != nil:
			return nil, failure
		case kind != typeComplete:
			return nil, failUnknownType(f.first.Label, state.result, kind)
		case int64(len(state.result)) > f.first.Limit:
			return nil, session.NewProtocolFailure(state.result, session.ErrTooLarge, "%s: the answer is larger than %d bytes", f.first.Label, f.first.Limit)
		}
		return bytes.Clone(state.result), nil
	case state.status == "failed" && state.err != nil:
		return nil, session.NewRPCFailure(bytes.Clone(state.err))
	}
	return nil, session.NewProtocolFailure(raw, nil, "%s: the task has the unknown status %q", f.first.Label, plain.Line(state.status, 64))
}

// meetQuestions asks the caller new questions of the task, and withdraws those that the server no longer asks.
func (f *taskFollower) meetQuestions(raw json.RawMessage, state taskState) *tool.Failure {
	var wants inputRequired
	if state.status == "input_required" && f.asking.Err() == nil {
		if err := session.EachMember(state.requests, wants.addRequest); err != nil {
			return session.NewProtocolFailure(raw, err, "%s: the server asks for input that cannot be given: %s", f.first.Label, plain.Line(err.Error(), 300))
		}
	}
	asked := map[string]bool{}
	for i, key := range wants.keys {
		asked[key] = true
		if f.known[key] {
			continue
		}
		f.known[key] = true
		if refused := f.operation.AdmitQuestion(wants.questions[i]); refused != nil {
			return session.NewProtocolFailure(raw, refused, "%s: the server asks for input that cannot be given: request %q: %s", f.first.Label, plain.Line(key, 64), refused.Message)
		}
		f.askCaller(key, wants.questions[i])
	}
	for key, cancel := range f.open {
		if !asked[key] {
			cancel()
			delete(f.open, key)
		}
	}
	return nil
}

// askCaller asks the caller a question in the background.
func (f *taskFollower) askCaller(key string, question tool.Question) {
	ctx, cancel := context.WithCancel(f.asking)
	f.open[key] = cancel
	question.Params = bytes.Clone(question.Params)
	f.source.background.Go(func() {
		answer, refused := f.operation.Ask(ctx, question)
		select {
		case f.answers <- taskAnswer{key, answer, refused}:
		case <-ctx.Done():
		}
	})
}

// taskState is the state of a task as its server reports it.
type taskState struct {
	id, status, message string
	interval            *time.Duration
	result, err         json.RawMessage
	requests            json.RawMessage
}

// readTask reads a task, in the members of either revision.
func readTask(raw json.RawMessage) (taskState, error) {
	var s taskState
	err := session.EachMember(raw, func(name string, value json.RawMessage) error {
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
			s.interval = readTTL(value) // also a number of milliseconds
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
