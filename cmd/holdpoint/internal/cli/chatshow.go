package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/holdpoint/holdpoint/internal/client"
)

// chatShow shows the events of a conversation.
type chatShow struct {
	*Env
	api   *client.Client
	agent string
	id    string

	mine     []string // ids of the messages that were typed here, which are not shown again
	said     string   // the text of the reply under way that was shown
	cut      bool     // a note broke the line of the reply: it is shown again as a whole
	open     bool     // the line on the standard output is not complete
	prompted bool     // the line with the prompt is not complete
	waits    []string // ids and statuses of waiting calls that were shown
}

// showEvent shows an event. It returns the entry or the state in it.
func (s *chatShow) showEvent(ctx context.Context, event client.StreamEvent) (*client.ConversationEntry, *client.Loop, error) {
	if s.json {
		if err := s.printLine(event.Name, event.Seq, event.Data); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case event.Seq > 0:
		entry, err := client.Reply[client.ConversationEntry](event.Data).Value()
		if err == nil {
			err = s.showEntry(ctx, &entry)
		}
		return &entry, nil, err
	case event.Name == client.EventState:
		state, err := client.Reply[client.Loop](event.Data).Value()
		if err == nil && state.Status == "waiting" {
			s.showWaits(ctx)
		}
		return nil, &state, err
	case event.Name == client.EventDelta:
		delta, err := client.Reply[client.Delta](event.Data).Value()
		if err == nil {
			s.said += delta.Text
			err = s.printText(s.restOrWhole(delta.Text, s.said))
		}
		return nil, nil, err
	case event.Name == client.EventRestart:
		s.voidReply()
	}
	return nil, nil, nil
}

// printLine prints an event as JSON.
func (s *chatShow) printLine(name string, seq int64, data json.RawMessage) error {
	return s.printEncoded(struct {
		Event string          `json:"event"`
		ID    int64           `json:"id,omitempty"`
		Data  json.RawMessage `json:"data"`
	}{name, seq, data})
}

func (s *chatShow) showEntry(ctx context.Context, entry *client.ConversationEntry) error {
	switch {
	case entry.User != nil:
		if !slices.Contains(s.mine, entry.User.ID) {
			s.noteLinef("message: %s", entry.User.Text)
		}
	case entry.Assistant != nil:
		return s.showReply(entry)
	case entry.Call != nil:
		if entry.Call.Status == "parked" {
			s.showWaits(ctx)
			return nil
		}
		s.noteLinef("%s: %s, call %s%s", entry.Call.Status, entry.Call.Tool, entry.Call.ID, inBrackets(entry.Call.Code))
	case entry.Notice != nil:
		s.noteLinef("%s", entry.Notice.Text)
	}
	return nil
}

// showReply shows the part of a reply that was not shown yet, and its calls.
func (s *chatShow) showReply(entry *client.ConversationEntry) error {
	reply := entry.Assistant
	rest, goesOn := remainderAfter(s.said, reply.Text)
	if !goesOn {
		s.voidReply()
		rest = reply.Text
	}
	s.said = ""
	if err := s.printText(s.restOrWhole(rest, reply.Text)); err != nil {
		return err
	}
	s.endLine()
	for _, wish := range reply.Calls {
		switch {
		case wish.Refused != nil:
			s.noteLinef("not called: %s: %s", escapeCell(wish.Name), *wish.Refused) // the model may have invented the name
		case wish.CallID != "":
			s.noteLinef("calling: %s, call %s", wish.Name, wish.CallID)
		}
	}
	return nil
}

// restOrWhole returns the rest of a reply, or all of it if a note broke its line.
func (s *chatShow) restOrWhole(rest, whole string) string {
	if s.cut && rest != "" {
		rest = whole
	}
	s.cut = false
	return rest
}

// remainderAfter returns the part of a text after the part that was said. White space between parts may not have been said.
func remainderAfter(said, text string) (string, bool) {
	rest := []rune(text)
	for _, r := range said {
		if unicode.IsSpace(r) {
			continue
		}
		for len(rest) > 0 && unicode.IsSpace(rest[0]) {
			rest = rest[1:]
		}
		if len(rest) == 0 || rest[0] != r {
			return "", false
		}
		rest = rest[1:]
	}
	if strings.TrimSpace(string(rest)) == "" {
		return "", true
	}
	if strings.TrimRightFunc(said, unicode.IsSpace) != said { // the space before the rest was said
		return strings.TrimLeftFunc(string(rest), unicode.IsSpace), true
	}
	return string(rest), true
}

// showWaits shows the waiting calls of the conversation, each status once. An error is not worth a note.
func (s *chatShow) showWaits(ctx context.Context) {
	found, err := client.Value(s.api.ListCalls(ctx, client.ListCallsQuery{
		Conversation: s.id, Agent: s.agent, Status: []string{"parked", "needs_connection"}, Limit: new(int64(200)),
	}))
	if err != nil {
		return
	}
	for _, one := range slices.Backward(found.Items) {
		key := one.ID + one.Status
		if slices.Contains(s.waits, key) {
			continue
		}
		s.waits = append(s.waits, key)
		deadline := ""
		if one.Deadline != nil {
			deadline = ", deadline " + one.Deadline.UTC().Format(time.RFC3339)
		}
		switch one.Status { // an approved call does not wait
		case "parked":
			s.noteLinef("waiting for approval: %s, call %s%s", one.Name, one.ID, deadline)
		case "needs_connection":
			s.noteLinef("waiting for a connection of the skill: %s, call %s%s", one.Name, one.ID, deadline)
		}
		if one.Message != nil {
			s.noteLinef("  %s; see holdpoint connections list", *one.Message)
		}
	}
}

// printText prints a piece of the model's text.
func (s *chatShow) printText(text string) error {
	if text == "" || s.json {
		return nil
	}
	s.endPrompt()
	s.open = !strings.HasSuffix(text, "\n")
	return write(s.Stdout, Visible(text))
}

// voidReply says that the text shown of the reply is void.
func (s *chatShow) voidReply() {
	if s.said == "" {
		return
	}
	s.said, s.cut = "", false
	s.noteLinef("This reply broke off; its text above is void.")
}

// endLine completes the line.
func (s *chatShow) endLine() {
	if s.open {
		fmt.Fprintln(s.Stdout)
		s.open = false
	}
	s.endPrompt()
}

func (s *chatShow) endPrompt() {
	if s.prompted {
		fmt.Fprintln(s.Stderr)
		s.prompted = false
	}
}

// noteLinef prints a note on a line of its own.
func (s *chatShow) noteLinef(format string, args ...any) {
	s.cut = s.cut || s.open && s.said != ""
	s.endLine()
	s.notef(format, args...)
}

// showPrompt asks for a line, with the number of the last entry.
func (s *chatShow) showPrompt(seq int64) {
	s.endLine()
	s.showAsk(fmt.Sprintf("[%d] > ", seq))
}

func (s *chatShow) showAsk(text string) {
	fmt.Fprint(s.Stderr, text)
	s.prompted = true
}

func inBrackets(text *string) string {
	if text == nil || *text == "" {
		return ""
	}
	return " (" + *text + ")"
}
