// Package eventually owns how tests wait: for a condition, with a generous
// deadline, and never for a length of time.
package eventually

import (
	"context"
	"errors"
	"testing"
	"time"
)

const (
	interval = 10 * time.Millisecond
	patience = 3 * time.Minute // far above what a machine under heavy load takes
)

// Holds asks again and again until the condition holds. If that takes minutes, the test ends.
func Holds(t testing.TB, what string, condition func() bool) {
	t.Helper()
	Succeeds(t, patience, what, func() error {
		if !condition() {
			return errors.New("it does not hold")
		}
		return nil
	})
}

// Succeeds asks again and again until the condition returns nil. When the
// deadline passes first, the test ends with the last error.
func Succeeds(t testing.TB, within time.Duration, what string, condition func() error) {
	t.Helper()
	if err := Poll(t.Context(), within, condition); err != nil {
		t.Fatalf("%s: not within %s: %v", what, within, err)
	}
}

// Poll is Succeeds for goroutines, which must not end a test.
func Poll(ctx context.Context, within time.Duration, condition func() error) error {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-deadline.C:
			return err
		case <-ctx.Done():
			return err
		case <-again.C:
		}
	}
}
