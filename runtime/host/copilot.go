package host

import (
	"time"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

func copilotHook() *Hook {
	return &Hook{
		Name: Copilot, Wait: 20 * time.Second, read: readCopilot,
		answer: func(word, reason string) any {
			return map[string]string{"permissionDecision": word, "permissionDecisionReason": reason}
		},
	}
}

// readCopilot reads a message of Copilot CLI, which does not name its event.
func readCopilot(f fields, after bool) (Event, error) {
	e := Event{After: after}
	err := f.texts(map[string]*string{"toolName": &e.Tool, "sessionId": &e.SessionID, "cwd": &e.Cwd})
	if err != nil {
		return e, err
	}
	if e.Arguments, err = f.embedded("toolArgs"); err != nil || !after {
		return e, err
	}
	e.Output = f.output("error", "toolResult")
	e.Failed = len(f["error"]) > 0
	if f["toolResult"].Kind() != '{' {
		return e, nil
	}
	for m, err := range rawjson.Members(f["toolResult"], rawjson.Lenient()) {
		if err != nil {
			return e, err
		}
		switch m.Name() {
		case "resultType":
			e.Failed = string(m.Value) != `"success"`
		case "textResultForLlm":
			e.Output = rawjson.Unquote(m.Value)
		}
	}
	return e, nil
}
