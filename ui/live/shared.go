package live

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// readLimit bounds a shared read, which no reader can cancel.
const readLimit = 30 * time.Second

// Shared reads a value once for all simultaneous readers, since all dashboards read when the queue changes. A read starts after its
// readers have asked for it: readers that come during a read wait for the next one. The zero value is ready to use.
type Shared[V any] struct {
	mu    sync.Mutex
	reads map[string]*reads[V]
}

type reads[V any] struct {
	next *read[V] // for readers that came during the current read; may be nil
}

type read[V any] struct {
	do    func(context.Context) (V, error) // of the first reader
	done  chan struct{}
	value V
	err   error
}

// Get reads the value of a key together with other readers. do gets a context without the values of ctx.
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
		go s.run(key, mine)
	}
	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// run reads until no reader waits. It uses no reader's context, since its values belong to that reader.
func (s *Shared[V]) run(key string, r *read[V]) {
	for r != nil {
		r.value, r.err = readWithLimit(context.Background(), r.do)
		close(r.done)
		s.mu.Lock()
		r, s.reads[key].next = s.reads[key].next, nil
		if r == nil {
			delete(s.reads, key)
		}
		s.mu.Unlock()
	}
}

// readWithLimit bounds a read and turns a panic into an error, because no HTTP server recovers it here.
func readWithLimit[V any](ctx context.Context, do func(context.Context) (V, error)) (value V, err error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do(ctx)
}
