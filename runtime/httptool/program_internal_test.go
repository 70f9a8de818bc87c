package httptool

import (
	"context"
	"errors"
	"testing"
)

// TestLimiterGivesUp: run returns when its context ends, and an abandoned function keeps its slot until it returns.
func TestLimiterGivesUp(t *testing.T) {
	t.Parallel()
	b, end := make(limiter, 2), make(chan struct{})
	for range cap(b) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := b.runLimited(ctx, func() ([]byte, error) {
			cancel()
			<-end
			return []byte("late"), nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want context.Canceled", err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if made, err := b.runLimited(over, func() ([]byte, error) { return nil, errors.New("it ran") }); !errors.Is(err, context.Canceled) {
		t.Errorf("without a place: %s, %v", made, err)
	}
	close(end)
	if made, err := b.runLimited(t.Context(), func() ([]byte, error) { return []byte("made"), nil }); err != nil || string(made) != "made" {
		t.Errorf("with a place again: %s, %v", made, err)
	}
}

// TestLimiterPanics: a panic becomes an error and frees the slot.
func TestLimiterPanics(t *testing.T) {
	t.Parallel()
	b := make(limiter, 1)
	for range 2 {
		if _, err := b.runLimited(t.Context(), func() ([]byte, error) { panic("of a kind") }); err == nil || err.Error() != "of a kind" {
			t.Errorf("got %v", err)
		}
	}
}
