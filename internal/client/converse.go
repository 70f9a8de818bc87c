package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// StreamEvent is one event of a conversation's stream.
type StreamEvent struct {
	Seq  int64           // number of the entry; 0: not an entry
	Name string          // the entry's kind; state, delta or restart
	Data json.RawMessage // in the API's form
}

// The names of events that are not entries.
const (
	EventState   = "state"
	EventDelta   = "delta"   // Data is a [Delta]
	EventRestart = "restart" // the text of the current reply is void
)

// Delta is new text of the current reply. It continues the previous one.
type Delta struct {
	Step   int64  `json:"step"`
	Offset int    `json:"offset"`
	Text   string `json:"text"`
}

// Following configures [Client.Follow].
type Following struct {
	Conversation string
	After        int64 // number of the last entry that is not needed
	// OnEvent is called with each event, once. Follow returns its error.
	OnEvent func(StreamEvent) error
	// OnLost is called if the connection is lost and is being restored. Nil: not called.
	OnLost func(error)
}

// Follow passes on the events of a conversation, through lost connections and restarts of the server, until ctx ends or
// OnEvent returns an error.
func (c *Client) Follow(ctx context.Context, f Following) error {
	if f.OnLost == nil {
		f.OnLost = func(error) {}
	}
	w := &followed{Client: c, Following: f}
	for {
		err := w.listenOnce(ctx)
		var lost *LostError
		patience := c.Patience
		if !w.reached {
			patience = min(patience, firstPatience) // the server may not exist
		}
		if !errors.As(err, &lost) || ctx.Err() != nil || w.waited >= patience {
			return err
		}
		if w.tries == 1 { // the first loss is not reported: the server may be restarting
			f.OnLost(err)
		}
		if !w.waitNext(ctx, c.Retry) {
			return context.Cause(ctx)
		}
	}
}

// followed is a followed conversation.
type followed struct {
	*Client
	Following
	attempts
	reached bool
	step    int64  // of the current reply
	shown   string // the text of the reply that was passed on
	state   string // the last state that was passed on
}

// listenOnce follows over one connection. The error for a lost connection or an unavailable server is a *LostError.
func (w *followed) listenOnce(ctx context.Context) error {
	ctx, watch := w.watchSilence(ctx)
	defer watch.stop()
	address := w.base + "/api/v1/conversations/" + url.PathEscape(w.Conversation) + "/events"
	response, err := w.openStream(ctx, address, strconv.FormatInt(w.After, 10), func(http.Header) {})
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	content := watch.watchReader(response.Body)
	if response.StatusCode != http.StatusOK {
		text, err := readAll(content)
		if err == nil {
			err = readProblem(response, text)
		}
		if response.StatusCode >= http.StatusInternalServerError {
			err = &LostError{Err: err}
		}
		return err
	}
	err = eachEvent(content, func(e event) (bool, error) {
		w.reached, w.attempts = true, attempts{}
		return false, w.handleEvent(e)
	})
	if errors.Is(err, errCut) {
		err = &LostError{Err: causeOf(ctx, errors.New("the server ended the stream"))}
	}
	return err
}

// handleEvent passes on an event, unless it was passed on over an earlier connection.
func (w *followed) handleEvent(e event) error {
	switch e.name {
	case EventDelta:
		return w.handleDelta(e.data)
	case EventRestart:
		return w.reportRestart()
	case EventState:
		return w.handleState(e.data)
	}
	seq, err := strconv.ParseInt(e.id, 10, 64)
	if err != nil {
		return nil //nolint:nilerr // an event of a newer server
	}
	if seq <= w.After {
		return nil
	}
	switch e.name {
	case "assistant":
		w.shown = ""
	case "call":
	default:
		if err := w.reportRestart(); err != nil {
			return err
		}
	}
	w.After = seq
	return w.OnEvent(StreamEvent{Seq: seq, Name: e.name, Data: append(json.RawMessage{}, e.data...)})
}

func (w *followed) handleState(data []byte) error {
	var state struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(data, &state) == nil && state.Status != "working" {
		if err := w.reportRestart(); err != nil { // its own event may have been lost
			return err
		}
	}
	if w.state == string(data) {
		return nil
	}
	w.state = string(data)
	return w.OnEvent(StreamEvent{Name: EventState, Data: json.RawMessage(w.state)})
}

// reportRestart reports that the text of the reply is void, if any was passed on.
func (w *followed) reportRestart() error {
	if w.shown == "" {
		return nil
	}
	w.shown = ""
	data, err := json.Marshal(map[string]int64{"step": w.step})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return w.OnEvent(StreamEvent{Name: EventRestart, Data: data})
}

// handleDelta passes on the new text: a new connection begins with the whole reply so far.
func (w *followed) handleDelta(data []byte) error {
	var d Delta
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("decode an event of the server: %w", err)
	}
	whole := d.Text
	if d.Step == w.step && d.Offset > 0 && d.Offset <= len(w.shown) {
		whole = w.shown[:d.Offset] + d.Text
	}
	if d.Step != w.step || !strings.HasPrefix(whole, w.shown) {
		if err := w.reportRestart(); err != nil {
			return err
		}
	}
	before := len(w.shown)
	w.step, w.shown = d.Step, whole
	if before == len(whole) {
		return nil
	}
	fresh, err := json.Marshal(Delta{Step: d.Step, Offset: before, Text: whole[before:]})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return w.OnEvent(StreamEvent{Name: EventDelta, Data: fresh})
}

// Say sends a message to a conversation, once, however often the connection breaks.
func (c *Client) Say(ctx context.Context, conversation, message string) (Reply[Said], error) {
	key, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make idempotency key: %w", err)
	}
	for tries := (attempts{}); ; {
		text, err := c.sayOnce(ctx, conversation, message, key.String())
		var refused *Problem
		if err == nil || errors.As(err, &refused) && refused.Status < http.StatusInternalServerError ||
			ctx.Err() != nil || tries.waited >= c.Patience || !tries.waitNext(ctx, c.Retry) {
			return text, err
		}
	}
}

func (c *Client) sayOnce(ctx context.Context, conversation, message, key string) (Reply[Said], error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	body, err := encodeBody(SayRequest{Message: message})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	request, err := c.newRequest(ctx, http.MethodPost, "/api/v1/conversations/"+Segment(conversation)+"/messages", nil, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Idempotency-Key", key)
	return c.fetch(request)
}
