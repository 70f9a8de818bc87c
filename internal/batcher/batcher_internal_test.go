package batcher

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

var errRefused = errors.New("refused")

// batchRecorder is a database that records batches and refuses some items.
type batchRecorder struct {
	mu      sync.Mutex
	batches [][]int
	refused map[int]bool
	begin   chan struct{}
}

func (r *batchRecorder) write(ctx context.Context, items []*int) error {
	<-r.begin
	var batch []int
	err := error(nil)
	for _, item := range items {
		batch = append(batch, *item)
		if r.refused[*item] {
			err = errRefused
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, batch)
	return err
}

// run adds items, of which the first leads its own batch, and returns their errors.
func (r *batchRecorder) run(t *testing.T, size int, items ...int) []error {
	t.Helper()
	r.begin = make(chan struct{})
	b := New(t.Context(), Config[int]{
		Write: r.write, Leaders: 1, Now: time.Now,
		Retry: func(*int, error, time.Duration) bool { return false },
		Size:  func(*int) int { return size },
	})
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i := range items {
		wg.Go(func() { errs[i] = b.Do(&items[i]) })
		for b.handed() <= i { // in order
			<-time.After(time.Millisecond)
		}
	}
	close(r.begin)
	wg.Wait()
	b.Close()
	return errs
}

func (b *Batcher[T]) handed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) + b.leaders
}

func TestBatchesAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	r := &batchRecorder{}
	const items = 11
	values := make([]int, items)
	for i, err := range r.run(t, 14<<20, values...) {
		if err != nil {
			t.Errorf("item %d: %v", i, err)
		}
	}
	for _, batch := range r.batches {
		if n := len(batch); n > 2 {
			t.Errorf("a batch of %d MB", n*14)
		}
	}
	if len(r.batches) != 1+items/2 {
		t.Errorf("%d batches", len(r.batches))
	}
}

func TestRefusedItemFailsAlone(t *testing.T) {
	t.Parallel()
	r := &batchRecorder{refused: map[int]bool{3: true}}
	for i, err := range r.run(t, 1, 0, 1, 2, 3, 4, 5) {
		if want := i == 3; errors.Is(err, errRefused) != want {
			t.Errorf("item %d: %v", i, err)
		}
	}
}

// TestStuckItemsAreNoticed: the readiness probe reports stuck writes, and recovers.
func TestStuckItemsAreNoticed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	begin := make(chan struct{})
	b := New(t.Context(), Config[int]{
		Write:   func(context.Context, []*int) error { <-begin; return nil },
		Leaders: 1, Now: clock, Size: func(*int) int { return 1 },
		Retry: func(*int, error, time.Duration) bool { return false },
	})
	if b.StuckFor() != 0 {
		t.Error("an idle batcher is stuck")
	}
	done := make(chan error)
	go func() { done <- b.Do(new(int)) }()
	for b.handed() == 0 {
		<-time.After(time.Millisecond)
	}
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
	if got := b.StuckFor(); got != time.Minute {
		t.Errorf("stuck for %s, want 1m", got)
	}
	close(begin)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if b.StuckFor() != 0 {
		t.Error("a batcher that wrote everything is stuck")
	}
}
