// Package lifetime has the settings of how long records are kept. Package retention applies them.
package lifetime

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/fault"
)

// Day is the smallest unit of most settings.
const Day = 24 * time.Hour

// Ages are how long records are kept. Zero: without end.
type Ages struct {
	// Content is the age, since the end of a call, at which its arguments, edits, result, questions and the references to its files are
	// deleted. Calls is the age at which the rest of it is deleted too.
	Content time.Duration
	Calls   time.Duration
	// Conversations have ended, or had no call for this time.
	Conversations time.Duration
	Files         time.Duration // content of attached files
	// Catalogs and Definitions are those to which nothing refers any more.
	Catalogs    time.Duration
	Definitions time.Duration
	Counts      time.Duration // by the hour and by the day
	Events      time.Duration // of the audit log
	// Deliveries are delivered and failed messages to callbacks, and Sessions those that ended. Their own packages delete them.
	Deliveries time.Duration
	Sessions   time.Duration
}

const (
	// DefaultUnused is the age of catalogs and definitions to which nothing refers.
	DefaultUnused = 30 * Day
	// DefaultDeliveries is the age of delivered and failed messages to callbacks.
	DefaultDeliveries = 30 * Day
	// DefaultSessions is the age of sessions that ended. No browser uses them any more by then.
	DefaultSessions = Day
)

// DefaultAges returns the ages of a server without settings: only records to which nothing refers are deleted.
func DefaultAges() Ages {
	return Ages{Catalogs: DefaultUnused, Definitions: DefaultUnused, Deliveries: DefaultDeliveries, Sessions: DefaultSessions}
}

// OrForever returns an age for a package that has no word for "without end".
func OrForever(age time.Duration) time.Duration {
	if age == 0 {
		return maxDays * Day
	}
	return age
}

// Named returns each age with the name of its setting.
func (a *Ages) Named() []NamedAge {
	return []NamedAge{
		{"content", a.Content},
		{"calls", a.Calls},
		{"conversations", a.Conversations},
		{"files", a.Files},
		{"catalogs", a.Catalogs},
		{"definitions", a.Definitions},
		{"counts", a.Counts},
		{"deliveries", a.Deliveries},
		{"sessions", a.Sessions},
		{"events", a.Events},
	}
}

// NamedAge is the age of a kind of record. Zero: it is kept without end.
type NamedAge struct {
	Kind string
	Age  time.Duration
}

// Check refuses ages that are too short or contradict each other. Error: *[fault.InvalidError].
func (a *Ages) Check() error {
	for _, one := range a.Named() {
		if one.Age != 0 && one.Age < Day {
			return fault.Invalid("keep-"+one.Kind, "must be at least 1d (one day), or 0 to keep them without end")
		}
	}
	if a.Calls != 0 && a.Content > a.Calls {
		return fault.Invalid("keep-calls", "must be at least keep-content")
	}
	return nil
}

// FormatAge returns an age as settings have it: 90d, 36h, or "forever".
func FormatAge(age time.Duration) string {
	switch {
	case age == 0:
		return "forever"
	case age%Day == 0:
		return fmt.Sprintf("%dd", age/Day)
	}
	text := age.String()
	text = strings.TrimSuffix(text, "0s")
	return strings.TrimSuffix(text, "0m")
}

// maxDays bounds an age, so that it fits into a duration.
const maxDays = 100 * 365

// ParseAge parses an age: a number of days such as 90d, a Go duration, or 0 or "forever" for no end.
func ParseAge(text string) (time.Duration, error) {
	const expected = "must be days such as 90d, a duration such as 36h, or 0 to keep without end"
	if text == "0" || text == "forever" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		if _, err := fmt.Sscanf(days+";", "%d;", &n); err != nil || n < 1 || n > maxDays {
			return 0, fmt.Errorf("%q: %s", text, expected)
		}
		return time.Duration(n) * Day, nil
	}
	age, err := time.ParseDuration(text)
	if err != nil || age <= 0 {
		return 0, fmt.Errorf("%q: %s", text, expected)
	}
	return age, nil
}
