package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/internal/client"
)

// errLeft ends a chat in good order.
var errLeft = errors.New("left")

// runLoop passes events and input until there is an answer, or the person at the terminal leaves.
func (c *chat) runLoop(ctx context.Context, message string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lines <-chan string
	if c.interactive {
		c.notef("Conversation %s with %s. /help lists the commands.", c.id, c.agent)
		lines = c.readLines(ctx)
	} else if _, err := c.sendMessage(ctx, message); err != nil {
		return err
	}
	followed := c.followConversation(ctx)
	defer func() { followed.end() }()
	var typed strings.Builder
	for {
		var err error
		select {
		case event := <-followed.events:
			err = c.handleEvent(ctx, event)
		case lost := <-followed.lost:
			c.show.noteLinef("%v; the conversation continues, trying again", lost)
		case err = <-followed.broken:
			err = c.awayError(err)
		case line, more := <-lines:
			if !more {
				err = errLeft
				break
			}
			before := c.id
			if err = c.handleLine(ctx, &typed, line); err == nil && c.id != before {
				followed.end()
				followed = c.followConversation(ctx)
			}
		case <-c.interrupts:
			err = c.handleInterrupt(ctx)
		case <-ctx.Done():
			err = c.awayError(context.Cause(ctx))
		}
		if err != nil {
			return c.leaveChat(ctx, err)
		}
	}
}

// chatFollow follows one conversation.
type chatFollow struct {
	events chan client.StreamEvent
	lost   chan error // a connection, which is being restored
	broken chan error
	cancel context.CancelFunc
}

func (f *chatFollow) end() { f.cancel() }

func (c *chat) followConversation(ctx context.Context) *chatFollow {
	ctx, cancel := context.WithCancel(ctx)
	f := &chatFollow{events: make(chan client.StreamEvent), lost: make(chan error), broken: make(chan error, 1), cancel: cancel}
	following := client.Following{
		Conversation: c.id, After: c.lastSeq,
		OnEvent: func(event client.StreamEvent) error { return sendValue(ctx, f.events, event) },
		OnLost:  func(err error) { _ = sendValue(ctx, f.lost, err) },
	}
	go func() { f.broken <- c.api.Follow(ctx, following) }()
	return f
}

// sendValue sends a value unless ctx ends first.
func sendValue[T any](ctx context.Context, to chan<- T, value T) error {
	select {
	case to <- value:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// handleEvent shows an event, and ends the chat when the answer is there.
func (c *chat) handleEvent(ctx context.Context, event client.StreamEvent) error {
	if event.Seq > 0 {
		c.lastSeq = event.Seq
	}
	entry, state, err := c.show.showEvent(ctx, event)
	if err != nil {
		return err
	}
	switch {
	case entry != nil:
		c.noteEntry(entry)
		return nil
	case state == nil:
		return nil
	}
	c.status = state.Status
	if state.Status == "working" || state.Status == "waiting" && !c.interactive {
		return nil
	}
	if state.Status == "ended" {
		return c.endResult(state)
	}
	if state.Status == "idle" {
		c.stopping = false
		if !c.interactive && c.taken {
			return c.endResult(state)
		}
	}
	if c.interactive {
		c.show.showPrompt(c.lastSeq)
	}
	return nil
}

// noteEntry updates the state of the awaited answer.
func (c *chat) noteEntry(entry *client.ConversationEntry) {
	switch {
	case entry.User != nil && entry.User.ID == c.mine:
		c.taken, c.answered, c.failure = true, false, ""
	case entry.Assistant != nil:
		c.answered, c.failure = len(entry.Assistant.Calls) == 0, ""
	case entry.Notice != nil:
		c.failure = entry.Notice.Code
	}
}

// endResult returns the result at the end of the work.
func (c *chat) endResult(state *client.Loop) error {
	switch {
	case c.closed:
		return errLeft
	case c.failure != "":
		return fmt.Errorf("the answer is incomplete (%s)", c.failure)
	case state.Status == "ended" && (!c.taken || !c.answered):
		return fmt.Errorf("the conversation has ended (%s)", value(state.Code))
	case !c.answered && !c.interactive:
		return errors.New("there is no answer")
	}
	return errLeft
}

// handleLine handles a line, which may be a part of a message.
func (c *chat) handleLine(ctx context.Context, message *strings.Builder, line string) error {
	c.show.prompted = false // the line break was typed
	if text, continued := strings.CutSuffix(line, `\`); continued {
		message.WriteString(text + "\n")
		c.show.showAsk("... ")
		return nil
	}
	text := message.String() + line
	message.Reset()
	var err error
	switch {
	case strings.TrimSpace(text) == "":
	case strings.HasPrefix(text, "/"):
		err = c.runCommand(ctx, text)
	default:
		if _, err = c.sendMessage(ctx, text); err == nil {
			c.status = "working"
		}
	}
	if refused, ok := errors.AsType[*client.Problem](err); ok && refused.Status < 500 {
		c.printError(err) // the person may try something else
		err = nil
	}
	if err == nil && c.status != "working" {
		c.show.showPrompt(c.lastSeq)
	}
	return err
}

// runCommand runs a line that begins with a slash.
func (c *chat) runCommand(ctx context.Context, text string) error {
	name, rest, _ := strings.Cut(text, " ")
	switch name {
	case "/help":
		c.notef("%s", chatHelp)
	case "/stop":
		return c.stopWork(ctx)
	case "/close":
		c.closed = true
		_, err := c.api.CloseConversation(ctx, c.id)
		return err
	case "/fork":
		return c.forkConversation(ctx, strings.TrimSpace(rest))
	default:
		c.notef("Unknown command %s: /help lists the commands.", name)
	}
	return nil
}

func (c *chat) stopWork(ctx context.Context) error {
	_, err := c.api.CancelConversation(ctx, c.id)
	return err
}

func (c *chat) forkConversation(ctx context.Context, words string) error {
	number, message, _ := strings.Cut(words, " ")
	seq, _ := strconv.ParseInt(number, 10, 64) // other text is no entry
	if seq < 1 {
		c.notef("Name an entry: /fork N")
		return nil
	}
	reply, err := c.api.ForkConversation(ctx, c.id, client.ForkRequest{Seq: seq, Message: given(strings.TrimSpace(message))})
	if err != nil {
		return err
	}
	if err := c.enterConversation(reply); err != nil {
		return err
	}
	c.notef("Continuing in conversation %s.", c.id)
	return nil
}

// handleInterrupt handles Ctrl-C: the first cancels the work under way, the second leaves the chat.
func (c *chat) handleInterrupt(ctx context.Context) error {
	busy := c.status == "working" || c.status == "waiting"
	if !c.interactive || !busy || c.stopping {
		return &ExitError{Code: ExitInterrupted, Err: errors.New("left")}
	}
	c.stopping = true
	c.show.endLine()
	c.notef("Stopping; Ctrl-C again leaves.")
	err := c.stopWork(ctx)
	if refused, ok := errors.AsType[*client.Problem](err); ok && refused.Code == "conversation_idle" {
		return nil // it ended meanwhile
	}
	return err
}

// awayError is the error of a lost conversation.
func (c *chat) awayError(err error) error {
	if err == nil {
		err = errors.New("the server ended the stream")
	}
	return fmt.Errorf("stopped following: %w", err)
}

// leaveChat ends the chat, and says how to come back to a conversation that continues.
func (c *chat) leaveChat(ctx context.Context, why error) error {
	c.show.endLine()
	if errors.Is(why, errLeft) && c.interactive && c.begun && c.lastSeq == 0 && c.mine == "" && !c.closed {
		_, err := c.api.CloseConversation(ctx, c.id) // it is empty
		return err
	}
	back := fmt.Sprintf("To come back: holdpoint chat %s --conversation %s", c.agent, c.id)
	on := c.status == "working" || c.status == "waiting"
	exit, left := errors.AsType[*ExitError](why)
	switch {
	case left && on:
		return &ExitError{Code: exit.Code, Err: fmt.Errorf("the conversation continues\n  %s", back)}
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
