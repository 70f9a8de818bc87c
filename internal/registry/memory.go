package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// SafetyNet is how long something may be remembered without a notice.
const SafetyNet = 5 * time.Second

// loadTimeout bounds a load, whoever waits for it.
const loadTimeout = 10 * time.Second

// Config describes a [Memory]. The zero value remembers for ever, until full.
type Config[V any] struct {
	// TTL is how long a value is remembered. Zero: until it is dropped.
	TTL time.Duration
	// TTLOf, when set, says so for each value.
	TTLOf func(V) time.Duration
	// LoadTimeout bounds a load. Zero: 10 s.
	LoadTimeout time.Duration
	// Size of a value; nil: 1. When the sizes of all exceed MaxSize, those
	// out of date are forgotten, else all.
	Size func(V) int
	// MaxSize, zero: 10,000.
	MaxSize int
	// Now is the clock. Required.
	Now func() time.Time
}

// Memory remembers what was loaded, by key. Reading what is known takes a read
// lock and nothing else. What several ask for at once is loaded once, and the load
// goes on when whoever asked first has left. Errors are not remembered. A value whose load
// began before it was dropped is given to those who asked before, and not remembered.
type Memory[K comparable, V any] struct {
	cfg   Config[V]
	base  context.Context //nolint:containedctx // ends with the Memory, not with a call
	end   context.CancelFunc
	loads sync.WaitGroup

	mu     sync.RWMutex
	known  map[K]entry[V]
	flying map[K]*flight[V]
	size   int
	sweep  time.Time
	closed bool
}

type entry[V any] struct {
	value V
	size  int
	began time.Time // of its load
	until time.Time // zero: for ever
}

type flight[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// ErrClosed says that the Memory was closed.
var ErrClosed = errors.New("memory is closed")

// NewMemory makes an empty Memory.
func NewMemory[K comparable, V any](cfg Config[V]) *Memory[K, V] {
	if cfg.LoadTimeout == 0 {
		cfg.LoadTimeout = loadTimeout
	}
	if cfg.MaxSize == 0 {
		cfg.MaxSize = 10_000
	}
	m := &Memory[K, V]{cfg: cfg, known: map[K]entry[V]{}, flying: map[K]*flight[V]{}}
	m.base, m.end = context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	return m
}

// Get returns what is remembered of a key, or else loads it.
func (m *Memory[K, V]) Get(ctx context.Context, key K, load func(context.Context) (V, error)) (V, error) {
	return m.get(ctx, key, load, nil)
}

// GetIf is Get that takes what is remembered only if it is good enough for
// good, which is told how long ago its load began.
func (m *Memory[K, V]) GetIf(ctx context.Context, key K, good func(V, time.Duration) bool,
	load func(context.Context) (V, error),
) (V, error) {
	return m.get(ctx, key, load, good)
}

func (m *Memory[K, V]) get(ctx context.Context, key K, load func(context.Context) (V, error),
	good func(V, time.Duration) bool,
) (V, error) {
	now := m.cfg.Now()
	m.mu.RLock()
	e, ok := m.known[key]
	m.mu.RUnlock()
	if ok && e.fresh(now) && (good == nil || good(e.value, now.Sub(e.began))) {
		return e.value, nil
	}
	f, err := m.join(ctx, key, load, now, good)
	if err != nil {
		var none V
		return none, err
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// Peek returns what is remembered of a key and does not load.
func (m *Memory[K, V]) Peek(key K) (V, bool) {
	now := m.cfg.Now()
	m.mu.RLock()
	e, ok := m.known[key]
	m.mu.RUnlock()
	if !ok || !e.fresh(now) {
		var none V
		return none, false
	}
	return e.value, true
}

// Start loads a key in the background, unless it is known or being loaded.
func (m *Memory[K, V]) Start(ctx context.Context, key K, load func(context.Context) (V, error)) {
	if _, ok := m.Peek(key); !ok {
		_, _ = m.join(ctx, key, load, m.cfg.Now(), nil) // nobody waits for it
	}
}

// Put remembers a value that cannot be out of date: one that never changes.
func (m *Memory[K, V]) Put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store(key, value, m.cfg.Now())
}

// join finds the load of a key that is under way, or begins one.
func (m *Memory[K, V]) join(ctx context.Context, key K, load func(context.Context) (V, error), now time.Time,
	good func(V, time.Duration) bool,
) (*flight[V], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if f, ok := m.flying[key]; ok {
		return f, nil
	}
	// Another may have loaded it since the caller looked.
	if e, ok := m.known[key]; ok && e.fresh(now) && (good == nil || good(e.value, now.Sub(e.began))) {
		f := &flight[V]{done: make(chan struct{}), value: e.value}
		close(f.done)
		return f, nil
	}
	f := &flight[V]{done: make(chan struct{})}
	m.flying[key] = f
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.LoadTimeout)
	stop := context.AfterFunc(m.base, cancel)
	m.loads.Go(func() {
		defer cancel()
		defer stop()
		m.fill(ctx, key, f, now, load)
	})
	return f, nil
}

func (m *Memory[K, V]) fill(ctx context.Context, key K, f *flight[V], began time.Time,
	load func(context.Context) (V, error),
) {
	defer close(f.done)
	f.value, f.err = attempt(ctx, load)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flying[key] != f {
		return // dropped meanwhile
	}
	delete(m.flying, key)
	if f.err == nil {
		m.store(key, f.value, began)
	}
}

// attempt loads. Nobody above it could recover, and one value is not worth the process:
// a panic becomes the error of all who wait for the load.
func attempt[V any](ctx context.Context, load func(context.Context) (V, error)) (value V, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic during a load: %v", cause)
		}
	}()
	return load(ctx)
}

func (m *Memory[K, V]) store(key K, value V, began time.Time) {
	now := m.cfg.Now()
	e := entry[V]{value: value, size: 1, began: began}
	if m.cfg.Size != nil {
		e.size = m.cfg.Size(value)
	}
	ttl := m.cfg.TTL
	if m.cfg.TTLOf != nil {
		ttl = m.cfg.TTLOf(value)
	}
	if ttl > 0 {
		e.until = now.Add(ttl)
	}
	m.forget(key)
	if m.size+e.size > m.cfg.MaxSize || (!m.sweep.IsZero() && now.After(m.sweep)) {
		m.forgetOld(now)
	}
	if m.size+e.size > m.cfg.MaxSize {
		m.known, m.size = map[K]entry[V]{}, 0
	}
	if m.sweep.IsZero() && ttl > 0 {
		m.sweep = now.Add(2 * ttl)
	}
	m.known[key] = e
	m.size += e.size
}

func (m *Memory[K, V]) forget(key K) {
	m.size -= m.known[key].size
	delete(m.known, key)
}

func (m *Memory[K, V]) forgetOld(now time.Time) {
	m.sweep = time.Time{}
	for key, e := range m.known {
		if !e.fresh(now) {
			m.forget(key)
		}
	}
}

// Drop forgets everything. What is being loaded will not be remembered.
func (m *Memory[K, V]) Drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.size = map[K]entry[V]{}, 0
	m.flying = map[K]*flight[V]{}
}

// DropIf forgets some keys, likewise.
func (m *Memory[K, V]) DropIf(match func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.known {
		if match(key) {
			m.forget(key)
		}
	}
	maps.DeleteFunc(m.flying, func(key K, _ *flight[V]) bool { return match(key) })
}

// Close ends the loads and waits for them.
func (m *Memory[K, V]) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end()
	m.loads.Wait()
}

func (e entry[V]) fresh(now time.Time) bool { return e.until.IsZero() || now.Before(e.until) }
