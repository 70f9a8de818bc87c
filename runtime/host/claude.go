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
func answerPreToolUse(allow bool, reason string) any {
	return map[string]any{"hookSpecificOutput": map[string]string{
		"hookEventName": "PreToolUse", "permissionDecision": permission(allow), "permissionDecisionReason": reason,
	}}
}

// DeferClaudeCode returns the answer that ends a headless run of Claude Code until `claude --resume` asks again.
func DeferClaudeCode(reason string) []byte {
	return encode(map[string]any{"hookSpecificOutput": map[string]string{
		"hookEventName": "PreToolUse", "permissionDecision": "defer", "permissionDecisionReason": reason,
	}})
}
