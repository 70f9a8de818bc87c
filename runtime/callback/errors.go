package callback

import (
	"errors"
	"fmt"
)

// Errors of this package.
var (
	// ErrNotFound says that there is no such callback or message.
	ErrNotFound = errors.New("not found")
	// ErrDisabled says that nothing is sent to a callback while it is disabled.
	ErrDisabled = errors.New("the callback is disabled")
)

// InvalidError says what is wrong with something that was asked for.
type InvalidError struct {
	Field    string
	Expected string // in plain words
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Expected) }
