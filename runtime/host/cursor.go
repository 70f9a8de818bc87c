package host

import "time"

// cursorHook has the format of the documentation. It was not run.
func cursorHook() *Hook {
	return &Hook{
		Name: Cursor, Wait: 45 * time.Second, read: readCursor,
		answer: func(word, reason string) any {
			return map[string]string{"permission": word, "user_message": reason, "agent_message": reason}
		},
	}
}

func readCursor(f fields, _ bool) (Event, error) {
	e, err := readSnake(f, "preToolUse", "postToolUse", "postToolUseFailure")
	if err != nil {
		return e, err
	}
	failure := ""
	err = f.texts(map[string]*string{"conversation_id": &e.SessionID, "cursor_version": &e.Version, "error_message": &failure})
	if failure != "" {
		e.Output = failure
	}
	return e, err
}
