package live_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdpoint/holdpoint/ui/live"
)

// Readers get a value that was read after they asked, and simultaneous readers share reads.
func TestSharedReadsAreNew(t *testing.T) {
	t.Parallel()
	var shared live.Shared[int64]
	var state, reads atomic.Int64
	var readers sync.WaitGroup
	for range 50 {
		readers.Go(func() {
			for range 200 {
				asked := state.Add(1)
				got, err := shared.Get(t.Context(), "queue", func(context.Context) (int64, error) {
					reads.Add(1)
					return state.Load(), nil
				})
				if err != nil || got < asked {
					t.Errorf("got %d, %v; it was %d before", got, err, asked)
				}
			}
		})
	}
	readers.Wait()
	if n := reads.Load(); n > 10_000 || n == 0 {
		t.Errorf("%d reads for 10000 readers", n)
	}
}

func TestReadsAreShared(t *testing.T) {
	t.Parallel()
	var shared live.Shared[int]
	began, goOn := make(chan struct{}), make(chan struct{})
	reads := 0
	slow := func(context.Context) (int, error) {
		reads++
		if reads == 1 {
			close(began)
			<-goOn
		}
		return reads, nil
	}
	results := make(chan int, 11)
	get := func() {
		got, err := shared.Get(context.WithoutCancel(t.Context()), "key", slow)
		if err != nil {
			t.Error(err)
		}
		results <- got
	}
	go get()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shared.Get(ctx, "key", slow); !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves gets %v", err)
	}
	for range 10 { // these start during or after the first read and never share it
		go get()
	}
	other, err := shared.Get(t.Context(), "another key", func(context.Context) (int, error) { return 7, nil })
	if err != nil || other != 7 {
		t.Errorf("another key waits for this one: %d, %v", other, err)
	}
	close(goOn)
	first := 0
	for range 11 {
		if <-results == 1 {
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d got the read that had begun before they asked, want 1: who asked first", first)
	}
}

// A request's context may change while the request runs, so a shared read must not use it.
func TestSharedReadsHaveNobodysContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	var shared live.Shared[any]
	got, err := shared.Get(context.WithValue(t.Context(), key{}, "mine"), "key", func(ctx context.Context) (any, error) {
		return ctx.Value(key{}), nil
	})
	if err != nil || got != nil {
		t.Errorf("the read sees %v, %v", got, err)
	}
}

func TestSharedErrorsAreForThoseWhoAsked(t *testing.T) {
	t.Parallel()
	var shared live.Shared[int]
	failure := errors.New("no database")
	if _, err := shared.Get(t.Context(), "key", func(context.Context) (int, error) { return 0, failure }); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	if _, err := shared.Get(t.Context(), "key", func(context.Context) (int, error) { panic("no rows") }); err == nil {
		t.Error("a panic is no error")
	}
	if got, err := shared.Get(t.Context(), "key", func(context.Context) (int, error) { return 1, nil }); err != nil || got != 1 {
		t.Errorf("afterwards: %d, %v", got, err)
	}
}
