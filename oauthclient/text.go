package oauthclient

import (
	"strconv"
	"strings"
)

// maxPlain bounds what is shown of a text from outside.
const maxPlain = 300

// plain makes a server's text fit to be shown and stored: one line, bounded, with what
// is invisible or unprintable written as an escape.
func plain(s string, limit int) string {
	cut := ""
	if len(s) > limit {
		s, cut = s[:limit], "…"
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String() + cut
}

// hide takes secrets out of a text that a server wrote which was sent them.
func hide(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "…")
		}
	}
	return text
}
