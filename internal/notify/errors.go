package notify

import (
	"errors"
	"fmt"
)

// ErrNotFound says that there is no such webhook or subscription, or none of the person's.
var ErrNotFound = errors.New("not found")

// InvalidError says what is wrong with something that was asked for.
type InvalidError struct {
	Field    string
	Expected string // in plain words
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Expected) }
