package agent

import (
	"errors"
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

func newReport() report { return report{problems: &[]FieldProblem{}} }

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
