package live

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// readLimit bounds what is read for several, whom nobody's leaving ends.
const readLimit = 30 * time.Second

// Shared reads something once for all who ask for it at the same moment, which dashboards do whenever the queue
// changes. What a reader gets was read after it asked: while a read is under way, all who come wait for the
// next one. The zero value is ready.
type Shared[V any] struct {
	mu    sync.Mutex
	reads map[string]*reads[V]
}

type reads[V any] struct {
	next *read[V] // which those wait for who came since the present one began; nil: nobody
}

type read[V any] struct {
	do    func(context.Context) (V, error) // of whoever asked for it first
	done  chan struct{}
	value V
	err   error
}

// Get reads what has this key, together with others: in a context of its own, without the values of anybody's.
func (s *Shared[V]) Get(ctx context.Context, key string, do func(context.Context) (V, error)) (V, error) {
	s.mu.Lock()
	under, busy := s.reads[key]
	if !busy {
		under = &reads[V]{}
		if s.reads == nil {
			s.reads = map[string]*reads[V]{}
		}
		s.reads[key] = under
	}
	mine := under.next
	if mine == nil {
		mine = &read[V]{do: do, done: make(chan struct{})}
		if busy {
			under.next = mine
		}
	}
	s.mu.Unlock()
	if !busy {
		go s.work(key, mine)
	}
	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// work reads until nobody waits any more. Nothing of whoever asked first is in it: what their context holds is theirs.
func (s *Shared[V]) work(key string, r *read[V]) {
	for r != nil {
		r.value, r.err = within(context.Background(), r.do)
		close(r.done)
		s.mu.Lock()
		r, s.reads[key].next = s.reads[key].next, nil
		if r == nil {
			delete(s.reads, key)
		}
		s.mu.Unlock()
	}
}

// within bounds a read. No server stands around it that would outlive its panic.
func within[V any](ctx context.Context, do func(context.Context) (V, error)) (value V, err error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do(ctx)
}
