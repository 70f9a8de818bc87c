package rest

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Page has the query parameters of a list's page.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The maximum number of items."`
	Cursor string `query:"cursor" doc:"The next_cursor of the previous page."`
}

// List is the shape of every list.
type List[T any] struct {
	Items      []T     `json:"items" nullable:"false"`
	NextCursor *string `json:"next_cursor" doc:"The cursor of the next page; null on the last page."`
}

// ListOutput is the output of an operation that returns a list.
type ListOutput[T any] struct{ Body List[T] }

// ListOf converts each element of a list. Its items are never null.
func ListOf[S, T any](source []S, next string, f func(S) T) *ListOutput[T] {
	output := &ListOutput[T]{Body: List[T]{Items: make([]T, 0, len(source)), NextCursor: OrNull(next)}}
	for _, s := range source {
		output.Body.Items = append(output.Body.Items, f(s))
	}
	return output
}

// Output is the output of an operation that returns an object.
type Output[T any] struct{ Body T }

// NewOutput makes an output.
func NewOutput[T any](body T) *Output[T] { return &Output[T]{Body: body} }

// None is an empty output, answered with 204, or an empty input.
type None struct{}

// CursorOf returns a cursor that is an id; "": there is no next page.
func CursorOf(next uuid.UUID) string {
	if next == uuid.Nil {
		return ""
	}
	return next.String()
}

// IDCursor reads a cursor that is an id.
func (p Page) IDCursor() (uuid.UUID, error) {
	if p.Cursor == "" {
		return uuid.Nil, nil
	}
	id, err := uuid.Parse(p.Cursor)
	if err != nil {
		return uuid.Nil, InvalidField("query.cursor", "must be the next_cursor of an earlier page")
	}
	return id, nil
}

// NumberCursor reads a cursor that is a number.
func (p Page) NumberCursor() (int64, error) {
	if p.Cursor == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(p.Cursor, 10, 64)
	if err != nil || n <= 0 {
		return 0, InvalidField("query.cursor", "must be the next_cursor of an earlier page")
	}
	return n, nil
}

// ByID is the path of an operation on an id. Embedded types must be exported, or huma does not fill them in.
type ByID struct {
	ID string `path:"id"`
}

// ByName is the path of an operation on an agent, a skill or a rule.
type ByName struct {
	Name string `path:"name"`
}

// ParseID parses an id in a path. An invalid id is not found.
func ParseID(subject, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		return uuid.Nil, NotFound(subject, text)
	}
	return id, nil
}

// OrNull returns null for the empty string.
func OrNull[S ~string](s S) *string {
	if s == "" {
		return nil
	}
	text := string(s)
	return &text
}

// IDOrNull returns null for the zero id.
func IDOrNull(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

// UTCOrNull returns null for no time, and other times in UTC.
func UTCOrNull(t *time.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	utc := t.UTC()
	return &utc
}

// OrEmpty returns the list, or an empty one instead of null.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// WriteLine writes a value as JSON on a line of its own. Raw JSON in it loses white space, and nothing else.
func WriteLine(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}
