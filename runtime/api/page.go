package api

import (
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Page is the part of a list's request that says which page.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"How many at most."`
	Cursor string `query:"cursor" doc:"The next_cursor of the page before."`
}

// List is the shape of every list.
type List[T any] struct {
	Items      []T     `json:"items" nullable:"false"`
	NextCursor *string `json:"next_cursor" doc:"The cursor of the next page; null when this is the last."`
}

type listOutput[T any] struct{ Body List[T] }

// listOf makes a list of what f makes of each element. Its items are never null.
func listOf[S, T any](source []S, next string, f func(S) T) *listOutput[T] {
	output := &listOutput[T]{Body: List[T]{Items: make([]T, 0, len(source)), NextCursor: orNull(next)}}
	for _, s := range source {
		output.Body.Items = append(output.Body.Items, f(s))
	}
	return output
}

type bodyOutput[T any] struct{ Body T }

func output[T any](body T) *bodyOutput[T] { return &bodyOutput[T]{Body: body} }

// none is the output of operations that answer 204, and the input of those that take nothing.
type none struct{}

func cursorOf(next uuid.UUID) string {
	if next == uuid.Nil {
		return ""
	}
	return next.String()
}

// idCursor reads a cursor that is an id.
func (p Page) idCursor() (uuid.UUID, error) {
	if p.Cursor == "" {
		return uuid.Nil, nil
	}
	id, err := uuid.Parse(p.Cursor)
	if err != nil {
		return uuid.Nil, invalid("query.cursor", "expected the next_cursor of an earlier page")
	}
	return id, nil
}

// numberCursor reads a cursor that is a number.
func (p Page) numberCursor() (int64, error) {
	if p.Cursor == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(p.Cursor, 10, 64)
	if err != nil || n <= 0 {
		return 0, invalid("query.cursor", "expected the next_cursor of an earlier page")
	}
	return n, nil
}

// ByID is the part of a request that names something by its id. Embedded types
// have to be exported, or huma does not fill them in.
type ByID struct {
	ID string `path:"id"`
}

// ByName is the part of a request that names an agent or a skill.
type ByName struct {
	Name string `path:"name"`
}

// idOf reads an id of a path. What is no id belongs to nothing: it is not found.
func idOf(subject, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		return uuid.Nil, notFound(subject, text)
	}
	return id, nil
}

// orNull is null for the empty string.
func orNull[S ~string](s S) *string {
	if s == "" {
		return nil
	}
	text := string(s)
	return &text
}

func idOrNull(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

func utcOrNull(t *time.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	utc := t.UTC()
	return &utc
}
