package host

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

func claudeCodeHook() *Hook {
	return &Hook{
		Name: ClaudeCode, Wait: 9 * time.Minute, read: readClaudeCode, answer: answerPreToolUse,
	}
}

// readClaudeCode reads a message of Claude Code. A hook of the type mcp_tool gets the tool's input as a text.
func readClaudeCode(f fields, _ bool) (Event, error) {
	input, err := f.embedded("tool_input")
	if err != nil {
		return Event{}, err
	}
	f["tool_input"] = []byte(input)
	return readSnake(f, "PreToolUse", "PostToolUse", "PostToolUseFailure")
}

// answerPreToolUse is the answer of Claude Code, which Codex shares.
func answerPreToolUse(word, reason string) any {
	return map[string]any{"hookSpecificOutput": map[string]string{
		"hookEventName": "PreToolUse", "permissionDecision": word, "permissionDecisionReason": reason,
	}}
}

// ReadPermission reads the question that Claude Code asks the tool of --permission-prompt-tool. It tells neither the session nor the folder.
func ReadPermission(text []byte) (Event, error) {
	f, err := readFields(text)
	if err != nil {
		return Event{}, err
	}
	var e Event
	if err = f.texts(map[string]*string{"tool_name": &e.Tool, "tool_use_id": &e.CallID}); err != nil {
		return e, err
	}
	if e.Tool == "" {
		return e, errors.New("the host's message: tool_name: must not be empty")
	}
	e.Arguments, err = f.object("input")
	return e, err
}

// AnswerPermission answers the question. An allowed call runs with the input that was approved.
func AnswerPermission(v Verdict, e *Event) []byte {
	if v.Allow {
		return append(rawjson.AppendMember([]byte(`{"behavior":"allow"`), "updatedInput", e.Arguments), '}')
	}
	text, err := json.Marshal(map[string]string{"behavior": "deny", "message": v.Reason})
	if err != nil {
		panic(err) // texts have a JSON form
	}
	return text
}
