// Package eventually lets tests wait for a condition, with a generous deadline.
package eventually

import (
	"context"
	"errors"
	"testing"
	"time"
)

const (
	interval = 10 * time.Millisecond
	patience = 3 * time.Minute // enough on a machine under heavy load
)

// Holds polls until the condition holds. After three minutes the test fails.
func Holds(t testing.TB, description string, condition func() bool) {
	t.Helper()
	Succeeds(t, patience, description, func() error {
		if !condition() {
			return errors.New("it does not hold")
		}
		return nil
	})
}

// Succeeds polls until the condition returns nil. At the deadline the test fails with the last error.
func Succeeds(t testing.TB, within time.Duration, description string, condition func() error) {
	t.Helper()
	if err := Poll(t.Context(), within, condition); err != nil {
		t.Fatalf("%s: not within %s: %v", description, within, err)
	}
}

// Poll is Succeeds for goroutines, which must not fail a test.
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
