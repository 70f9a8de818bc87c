package converse

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
)

// A leftover job of an earlier turn does not affect the current turn.
func TestStaleTurnCancelsNothing(t *testing.T) {
	t.Parallel()
	running, id := &runningTurns{open: map[uuid.UUID]*runningTurn{}}, uuid.New()
	broken := make(chan struct{})
	if err := running.enterTurn(t.Context(), id, 2, func() { close(broken) }, func() {}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []int64{1, 2} {
		if err := running.enterTurn(t.Context(), id, step, func() {}, func() {}); !errors.Is(err, errStale) {
			t.Errorf("step %d: %v, want it to be stale", step, err)
		}
	}
	select {
	case <-broken:
		t.Fatal("the turn under way was broken off")
	default:
	}
	next := make(chan error, 1)
	go func() { next <- running.enterTurn(t.Context(), id, 3, func() {}, func() {}) }()
	<-broken
	running.leaveTurn(id)
	if err := <-next; err != nil {
		t.Errorf("the next turn: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := running.enterTurn(ctx, id, 4, func() {}, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("in a stopping process: %v", err)
	}
}
