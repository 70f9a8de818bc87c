package host

import (
	"time"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

func geminiHook() *Hook {
	return &Hook{
		Name: Gemini, Wait: 45 * time.Second, read: readGemini,
		answer: func(word, reason string) any {
			return map[string]string{"decision": word, "reason": reason}
		},
	}
}

// readGemini reads a message of Gemini CLI. A tool that failed has the member error in its response.
func readGemini(f fields, _ bool) (Event, error) {
	e, err := readSnake(f, "BeforeTool", "AfterTool", "")
	if err != nil || !e.After || f["tool_response"].Kind() != '{' {
		return e, err
	}
	for m, err := range rawjson.Members(f["tool_response"], rawjson.Lenient()) {
		if err != nil {
			return e, err
		}
		switch m.Name() {
		case "error":
			e.Failed = e.Failed || m.Value.Kind() != 'n'
		case "llmContent":
			e.Output = fields{"x": m.Value}.output("x")
		}
	}
	return e, nil
}
