package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/internal/client"
)

// errLeft ends a chat in good order.
var errLeft = errors.New("left")

// run converses until there is an answer, or whoever is at the terminal leaves.
func (c *chat) run(ctx context.Context, message string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lines <-chan string
	if c.interactive {
		c.notef("Conversation %s with %s. /help tells what can be typed besides messages.", c.id, c.agent)
		lines = c.lines(ctx)
	} else if _, err := c.say(ctx, message); err != nil {
		return err
	}
	followed := c.follow(ctx)
	defer func() { followed.end() }()
	var typed strings.Builder
	for {
		var err error
		select {
		case event := <-followed.events:
			err = c.take(ctx, event)
		case lost := <-followed.lost:
			c.show.tellf("%v; the conversation goes on, trying again", lost)
		case err = <-followed.broken:
			err = c.away(err)
		case line, more := <-lines:
			if !more {
				err = errLeft
				break
			}
			before := c.id
			if err = c.typed(ctx, &typed, line); err == nil && c.id != before {
				followed.end()
				followed = c.follow(ctx)
			}
		case <-c.interrupts:
			err = c.interrupted(ctx)
		case <-ctx.Done():
			err = c.away(context.Cause(ctx))
		}
		if err != nil {
			return c.leave(ctx, err)
		}
	}
}

// chatFollow is the following of one conversation.
type chatFollow struct {
	events chan client.TalkEvent
	lost   chan error // the connection, which is being made again
	broken chan error
	cancel context.CancelFunc
}

func (f *chatFollow) end() { f.cancel() }

func (c *chat) follow(ctx context.Context) *chatFollow {
	ctx, cancel := context.WithCancel(ctx)
	f := &chatFollow{events: make(chan client.TalkEvent), lost: make(chan error), broken: make(chan error, 1), cancel: cancel}
	following := client.Following{
		Conversation: c.id, After: c.lastSeq,
		Told: func(event client.TalkEvent) error { return hand(ctx, f.events, event) },
		Lost: func(err error) { _ = hand(ctx, f.lost, err) },
	}
	go func() { f.broken <- c.api.Follow(ctx, following) }()
	return f
}

// hand gives a value to whoever receives it, unless nobody does any more.
func hand[T any](ctx context.Context, to chan<- T, value T) error {
	select {
	case to <- value:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// take shows an event, and finds out whether the answer is there.
func (c *chat) take(ctx context.Context, event client.TalkEvent) error {
	if event.Seq > 0 {
		c.lastSeq = event.Seq
	}
	entry, state, err := c.show.event(ctx, event)
	if err != nil {
		return err
	}
	switch {
	case entry != nil:
		c.note(entry)
		return nil
	case state == nil:
		return nil
	}
	c.status = state.Status
	if state.Status == "working" || state.Status == "waiting" && !c.interactive {
		return nil
	}
	if state.Status == "ended" {
		return c.over(state)
	}
	if state.Status == "idle" {
		c.stopping = false
		if !c.interactive && c.taken {
			return c.over(state)
		}
	}
	if c.interactive {
		c.show.prompt(c.lastSeq)
	}
	return nil
}

// note keeps in mind what an entry means for the message that is to be answered.
func (c *chat) note(entry *entryView) {
	switch {
	case entry.User != nil && entry.User.ID == c.mine:
		c.taken, c.answered, c.failure = true, false, ""
	case entry.Assistant != nil:
		c.answered, c.failure = len(entry.Assistant.Calls) == 0, ""
	case entry.Notice != nil:
		c.failure = entry.Notice.Code
	}
}

// over tells how it came out.
func (c *chat) over(state *loopView) error {
	switch {
	case c.closed:
		return errLeft
	case c.failure != "":
		return fmt.Errorf("there is no whole answer (%s)", c.failure)
	case state.Status == "ended" && (!c.taken || !c.answered):
		return fmt.Errorf("the conversation has ended (%s)", value(state.Code))
	case !c.answered && !c.interactive:
		return errors.New("there is no answer")
	}
	return errLeft
}

// typed takes a line in, which may be a part of a message.
func (c *chat) typed(ctx context.Context, message *strings.Builder, line string) error {
	c.show.prompted = false // the line break was typed
	if text, continued := strings.CutSuffix(line, `\`); continued {
		message.WriteString(text + "\n")
		c.show.ask("... ")
		return nil
	}
	text := message.String() + line
	message.Reset()
	var err error
	switch {
	case strings.TrimSpace(text) == "":
	case strings.HasPrefix(text, "/"):
		err = c.command(ctx, text)
	default:
		if _, err = c.say(ctx, text); err == nil {
			c.status = "working"
		}
	}
	if refused, ok := errors.AsType[*client.Problem](err); ok && refused.Status < 500 {
		c.complain(err) // and it can be tried otherwise
		err = nil
	}
	if err == nil && c.status != "working" {
		c.show.prompt(c.lastSeq)
	}
	return err
}

// command does what begins with a slash.
func (c *chat) command(ctx context.Context, text string) error {
	name, rest, _ := strings.Cut(text, " ")
	switch name {
	case "/help":
		c.notef("%s", chatHelp)
	case "/stop":
		return c.stop(ctx)
	case "/close":
		c.closed = true
		_, err := c.api.Post(ctx, c.path("close"), nil)
		return err
	case "/fork":
		return c.fork(ctx, strings.TrimSpace(rest))
	default:
		c.notef("There is no command %s; /help tells which there are.", name)
	}
	return nil
}

func (c *chat) path(action string) string {
	return "conversations/" + client.Segment(c.id) + "/" + action
}

func (c *chat) stop(ctx context.Context) error {
	_, err := c.api.Post(ctx, c.path("cancel"), nil)
	return err
}

func (c *chat) fork(ctx context.Context, words string) error {
	number, message, _ := strings.Cut(words, " ")
	seq, _ := strconv.ParseInt(number, 10, 64) // what is no number is no entry
	if seq < 1 {
		c.notef("Say from which entry: /fork N")
		return nil
	}
	body := map[string]any{"seq": seq}
	if message = strings.TrimSpace(message); message != "" {
		body["message"] = message
	}
	text, err := c.api.Post(ctx, c.path("fork"), body)
	if err != nil {
		return err
	}
	if err := c.enter(text); err != nil {
		return err
	}
	c.notef("This is conversation %s now.", c.id)
	return nil
}

// interrupted is Ctrl-C: first what is under way is cancelled, then the chat is left.
func (c *chat) interrupted(ctx context.Context) error {
	busy := c.status == "working" || c.status == "waiting"
	if !c.interactive || !busy || c.stopping {
		return &ExitError{Code: ExitInterrupted, Err: errors.New("left")}
	}
	c.stopping = true
	c.show.fresh()
	c.notef("Stopping; Ctrl-C again leaves.")
	err := c.stop(ctx)
	if refused, ok := errors.AsType[*client.Problem](err); ok && refused.Code == "conversation_idle" {
		return nil // it came to its end meanwhile
	}
	return err
}

// away is that nothing more is heard of the conversation.
func (c *chat) away(err error) error {
	if err == nil {
		err = errors.New("the server ended the stream")
	}
	return fmt.Errorf("stopped following: %w", err)
}

// leave ends the chat, and says how to come back to a conversation that goes on.
func (c *chat) leave(ctx context.Context, why error) error {
	c.show.fresh()
	if errors.Is(why, errLeft) && c.interactive && c.begun && c.lastSeq == 0 && c.mine == "" && !c.closed {
		_, err := c.api.Post(ctx, c.path("close"), nil) // nothing was said in it
		return err
	}
	back := fmt.Sprintf("To come back: holdpoint chat %s --conversation %s", c.agent, c.id)
	on := c.status == "working" || c.status == "waiting"
	exit, left := errors.AsType[*ExitError](why)
	switch {
	case left && on:
		return &ExitError{Code: exit.Code, Err: fmt.Errorf("the conversation goes on\n  %s", back)}
	case left:
		return &ExitError{Code: exit.Code, Err: nil}
	case errors.Is(why, errLeft):
		if c.interactive && !c.closed && c.status != "ended" {
			c.notef("%s", back)
		}
		return nil
	case c.status == "ended":
		return why
	}
	return fmt.Errorf("%w\n  %s", why, back)
}

// loopView is how a conversation stands, as the API has it.
type loopView struct {
	Status       string            `json:"status"`
	Code         *string           `json:"code"`
	Stopping     bool              `json:"stopping"`
	LastSeq      int64             `json:"last_seq"`
	OpenCalls    int               `json:"open_calls"`
	Turns        int               `json:"turns"`
	InputTokens  int64             `json:"input_tokens"`
	OutputTokens int64             `json:"output_tokens"`
	Cost         float64           `json:"cost"`
	ForkedFrom   *string           `json:"forked_from"`
	Pending      []json.RawMessage `json:"pending"`
}
