// Package eventually owns how tests wait: for a condition, with a generous
// deadline, and never for a length of time.
package eventually

import (
	"context"
	"testing"
	"time"
)

const interval = 25 * time.Millisecond

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

// Pause lets a moment pass between two attempts, unless ctx ends first: then
// it reports false. It is for the pace of an actor, not for waiting.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
