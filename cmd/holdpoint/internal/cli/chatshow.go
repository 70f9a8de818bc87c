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

// entryView is an element of a conversation, as the API has it.
type entryView struct {
	Seq  int64     `json:"seq"`
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	User *struct {
		ID    string `json:"id"`
		Text  string `json:"text"`
		Files []struct {
			Name string `json:"name"`
		} `json:"files"`
	} `json:"user"`
	Assistant *struct {
		Text  string `json:"text"`
		Calls []struct {
			CallID    *string `json:"call_id"`
			Name      string  `json:"name"`
			Arguments string  `json:"arguments"`
			Refused   *string `json:"refused"`
		} `json:"calls"`
	} `json:"assistant"`
	Tools *struct {
		Results []struct {
			CallID  *string `json:"call_id"`
			IsError bool    `json:"is_error"`
			Text    string  `json:"text"`
		} `json:"results"`
	} `json:"tools"`
	Call *struct {
		ID     string  `json:"id"`
		Tool   string  `json:"tool"`
		Status string  `json:"status"`
		Code   *string `json:"code"`
	} `json:"call"`
	Notice *struct {
		Code string  `json:"code"`
		Text string  `json:"text"`
		By   *string `json:"by"`
	} `json:"notice"`
}

// chatShow shows what happens in a conversation.
type chatShow struct {
	*Env
	api   *client.Client
	agent string
	id    string

	mine     []string // messages that were said here: who said them need not be shown them
	said     string   // what was shown of the reply under way
	cut      bool     // a message broke the line of the reply: it is shown anew
	open     bool     // the line on the standard output has not ended
	prompted bool     // nor that of the prompt
	waits    []string // calls, with what they wait for, that were shown
}

// event shows an event, and returns what it is.
func (s *chatShow) event(ctx context.Context, event client.TalkEvent) (*entryView, *loopView, error) {
	if s.json {
		if err := s.line(event.Name, event.Seq, event.Data); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case event.Seq > 0:
		entry, err := decode[entryView](event.Data)
		if err == nil {
			err = s.entry(ctx, &entry)
		}
		return &entry, nil, err
	case event.Name == client.TalkState:
		state, err := decode[loopView](event.Data)
		if err == nil && state.Status == "waiting" {
			s.showWaits(ctx)
		}
		return nil, &state, err
	case event.Name == client.TalkDelta:
		delta, err := decode[client.TalkDeltaData](event.Data)
		if err == nil {
			s.said += delta.Text
			err = s.text(s.uncut(delta.Text, s.said))
		}
		return nil, nil, err
	case event.Name == client.TalkRestart:
		s.void()
	}
	return nil, nil, nil
}

// line is an event as JSON.
func (s *chatShow) line(name string, seq int64, data json.RawMessage) error {
	text, err := encoded(struct {
		Event string          `json:"event"`
		ID    int64           `json:"id,omitempty"`
		Data  json.RawMessage `json:"data"`
	}{name, seq, data})
	if err != nil {
		return err
	}
	return write(s.Stdout, string(text))
}

func (s *chatShow) entry(ctx context.Context, entry *entryView) error {
	switch {
	case entry.User != nil:
		if !slices.Contains(s.mine, entry.User.ID) {
			s.tellf("message: %s", entry.User.Text)
		}
	case entry.Assistant != nil:
		return s.reply(entry)
	case entry.Call != nil:
		if entry.Call.Status == "parked" {
			s.showWaits(ctx)
			return nil
		}
		s.tellf("%s: %s, call %s%s", entry.Call.Status, entry.Call.Tool, entry.Call.ID, inBrackets(entry.Call.Code))
	case entry.Notice != nil:
		s.tellf("%s", entry.Notice.Text)
	}
	return nil
}

// reply shows what of a reply was not shown while it came, and what calls it wants.
func (s *chatShow) reply(entry *entryView) error {
	reply := entry.Assistant
	rest, goesOn := remainder(s.said, reply.Text)
	if !goesOn {
		s.void()
		rest = reply.Text
	}
	s.said = ""
	if err := s.text(s.uncut(rest, reply.Text)); err != nil {
		return err
	}
	s.fresh()
	for _, wish := range reply.Calls {
		switch {
		case wish.Refused != nil:
			s.tellf("not called: %s: %s", cell(wish.Name), *wish.Refused) // the model may have made the name up
		case wish.CallID != nil:
			s.tellf("calling: %s, call %s", wish.Name, *wish.CallID)
		}
	}
	return nil
}

// uncut returns the rest of a reply, or all of it if a message broke its line.
func (s *chatShow) uncut(rest, whole string) string {
	if s.cut && rest != "" {
		rest = whole
	}
	s.cut = false
	return rest
}

// remainder is what of a text follows what was said of it. White space between its parts may not have been said.
func remainder(said, text string) (string, bool) {
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

// showWaits shows what calls of the conversation wait for, each once. What cannot be found out is not worth a message.
func (s *chatShow) showWaits(ctx context.Context) {
	query := (&page{limit: 200}).query()
	add(query, map[string]string{"conversation": s.id, "agent": s.agent, "status": "parked,needs_connection"})
	text, err := s.api.Get(ctx, "calls", query)
	if err != nil {
		return
	}
	found, err := decode[list[waitView]](text)
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
		switch one.Status { // an approved one is on its way, and waits for nobody
		case "parked":
			s.tellf("waiting for approval: %s, call %s%s", one.Name, one.ID, deadline)
		case "needs_connection":
			s.tellf("waiting for somebody to connect the skill: %s, call %s%s", one.Name, one.ID, deadline)
		}
		if one.Message != nil {
			s.tellf("  %s; see holdpoint connections list", *one.Message)
		}
	}
}

// waitView is a call that waits.
type waitView struct {
	ID       string     `json:"id"`
	Status   string     `json:"status"`
	Name     string     `json:"name"`
	Deadline *time.Time `json:"deadline"`
	Message  *string    `json:"message"`
}

// text shows a piece of what the model says.
func (s *chatShow) text(text string) error {
	if text == "" || s.json {
		return nil
	}
	s.unprompt()
	s.open = !strings.HasSuffix(text, "\n")
	return write(s.Stdout, Visible(text))
}

// void says that what was shown of the reply is none.
func (s *chatShow) void() {
	if s.said == "" {
		return
	}
	s.said, s.cut = "", false
	s.tellf("This reply broke off; what was said of it is void.")
}

// fresh ends the line that was begun.
func (s *chatShow) fresh() {
	if s.open {
		fmt.Fprintln(s.Stdout)
		s.open = false
	}
	s.unprompt()
}

func (s *chatShow) unprompt() {
	if s.prompted {
		fmt.Fprintln(s.Stderr)
		s.prompted = false
	}
}

// tellf tells something beside the output, on a line of its own.
func (s *chatShow) tellf(format string, args ...any) {
	s.cut = s.cut || s.open && s.said != ""
	s.fresh()
	s.notef(format, args...)
}

// prompt asks for a line, with the number of the last entry.
func (s *chatShow) prompt(seq int64) {
	s.fresh()
	s.ask(fmt.Sprintf("[%d] > ", seq))
}

func (s *chatShow) ask(text string) {
	fmt.Fprint(s.Stderr, text)
	s.prompted = true
}

func inBrackets(text *string) string {
	if text == nil || *text == "" {
		return ""
	}
	return " (" + *text + ")"
}
