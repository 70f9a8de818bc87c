package host

import "time"

func codexHook() *Hook {
	return &Hook{
		Name: Codex, Wait: 9 * time.Minute,
		read: func(f fields, _ bool) (Event, error) {
			return readSnake(f, "PreToolUse", "PostToolUse", "PostToolUseFailure")
		},
		answer: answerPreToolUse,
	}
}
