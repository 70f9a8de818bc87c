package oauthclient

import (
	"strings"

	plaintext "github.com/holdpoint/holdpoint/internal/plain"
)

// maxPlain bounds what is shown of a text from outside.
const maxPlain = 300

// plain makes a server's text fit to be shown and stored: one line, bounded, with what
// is invisible or unprintable written as an escape.
func plain(s string, limit int) string { return plaintext.Line(s, limit) }

// hide takes secrets out of a text that a server wrote which was sent them.
func hide(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "…")
		}
	}
	return text
}
