package host

import "time"

func claudeCodeHook() *Hook {
	return &Hook{
		Name: ClaudeCode, Wait: 9 * time.Minute,
		read: func(f fields, _ bool) (Event, error) {
			return readSnake(f, "PreToolUse", "PostToolUse", "PostToolUseFailure")
		},
		answer: answerPreToolUse,
	}
}

// answerPreToolUse is the answer of Claude Code, which Codex shares.
func answerPreToolUse(word, reason string) any {
	return map[string]any{"hookSpecificOutput": map[string]string{
		"hookEventName": "PreToolUse", "permissionDecision": word, "permissionDecisionReason": reason,
	}}
}
