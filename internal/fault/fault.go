// Package fault owns the errors that every service returns for the same mistakes of a client: invalid fields, and the name or
// id of something that does not exist. Each surface (API, MCP, dashboard, command line) maps them in one place. Errors with a
// meaning of their own stay with their package.
package fault

import (
	"errors"
	"strings"
)

// Field is an invalid field of some input.
type Field struct {
	Name     string // as the input calls it: name, skills[1].url
	Expected string // a clause that follows the name, such as "must be positive"
}

// InvalidError lists the invalid fields of some input. Its text contains no secret.
type InvalidError struct {
	Fields []Field // at least one
}

// Invalid returns an *[InvalidError] about one field.
func Invalid(field, expected string) *InvalidError {
	return &InvalidError{Fields: []Field{{field, expected}}}
}

func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		lines[i] = f.Name + ": " + f.Expected
	}
	return strings.Join(lines, "; ")
}

// ErrNotFound matches the errors of all packages for things that do not exist, or not for the caller.
var ErrNotFound = errors.New("not found")

type notFoundError struct{ text string }

// NotFound returns an error that is also an [ErrNotFound]. Packages define theirs with it.
func NotFound(text string) error { return &notFoundError{text} }

func (e *notFoundError) Error() string { return e.text }

func (e *notFoundError) Is(target error) bool { return target == ErrNotFound }

// InternalText answers a request that an internal error ended.
const InternalText = "internal error: see the server's log"
