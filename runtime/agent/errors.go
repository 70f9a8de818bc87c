package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Errors of this package.
var (
	// ErrNotFound: no such agent, key, skill, assignment or conversation, or
	// not for this caller.
	ErrNotFound = errors.New("not found")
	// ErrUnauthenticated: no agent has this key, or it was revoked.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrExists: the name is taken.
	ErrExists = errors.New("already exists")
	// ErrChanged: it has another revision than the change was made for.
	ErrChanged = errors.New("changed meanwhile")
)

// FieldProblem is one thing that is wrong with a spec.
type FieldProblem struct {
	Path    string `json:"path"`    // skills[1].url; of a single spec: url
	Message string `json:"message"` // what was expected
}

// InvalidError lists everything that is wrong with a spec.
type InvalidError struct {
	Problems []FieldProblem
}

func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Path + ": " + p.Message
	}
	return strings.Join(lines, "; ")
}

// report collects problems below a path.
type report struct {
	at       string
	problems *[]FieldProblem
}

// newReport begins with what is known to be wrong.
func newReport(known ...FieldProblem) report {
	problems := slices.Clone(known)
	return report{problems: &problems}
}

// current refuses a change that was made for another revision. Nil: it was made for whichever there is.
func current(wanted *int64, revision int64) error {
	if wanted != nil && *wanted != revision {
		return fmt.Errorf("%w: it has revision %d by now", ErrChanged, revision)
	}
	return nil
}

// below is the report of a part.
func (r report) below(part string) report {
	switch {
	case r.at == "" || strings.HasPrefix(part, "["):
		r.at += part
	default:
		r.at += "." + part
	}
	return r
}

func (r report) add(field, message string) {
	*r.problems = append(*r.problems, FieldProblem{r.below(field).at, message})
}

// check adds the problem unless ok.
func (r report) check(ok bool, field, message string) {
	if !ok {
		r.add(field, message)
	}
}

func (r report) err() error {
	if len(*r.problems) == 0 {
		return nil
	}
	return &InvalidError{Problems: *r.problems}
}
