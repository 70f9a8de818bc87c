// Package query owns the syntax of searches in forms, URLs and flags: names, times, ids and texts, and the errors for
// invalid ones. It does not search.
package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
)

// Reader parses the fields of one query and collects the invalid ones.
type Reader struct {
	Zone *time.Location // of days and times without an offset; nil: UTC

	fields []fault.Field
	err    error
}

// Err returns an *[fault.InvalidError] with the invalid fields, or the error of a look-up.
func (r *Reader) Err() error {
	if r.err == nil && len(r.fields) > 0 {
		return &fault.InvalidError{Fields: r.fields}
	}
	return r.err
}

// Refuse records an invalid field.
func (r *Reader) Refuse(field, expected string) {
	r.fields = append(r.fields, fault.Field{Name: field, Expected: expected})
}

const maxName = 256

// Finder returns the ids that a name may mean.
type Finder func(ctx context.Context, name string) ([]uuid.UUID, error)

// Names parses a name. It returns nil for none, and an empty list for an unknown name, which is also invalid if the reader may
// know that.
func (r *Reader) Names(ctx context.Context, field, name string, find Finder, told bool) []uuid.UUID {
	if name == "" || r.err != nil {
		return nil
	}
	ids := []uuid.UUID{}
	if isStorable(name, maxName) {
		found, err := find(ctx, name)
		if err != nil {
			r.err = err
			return nil
		}
		ids = append(ids, found...)
	}
	if len(ids) == 0 && told {
		r.Refuse(field, "must be a known name or id")
	}
	return ids
}

// Text parses a text with a maximum number of characters.
func (r *Reader) Text(field, text string, most int) string {
	if !isStorable(text, most) {
		r.Refuse(field, fmt.Sprintf("must be at most %d characters, without NUL", most))
	}
	return text
}

// isStorable reports whether PostgreSQL accepts the text.
func isStorable(text string, most int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= most && !strings.Contains(text, "\x00")
}

// ID parses an id, or uuid.Nil for none.
func (r *Reader) ID(field, text string) uuid.UUID {
	if text == "" {
		return uuid.Nil
	}
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		r.Refuse(field, "must be an id")
	}
	return id
}

// Time parses a time as [ParseTime] does.
func (r *Reader) Time(field, text string, end bool) time.Time {
	t, err := ParseTime(text, end, r.Zone)
	if err != nil {
		r.Refuse(field, err.Error())
	}
	return t
}

// newTimeError names the zone if it is UTC, which few readers live in.
func newTimeError(zone *time.Location) error {
	expected := "must be a day or a time, such as 2026-01-31 or 2026-01-31T15:04"
	if zone == time.UTC {
		expected += " (UTC)"
	}
	return errors.New(expected)
}

// ParseTime parses RFC 3339, or a day, or a day and a time of day in a zone; nil: UTC. A day means its first midnight or, if end is
// set, the next one. Empty: the zero time.
func ParseTime(text string, end bool, zone *time.Location) (time.Time, error) {
	if zone == nil {
		zone = time.UTC
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, zone); err == nil {
		if end {
			day = day.AddDate(0, 0, 1)
		}
		return day.UTC(), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateTime} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, newTimeError(zone)
}
