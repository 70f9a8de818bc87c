// Package query owns how people write down what they search for, in a form, an address or a flag: names, times,
// ids and texts; and how they are told what of it cannot be read. It knows nothing of what is searched.
package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Problem is what is wrong with one field.
type Problem struct {
	Field    string // as the parameter is called
	Expected string
}

// InvalidError says what of a query cannot be read.
type InvalidError struct {
	Fields []Problem
}

func (e *InvalidError) Error() string {
	words := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		words[i] = f.Field + ": " + f.Expected
	}
	return strings.Join(words, "; ")
}

// Reader reads the fields of one query, and collects what is wrong with them.
type Reader struct {
	fields []Problem
	err    error
}

// Err is what went wrong: an *[InvalidError], or an error of a look-up.
func (r *Reader) Err() error {
	if r.err == nil && len(r.fields) > 0 {
		return &InvalidError{r.fields}
	}
	return r.err
}

// Refuse says what was expected of a field.
func (r *Reader) Refuse(field, expected string) {
	r.fields = append(r.fields, Problem{field, expected})
}

const maxName = 256

// Finder returns the ids of what a name means.
type Finder func(ctx context.Context, name string) ([]uuid.UUID, error)

// Names reads a name. Nil means that none was given; a list that is empty, and not nil, that nothing is called so.
// That is wrong, unless it may not be told.
func (r *Reader) Names(ctx context.Context, field, name string, find Finder, told bool) []uuid.UUID {
	if name == "" || r.err != nil {
		return nil
	}
	ids := []uuid.UUID{}
	if storable(name, maxName) {
		found, err := find(ctx, name)
		if err != nil {
			r.err = err
			return nil
		}
		ids = append(ids, found...)
	}
	if len(ids) == 0 && told {
		r.Refuse(field, "expected a name or an id; nothing has, or had, this one")
	}
	return ids
}

// Text reads a text of at most so many characters.
func (r *Reader) Text(field, text string, most int) string {
	if !storable(text, most) {
		r.Refuse(field, fmt.Sprintf("expected at most %d characters, without NUL", most))
	}
	return text
}

// storable: PostgreSQL can be asked for it.
func storable(text string, most int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= most && !strings.Contains(text, "\x00")
}

// ID reads an id; none is uuid.Nil.
func (r *Reader) ID(field, text string) uuid.UUID {
	if text == "" {
		return uuid.Nil
	}
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		r.Refuse(field, "expected an id")
	}
	return id
}

// Time reads a time, as [ParseTime] does.
func (r *Reader) Time(field, text string, end bool) time.Time {
	t, err := ParseTime(text, end)
	if err != nil {
		r.Refuse(field, err.Error())
	}
	return t
}

var errTime = errors.New("expected a day or a time, such as 2026-01-31 or 2026-01-31T15:04 (UTC)")

// ParseTime reads a time as people write it: RFC 3339; or a day, or a day and a time of day, which are in UTC. A day means
// the midnight that it begins with or, where end is set, the one after it. Empty: the zero time.
func ParseTime(text string, end bool) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		if end {
			day = day.AddDate(0, 0, 1)
		}
		return day, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateTime} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, errTime
}
