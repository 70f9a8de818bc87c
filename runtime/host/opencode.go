package host

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// openCodeHook reads and answers the messages of the plugin, whose format is our own.
func openCodeHook() *Hook {
	return &Hook{
		Name: OpenCode, Wait: 15 * time.Minute, read: readOpenCode,
		answer: func(word, reason string) any {
			return map[string]string{"decision": word, "reason": reason}
		},
	}
}

func readOpenCode(f fields, _ bool) (Event, error) {
	e, err := readSnake(f, "before", "after", "failed")
	if err != nil {
		return e, err
	}
	return e, f.texts(map[string]*string{"version": &e.Version})
}

//go:embed opencode.js
var openCodePlugin string

// OpenCodePlugin returns the plugin for OpenCode, a JavaScript module. It runs the command to ask.
func OpenCodePlugin(command []string) (string, error) {
	text, err := json.Marshal(command) // JSON is JavaScript
	if err != nil {
		return "", fmt.Errorf("encode command: %w", err)
	}
	return strings.Replace(openCodePlugin, `["COMMAND"]`, string(text), 1), nil
}
