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

// TalkEvent is what a conversation's stream tells.
type TalkEvent struct {
	Seq  int64           // of entries; 0: it is none
	Name string          // the entry's kind; state, delta or restart
	Data json.RawMessage // as the API has it
}

// The events that are no entries.
const (
	TalkState   = "state"
	TalkDelta   = "delta"   // Data is a [TalkDeltaData]
	TalkRestart = "restart" // what was told of the reply under way is void
)

// TalkDeltaData is what is new of the reply under way. Each follows the one before.
type TalkDeltaData struct {
	Step   int64  `json:"step"`
	Offset int    `json:"offset"`
	Text   string `json:"text"`
}

// Following is how a conversation is followed.
type Following struct {
	Conversation string
	After        int64 // the entry to begin after
	// Told is called with each event, once. An error ends the following, and is what it returns.
	Told func(TalkEvent) error
	// Lost is called when the connection broke and is being made again. Nil: nobody is told.
	Lost func(error)
}

// Follow tells what happens in a conversation, over lost connections and restarts of the server, until ctx or Told end it.
func (c *Client) Follow(ctx context.Context, f Following) error {
	if f.Lost == nil {
		f.Lost = func(error) {}
	}
	w := &followed{Client: c, Following: f}
	for {
		err := w.listen(ctx)
		var lost *LostError
		patience := c.Patience
		if !w.reached {
			patience = min(patience, firstPatience) // it may never have been there
		}
		if !errors.As(err, &lost) || ctx.Err() != nil || w.waited >= patience {
			return err
		}
		if w.tries == 1 { // one that ends in good order is nothing to speak of: the server restarts
			f.Lost(err)
		}
		if !w.pause(ctx, c.Retry) {
			return context.Cause(ctx)
		}
	}
}

// followed is a conversation and how far it was told.
type followed struct {
	*Client
	Following
	attempts
	reached bool
	step    int64  // of the reply under way
	said    string // that was told of it
	state   string // that was told last
}

// listen follows on one connection. A *LostError: it broke, or the server is away.
func (w *followed) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := newWatch(w.Silence, cancel)
	defer watch.stop()
	address := w.base + "/api/v1/conversations/" + url.PathEscape(w.Conversation) + "/events"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Last-Event-ID", strconv.FormatInt(w.After, 10))
	w.authorize(request)
	response, err := w.HTTP.Do(request)
	if err != nil {
		return &LostError{Err: cause(ctx, w.unreachable(err))}
	}
	defer func() { _ = response.Body.Close() }()
	content := watch.reader(response.Body)
	if response.StatusCode != http.StatusOK {
		text, err := readAll(content)
		if err == nil {
			err = problemOf(response, text)
		}
		if response.StatusCode >= http.StatusInternalServerError {
			err = &LostError{Err: err}
		}
		return err
	}
	err = anyEvent(content, func(e event) (bool, error) {
		w.reached, w.attempts = true, attempts{}
		return false, w.take(e)
	})
	if errors.Is(err, errCut) {
		err = &LostError{Err: cause(ctx, errors.New("the server ended the stream"))}
	}
	return err
}

// take tells an event, unless it was told on an earlier connection.
func (w *followed) take(e event) error {
	switch e.name {
	case TalkDelta:
		return w.delta(e.data)
	case TalkRestart:
		return w.restart()
	case TalkState:
		return w.stands(e.data)
	}
	seq, err := strconv.ParseInt(e.id, 10, 64)
	if err != nil {
		return nil //nolint:nilerr // of a newer server: it is no entry
	}
	if seq <= w.After {
		return nil
	}
	switch e.name {
	case "assistant":
		w.said = ""
	case "call":
	default:
		if err := w.restart(); err != nil {
			return err
		}
	}
	w.After = seq
	return w.Told(TalkEvent{Seq: seq, Name: e.name, Data: append(json.RawMessage{}, e.data...)})
}

func (w *followed) stands(data []byte) error {
	var state struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(data, &state) == nil && state.Status != "working" {
		if err := w.restart(); err != nil { // the server may have said so while nobody listened
			return err
		}
	}
	if w.state == string(data) {
		return nil
	}
	w.state = string(data)
	return w.Told(TalkEvent{Name: TalkState, Data: json.RawMessage(w.state)})
}

// restart tells that what was told of the reply is void, if anything was.
func (w *followed) restart() error {
	if w.said == "" {
		return nil
	}
	w.said = ""
	data, err := json.Marshal(map[string]int64{"step": w.step})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return w.Told(TalkEvent{Name: TalkRestart, Data: data})
}

// delta tells what was not told yet: a new connection begins with the whole reply so far.
func (w *followed) delta(data []byte) error {
	var d TalkDeltaData
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("understand the server's events: %w", err)
	}
	whole := d.Text
	if d.Step == w.step && d.Offset > 0 && d.Offset <= len(w.said) {
		whole = w.said[:d.Offset] + d.Text
	}
	if d.Step != w.step || !strings.HasPrefix(whole, w.said) {
		if err := w.restart(); err != nil {
			return err
		}
	}
	before := len(w.said)
	w.step, w.said = d.Step, whole
	if before == len(whole) {
		return nil
	}
	fresh, err := json.Marshal(TalkDeltaData{Step: d.Step, Offset: before, Text: whole[before:]})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return w.Told(TalkEvent{Name: TalkDelta, Data: fresh})
}

// Say says something in a conversation, once, however often the connection breaks.
func (c *Client) Say(ctx context.Context, conversation, message string) (json.RawMessage, error) {
	key, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make idempotency key: %w", err)
	}
	path := "conversations/" + Segment(conversation) + "/messages"
	var tries attempts
	for {
		text, err := c.doOnce(ctx, http.MethodPost, path, map[string]string{"message": message}, key.String())
		var refused *Problem
		if err == nil || errors.As(err, &refused) && refused.Status < http.StatusInternalServerError ||
			ctx.Err() != nil || tries.waited >= c.Patience || !tries.pause(ctx, c.Retry) {
			return text, err
		}
	}
}
