package host

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// Hook reads the messages that a host gives its hooks, and writes answers in its format.
type Hook struct {
	// Name of the host.
	Name string
	// Wait is how long a hook may take by default. It is below the host's own default timeout, after which the tool may run.
	Wait time.Duration

	read   func(fields, bool) (Event, error)
	answer func(word, reason string) any // the word is allow or deny
}

// Event is a message of a host: it wants to run a tool, or a tool has ended.
type Event struct {
	// After says that the tool has ended. Otherwise the host waits for an answer.
	After bool

	Tool      string
	Arguments json.RawMessage // an object, as the host wrote it
	CallID    string          // the host's id of the call; "" if it has none
	SessionID string
	Cwd       string
	Subagent  string // "" for the main agent
	Version   string // of the host; "" if it does not tell

	// Failed and Output describe a tool that has ended.
	Failed bool
	Output string
}

// FindHook returns the hook of one of [tool.Hosts], or nil.
func FindHook(name string) *Hook {
	switch name {
	case ClaudeCode:
		return claudeCodeHook()
	case Codex:
		return codexHook()
	case Copilot:
		return copilotHook()
	case Cursor:
		return cursorHook()
	case Gemini:
		return geminiHook()
	case OpenCode:
		return openCodeHook()
	}
	return nil
}

// Verdict is the answer to a host. The zero value refuses.
type Verdict struct {
	Allow  bool
	After  bool // the tool has ended, and no answer is expected
	Defers bool // the host ends its run and asks again when it is resumed; Claude Code only
	Reason string
}

// Answer returns a verdict in the format of the host.
func (h *Hook) Answer(v Verdict) []byte {
	switch {
	case v.After:
		return []byte("{}\n")
	case v.Defers:
		return encode(answerPreToolUse("defer", v.Reason))
	}
	word := "deny"
	if v.Allow {
		word = "allow"
	}
	return encode(h.answer(word, v.Reason))
}

// Read reads a message. If after is set, the hook is installed for tools that have ended; hosts whose messages name no event need this.
// Members that it does not know are ignored: hosts add some with every release. A message that could be read in two ways is an error.
func (h *Hook) Read(text []byte, after bool) (Event, error) {
	f, err := readFields(text)
	if err != nil {
		return Event{}, err
	}
	event, err := h.read(f, after)
	if err == nil && after != event.After && after {
		err = errors.New("the host's message: must be about a tool that has ended")
	}
	if err == nil && event.Tool == "" {
		err = errors.New("the host's message: the tool's name: must not be empty")
	}
	return event, err
}

// encode writes an answer on one line.
func encode(answer any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answer); err != nil {
		panic(err) // answers are maps of texts
	}
	return text.Bytes()
}

// fields are the members of a host's message.
type fields map[string]jsontext.Value

func readFields(text []byte) (fields, error) {
	f := fields{}
	for m, err := range rawjson.Members(text) {
		if err != nil {
			return nil, fmt.Errorf("the host's message: %w", err)
		}
		f[m.Name()] = m.Value
	}
	return f, nil
}

// text returns a text; "" if there is none or it is null.
func (f fields) text(name string) (string, error) {
	value := f[name]
	switch {
	case len(value) == 0 || value.Kind() == 'n':
		return "", nil
	case value.Kind() != '"':
		return "", fmt.Errorf("the host's message: %s: must be a text", name)
	}
	return rawjson.Unquote(value), nil
}

// object returns an object as it was written.
func (f fields) object(name string) (json.RawMessage, error) {
	if value := f[name]; len(value) > 0 && value.Kind() == '{' {
		return json.RawMessage(value), nil
	}
	return nil, fmt.Errorf("the host's message: %s: must be an object", name)
}

// texts sets variables to the texts of members.
func (f fields) texts(into map[string]*string) error {
	for name, variable := range into {
		text, err := f.text(name)
		if err != nil {
			return err
		}
		*variable = text
	}
	return nil
}

// embedded returns an object that is written as such, or as a text that contains it.
func (f fields) embedded(name string) (json.RawMessage, error) {
	if f[name].Kind() != '"' {
		return f.object(name)
	}
	text := []byte(strings.TrimSpace(rawjson.Unquote(f[name])))
	for _, err := range rawjson.Members(text) {
		if err != nil {
			return nil, fmt.Errorf("the host's message: %s: %w", name, err)
		}
	}
	return text, nil
}

// output returns what a tool gave back: a text as it is, all else as JSON.
func (f fields) output(names ...string) string {
	for _, name := range names {
		switch value := f[name]; {
		case len(value) == 0 || value.Kind() == 'n':
		case value.Kind() == '"':
			if text := rawjson.Unquote(value); text != "" {
				return text
			}
		default:
			return string(value)
		}
	}
	return ""
}

// readSnake reads the members that Claude Code, Codex, Gemini CLI and Cursor share. Before and after are the names of events; failed is the
// event of a tool that failed, or empty.
func readSnake(f fields, before, after, failed string) (Event, error) {
	var e Event
	var name, agentID, agentType string
	err := f.texts(map[string]*string{
		"hook_event_name": &name, "tool_name": &e.Tool, "tool_use_id": &e.CallID, "session_id": &e.SessionID, "cwd": &e.Cwd,
		"agent_id": &agentID, "agent_type": &agentType,
	})
	if err != nil {
		return e, err
	}
	e.Subagent = cmp.Or(agentType, agentID)
	switch name {
	case "":
		return e, errors.New("the host's message: hook_event_name: must not be empty")
	case before:
	case after:
		e.After = true
	case failed:
		e.After, e.Failed = true, true
	default:
		return e, fmt.Errorf("the host's message: hook_event_name: must be %s", before)
	}
	e.Output = f.output("error", "tool_response", "tool_output")
	e.Arguments, err = f.object("tool_input")
	return e, err
}
