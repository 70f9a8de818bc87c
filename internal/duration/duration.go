// Package duration writes durations as settings do.
package duration

import (
	"strings"
	"time"
)

// Text is a time.Duration in the text form of Go: "5m", "1m30s".
type Text time.Duration

// Duration returns the duration.
func (d Text) Duration() time.Duration { return time.Duration(d) }

// MarshalText implements [encoding.TextMarshaler].
func (d Text) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. Its error is an *[ExpectedError].
func (d *Text) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return &ExpectedError{"a duration such as 90s, 5m or 1h30m"}
	}
	*d = Text(parsed)
	return nil
}

// ExpectedError reports text that cannot be parsed. It does not contain the text, which may be secret.
type ExpectedError struct{ Expected string }

func (e *ExpectedError) Error() string { return "must be " + e.Expected }

// String formats the duration without zero units: 5m, not 5m0s.
func (d Text) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
