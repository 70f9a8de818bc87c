package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// ToolCall is a call to make as an agent.
type ToolCall struct {
	Agent     string
	Tool      string          // the name that the agent sees: skill__tool
	Arguments json.RawMessage // sent byte for byte
	// IdempotencyKey distinguishes calls with the same arguments. Empty: none.
	IdempotencyKey string
	// OnProgress is called with the progress of the call, from several goroutines. Nil: not called.
	OnProgress func(Progress)
}

// Progress is the progress of a call.
type Progress struct {
	CallID   string    // once it is known
	Status   string    // parked, approved, executing, …; empty: unknown
	Deadline time.Time // of the approval, or of the wait for a connection; zero: none
	Reason   string    // of needs_connection
	Attached bool      // the call was made before
	Lost     error     // the connection broke and is being restored
}

// Outcome is how a call ended.
type Outcome struct {
	CallID  string
	Status  string // succeeded, failed, rejected, …; see the API. Empty: no call was made
	Code    string // why it ended so
	Failure string // of failed calls: tool_error, jsonrpc_error, …
	Result  json.RawMessage
	Fault   *RPCError // the endpoint answered an error instead of a result
}

// callMeta is the _meta of a call's result.
type callMeta struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Code     string `json:"code"`
	Failure  string `json:"failure"`
	Attached bool   `json:"attached"`
}

// needsConnection is the status of calls whose skill has to be connected first.
const needsConnection = "needs_connection"

func isPending(status string) bool {
	return slices.Contains([]string{"parked", "approved", "executing", needsConnection}, status)
}

// awaitTool is the tool by which an agent waits for a call of its own.
const awaitTool = "holdpoint_await"

// codeInternal is JSON-RPC's code for an internal error of the server.
const codeInternal = -32603

// firstPatience is how long to try to reach a server that never answered.
const firstPatience = 5 * time.Second

// ErrAmbiguous means that the connection broke before the call's id was known, and that the server could not be asked
// whether it has the call.
var ErrAmbiguous = errors.New("it is not known whether the server received the call")

// StoppedError is a wait that ended before its call did.
type StoppedError struct {
	CallID string
	Err    error
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("stopped waiting for call %s: %v", e.CallID, e.Err)
}
func (e *StoppedError) Unwrap() error { return e.Err }

// Call makes a call and waits until it ends, through lost connections and restarts of the server. The call is sent again
// only if no byte of it can have arrived, or the server says that it does not have it. Once its id is known, Call only
// waits.
func (c *Client) Call(ctx context.Context, t ToolCall) (Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &waiting{Client: c, call: t, wake: make(chan struct{}, 1)}
	defer w.reporting.Wait()
	defer cancel()
	if t.OnProgress == nil {
		w.call.OnProgress = func(Progress) {}
	}
	found, err := w.submitCall(ctx)
	if err != nil && w.id == "" {
		return Outcome{}, err
	}
	if err == nil {
		if readCallMeta(found.result).Attached {
			w.call.OnProgress(Progress{CallID: w.id, Attached: true})
		}
		outcome, done, err := w.settleAnswer(ctx, found)
		if err != nil || done {
			return outcome, err
		}
	}
	return w.awaitCall(ctx)
}

// waiting is one call on its way.
type waiting struct {
	*Client
	call    ToolCall
	id      string // once it is known
	mark    string // the newest call there was before
	marked  bool
	reached bool // the server answered once

	mu        sync.Mutex
	shown     string // the last reported status
	following bool   // a goroutine reports progress
	again     bool   // there is newer progress
	wake      chan struct{}
	reporting sync.WaitGroup

	attempts
}

// attempts counts the attempts in a row that did not reach the server.
type attempts struct {
	tries  int
	waited time.Duration // between them
}

// waitNext waits before the next attempt, longer each time. It returns false when ctx ends.
func (a *attempts) waitNext(ctx context.Context, first time.Duration) bool {
	delay := min(first<<min(a.tries, 5), 20*first)
	a.tries++
	a.waited += delay
	return pause.For(ctx, delay) == nil
}

// submitCall sends the call until the server has it. When it returns an error, the
// call's id may be known nevertheless.
func (w *waiting) submitCall(ctx context.Context) (answer, error) {
	for {
		if !w.marked && w.call.IdempotencyKey == "" {
			w.mark, w.marked = w.newestCall(ctx)
			w.reached = w.reached || w.marked
		}
		found, err := w.sendCall(ctx)
		var lost *LostError
		if err == nil || w.id != "" || !errors.As(err, &lost) || !w.tryAgain(ctx, err) {
			return found, err
		}
		if !lost.Sent || w.call.IdempotencyKey != "" {
			continue
		}
		if !w.marked {
			return answer{}, errors.Join(ErrAmbiguous, err)
		}
		var unclear error
		if w.id, unclear = w.findCall(ctx); unclear != nil {
			return answer{}, errors.Join(ErrAmbiguous, unclear)
		}
		if w.id != "" {
			return answer{}, err
		}
	}
}

func (w *waiting) sendCall(ctx context.Context) (answer, error) {
	name, err := json.Marshal(w.call.Tool)
	if err != nil {
		return answer{}, fmt.Errorf("encode request: %w", err)
	}
	r := request{
		agent: w.call.Agent, method: "tools/call",
		params: []member{{"name", name}, {"arguments", w.call.Arguments}},
		begun:  w.noteBegun(ctx),
	}
	if w.call.IdempotencyKey != "" {
		r.meta = map[string]any{metaIdempotency: w.call.IdempotencyKey}
	}
	return w.sendRPC(ctx, r)
}

// noteBegun notes the call's id as soon as it is known. If the response is held open, it reports the call's progress.
func (w *waiting) noteBegun(ctx context.Context) func(string, bool) {
	return func(id string, held bool) {
		w.id, w.tries, w.reached = id, 0, true
		if held {
			w.followCall(ctx, id, "")
		}
	}
}

// followCall reports the progress of a waiting call, unless its status was reported before. With the status "", it reports only
// if nothing was reported yet.
func (w *waiting) followCall(ctx context.Context, id, status string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shown != "" && (status == "" || status == w.shown) {
		return
	}
	if w.again = w.following; w.again {
		select {
		case w.wake <- struct{}{}:
		default: // it is awake
		}
		return
	}
	w.following = true
	w.reporting.Go(func() {
		for w.reportProgress(ctx, id); w.hasMore(); w.reportProgress(ctx, id) {
		}
	})
}

// hasMore ends the reporting, unless there is newer progress.
func (w *waiting) hasMore() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.following, w.again = w.again, false
	return w.following
}

// lookAgain is the interval of checks of a call that waits for a connection, in units of Retry.
const lookAgain = 8

// reportProgress reports what a call waits for. While it waits for a connection, it checks again: the call may need an
// approval next.
func (w *waiting) reportProgress(ctx context.Context, id string) {
	status := ""
	for {
		// An error is not reported: the call itself continues.
		if found, err := w.fetchCall(ctx, id); err == nil {
			status = found.Status
			w.reportOnce(id, found)
		}
		if status != needsConnection {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-time.After(lookAgain * w.Retry):
		}
	}
}

func (w *waiting) reportOnce(id string, found Call) {
	w.mu.Lock()
	known := w.shown == found.Status
	w.shown = found.Status
	w.mu.Unlock()
	if known || !isPending(found.Status) {
		return
	}
	news := Progress{CallID: id, Status: found.Status}
	if found.Deadline != nil {
		news.Deadline = *found.Deadline
	}
	if found.Message != nil && found.Status == needsConnection {
		news.Reason = *found.Message
	}
	w.call.OnProgress(news)
}

func (w *waiting) fetchCall(ctx context.Context, id string) (Call, error) {
	return Value(w.GetCall(ctx, id))
}

// settleAnswer reads an answer and reports whether the call has ended.
func (w *waiting) settleAnswer(ctx context.Context, found answer) (Outcome, bool, error) {
	meta := readCallMeta(found.result)
	if w.id == "" {
		w.id = meta.ID
	}
	outcome := Outcome{CallID: w.id, Status: meta.Status, Code: meta.Code, Failure: meta.Failure, Result: found.result, Fault: found.fault}
	if meta.Status != "" || w.id == "" {
		if isPending(meta.Status) {
			w.followCall(ctx, w.id, meta.Status)
		}
		return outcome, !isPending(meta.Status), nil
	}
	state, err := w.fetchCall(ctx, w.id)
	if err != nil {
		return outcome, false, &StoppedError{CallID: w.id, Err: err}
	}
	outcome.Status = state.Status
	if state.Failure != nil {
		outcome.Failure = *state.Failure
	}
	return outcome, !isPending(state.Status), nil
}

// awaitCall waits for a call whose id is known, with holdpoint_await.
func (w *waiting) awaitCall(ctx context.Context) (Outcome, error) {
	arguments, err := json.Marshal(map[string]string{"call_id": w.id})
	if err != nil {
		return Outcome{}, fmt.Errorf("encode request: %w", err)
	}
	for {
		found, err := w.sendRPC(ctx, request{
			agent: w.call.Agent, method: "tools/call", begun: w.noteBegun(ctx),
			params: []member{{"name", json.RawMessage(`"` + awaitTool + `"`)}, {"arguments", arguments}},
		})
		if err == nil {
			outcome, done, unclear := w.settleAnswer(ctx, found)
			if done {
				return outcome, nil
			}
			err = unclear
			if found.fault != nil && err == nil {
				err = found.fault // of the endpoint, not of the call
			}
		}
		if err == nil {
			w.tries, w.waited = 0, 0
			err = pause.For(ctx, w.Retry) // an answer that came too soon is not asked for in a tight loop
			if err == nil {
				continue
			}
		}
		if !w.tryAgain(ctx, err) {
			return Outcome{}, &StoppedError{CallID: w.id, Err: err}
		}
	}
}

// tryAgain waits before the next attempt, longer each time. It returns false if there should be none.
func (w *waiting) tryAgain(ctx context.Context, err error) bool {
	var lost *LostError
	var refused *Problem
	var fault *RPCError
	known, patience := w.id != "", w.Patience
	if !known && !w.reached {
		patience = min(patience, firstPatience) // it may never have been there
	}
	switch {
	case ctx.Err() != nil || w.waited >= patience:
		return false
	case errors.As(err, &lost):
	case known && errors.As(err, &fault) && fault.Code == codeInternal:
	case known && errors.As(err, &refused) && refused.Status >= http.StatusInternalServerError:
	default:
		return false
	}
	if w.tries == 0 {
		w.call.OnProgress(Progress{CallID: w.id, Lost: err})
	}
	return w.waitNext(ctx, w.Retry)
}

func readCallMeta(result json.RawMessage) callMeta {
	var r struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var meta callMeta
	if json.Unmarshal(result, &r) == nil {
		_ = json.Unmarshal(r.Meta[metaCall], &meta) // without valid _meta nothing is known
	}
	return meta
}
