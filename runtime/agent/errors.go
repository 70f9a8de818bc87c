package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/fault"
)

// Errors of this package.
var (
	// ErrNotFound: the agent, key, skill, assignment or conversation does not exist, or
	// not for this caller.
	ErrNotFound = fault.NotFound("not found")
	// ErrUnauthenticated: no agent has this key, or the key was revoked or has expired.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrExists: the name is taken.
	ErrExists = errors.New("already exists")
	// ErrChanged: the revision is not the one that the change was made for.
	ErrChanged = errors.New("changed meanwhile")
)

// report collects invalid fields below a path.
type report struct {
	at     string
	fields *[]fault.Field
}

// newReport returns a report that already has the known invalid fields.
func newReport(known ...fault.Field) report {
	fields := slices.Clone(known)
	return report{fields: &fields}
}

// checkRevision returns ErrChanged if the wanted revision is not the present one. A nil wanted revision matches any.
func checkRevision(wanted *int64, revision int64) error {
	if wanted != nil && *wanted != revision {
		return fmt.Errorf("%w: the revision is %d now", ErrChanged, revision)
	}
	return nil
}

// below returns the report of a part.
func (r report) below(part string) report {
	switch {
	case r.at == "" || strings.HasPrefix(part, "["):
		r.at += part
	default:
		r.at += "." + part
	}
	return r
}

func (r report) add(field, expected string) {
	*r.fields = append(*r.fields, fault.Field{Name: r.below(field).at, Expected: expected})
}

// addFields adds invalid fields of a part.
func (r report) addFields(invalid []fault.Field) {
	for _, f := range invalid {
		r.add(f.Name, f.Expected)
	}
}

// check adds an invalid field unless ok.
func (r report) check(ok bool, field, expected string) {
	if !ok {
		r.add(field, expected)
	}
}

func (r report) err() error {
	if len(*r.fields) == 0 {
		return nil
	}
	return &fault.InvalidError{Fields: *r.fields}
}
