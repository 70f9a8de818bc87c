package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// ToolCall is a call to make as an agent.
type ToolCall struct {
	Agent     string
	Tool      string          // as the agent sees it: skill__tool
	Arguments json.RawMessage // sent byte for byte
	// IdempotencyKey tells intended twins apart. Empty: none.
	IdempotencyKey string
	// Told is called with news while the call is on its way. Nil: nobody is told.
	// It may be called from several goroutines.
	Told func(News)
}

// News is what happens to a call before its end.
type News struct {
	CallID   string    // once it is known
	Status   string    // parked, approved, executing, …; empty: unknown
	Deadline time.Time // of the approval, or of the wait for a connection; zero: none
	Reason   string    // of needs_connection: what somebody has to do
	Attached bool      // the call had been made before, and this is it
	Lost     error     // the connection broke; it is being made again
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

// callMeta is what the endpoint says of a call with its result.
type callMeta struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Code     string `json:"code"`
	Failure  string `json:"failure"`
	Attached bool   `json:"attached"`
}

// needsConnection is the status of calls whose skill somebody has to connect first.
const needsConnection = "needs_connection"

func pending(status string) bool {
	switch status {
	case "parked", "approved", "executing", needsConnection:
		return true
	}
	return false
}

// awaitTool is the tool by which an agent waits for a call of its own.
const awaitTool = "holdpoint_await"

// codeInternal is JSON-RPC's code for what is the server's own fault.
const codeInternal = -32603

// firstPatience is how long to try to reach a server that was not heard of yet.
const firstPatience = 5 * time.Second

// ErrAmbiguous means that the connection broke before the server said a call's id, and
// that it cannot be found out whether it has the call.
var ErrAmbiguous = errors.New("it is not known whether the server received the call")

// StoppedError tells of a wait that ended before its call did.
type StoppedError struct {
	CallID string
	Err    error
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("stopped waiting for call %s: %v", e.CallID, e.Err)
}
func (e *StoppedError) Unwrap() error { return e.Err }

// Call makes a call and waits to its end, over lost connections and restarts
// of the server. It is sent again only when no byte of it can have arrived, or the
// server, asked, does not have it; from when its id is known, it is waited for and nothing else.
func (c *Client) Call(ctx context.Context, t ToolCall) (Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &waiting{Client: c, call: t, wake: make(chan struct{}, 1)}
	defer w.telling.Wait()
	defer cancel()
	if t.Told == nil {
		w.call.Told = func(News) {}
	}
	found, err := w.submit(ctx)
	if err != nil && w.id == "" {
		return Outcome{}, err
	}
	if err == nil {
		if metaOf(found.result).Attached {
			w.call.Told(News{CallID: w.id, Attached: true})
		}
		outcome, done, err := w.settle(ctx, found)
		if err != nil || done {
			return outcome, err
		}
	}
	return w.await(ctx)
}

// waiting is one call on its way.
type waiting struct {
	*Client
	call    ToolCall
	id      string // once it is known
	mark    string // the newest call there was before
	marked  bool
	reached bool // the server answered once

	saying    sync.Mutex
	said      string // the status that was told last
	following bool   // somebody is telling
	again     bool   // there are other news by now
	wake      chan struct{}
	telling   sync.WaitGroup

	attempts
}

// attempts are those in a row that did not reach the server.
type attempts struct {
	tries  int
	waited time.Duration // between them
}

// pause waits before the next one, longer each time, and reports whether there should be one.
func (a *attempts) pause(ctx context.Context, first time.Duration) bool {
	delay := min(first<<min(a.tries, 5), 20*first)
	a.tries++
	a.waited += delay
	return pause.For(ctx, delay) == nil
}

// submit sends the call until the server has it. When it returns an error, the
// call's id may be known nevertheless.
func (w *waiting) submit(ctx context.Context) (answer, error) {
	for {
		if !w.marked && w.call.IdempotencyKey == "" {
			w.mark, w.marked = w.newest(ctx)
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
		if w.id, unclear = w.find(ctx); unclear != nil {
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
		begun:  w.begun(ctx),
	}
	if w.call.IdempotencyKey != "" {
		r.meta = map[string]any{metaIdempotency: w.call.IdempotencyKey}
	}
	return w.send(ctx, r)
}

// begun notes the call's id as soon as it is known, and tells what the call
// waits for whose response is held open.
func (w *waiting) begun(ctx context.Context) func(string, bool) {
	return func(id string, held bool) {
		w.id, w.tries, w.reached = id, 0, true
		if held {
			w.follow(ctx, id, "")
		}
	}
}

// follow tells what a call waits for, unless that was told before. status is what the call is known to be in;
// empty: whatever it is in, if nothing was told yet.
func (w *waiting) follow(ctx context.Context, id, status string) {
	w.saying.Lock()
	defer w.saying.Unlock()
	if w.said != "" && (status == "" || status == w.said) {
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
	w.telling.Go(func() {
		for w.tell(ctx, id); w.more(); w.tell(ctx, id) {
		}
	})
}

// more ends the telling, unless there are other news by now.
func (w *waiting) more() bool {
	w.saying.Lock()
	defer w.saying.Unlock()
	w.following, w.again = w.again, false
	return w.following
}

// lookAgain is how often a call is looked at that waits for a connection, in units of Retry.
const lookAgain = 8

// tell says what a call waits for. While that is a connection it looks again: an approval may come next, and
// its reviewer should not be waited for in silence.
func (w *waiting) tell(ctx context.Context, id string) {
	status := ""
	for {
		// News that cannot be had are not worth a message of their own.
		if found, err := w.state(ctx, id); err == nil {
			status = found.Status
			w.say(id, found)
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

func (w *waiting) say(id string, found callState) {
	w.saying.Lock()
	known := w.said == found.Status
	w.said = found.Status
	w.saying.Unlock()
	if known || !pending(found.Status) {
		return
	}
	news := News{CallID: id, Status: found.Status}
	if found.Deadline != nil {
		news.Deadline = *found.Deadline
	}
	if found.Message != nil && found.Status == needsConnection {
		news.Reason = *found.Message
	}
	w.call.Told(news)
}

// callState is what matters here of the API's call.
type callState struct {
	Status   string     `json:"status"`
	Failure  *string    `json:"failure"`
	Message  *string    `json:"message"`
	Deadline *time.Time `json:"deadline"`
}

func (w *waiting) state(ctx context.Context, id string) (callState, error) {
	var found callState
	text, err := w.Get(ctx, "calls/"+Segment(id), nil)
	if err != nil {
		return found, err
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return found, fmt.Errorf("understand call %s: %w", id, err)
	}
	return found, nil
}

// settle looks at an answer: the call's end, or it is still on its way.
func (w *waiting) settle(ctx context.Context, found answer) (Outcome, bool, error) {
	meta := metaOf(found.result)
	if w.id == "" {
		w.id = meta.ID
	}
	outcome := Outcome{CallID: w.id, Status: meta.Status, Code: meta.Code, Failure: meta.Failure, Result: found.result, Fault: found.fault}
	if meta.Status != "" || w.id == "" {
		if pending(meta.Status) {
			w.follow(ctx, w.id, meta.Status)
		}
		return outcome, !pending(meta.Status), nil
	}
	state, err := w.state(ctx, w.id)
	if err != nil {
		return outcome, false, &StoppedError{CallID: w.id, Err: err}
	}
	outcome.Status = state.Status
	if state.Failure != nil {
		outcome.Failure = *state.Failure
	}
	return outcome, !pending(state.Status), nil
}

// await waits for a call whose id is known, with holdpoint_await.
func (w *waiting) await(ctx context.Context) (Outcome, error) {
	arguments, err := json.Marshal(map[string]string{"call_id": w.id})
	if err != nil {
		return Outcome{}, fmt.Errorf("encode request: %w", err)
	}
	for {
		found, err := w.send(ctx, request{
			agent: w.call.Agent, method: "tools/call", begun: w.begun(ctx),
			params: []member{{"name", json.RawMessage(`"` + awaitTool + `"`)}, {"arguments", arguments}},
		})
		if err == nil {
			outcome, done, unclear := w.settle(ctx, found)
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

// tryAgain waits before the next attempt, longer each time, and reports
// whether there should be one.
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
		w.call.Told(News{CallID: w.id, Lost: err})
	}
	return w.pause(ctx, w.Retry)
}

func metaOf(result json.RawMessage) callMeta {
	var r struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var meta callMeta
	if json.Unmarshal(result, &r) == nil {
		_ = json.Unmarshal(r.Meta[metaCall], &meta) // absent or strange: nothing is known
	}
	return meta
}
