package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// SafetyNet is how long a value may be remembered without a notice.
const SafetyNet = 5 * time.Second

// loadTimeout is the default of Config.LoadTimeout.
const loadTimeout = 10 * time.Second

// Config describes a [Memory]. The zero value, but for Now, remembers until it is full.
type Config[V any] struct {
	// TTL is how long a value is remembered. Zero: until it is dropped.
	TTL time.Duration
	// TTLOf, when set, returns the TTL of each value.
	TTLOf func(V) time.Duration
	// LoadTimeout limits a load. Zero: 10 s.
	LoadTimeout time.Duration
	// Size of a value; nil: 1. When the total exceeds MaxSize, expired values
	// are forgotten, or all if that is not enough.
	Size func(V) int
	// MaxSize, zero: 10,000.
	MaxSize int
	// Now is the clock. Required.
	Now func() time.Time
}

// Memory remembers loaded values by key. Reading a known value takes only a read lock. Concurrent callers share one load, which
// continues when the first caller leaves. Errors are not remembered. A value whose load began before a drop goes to its waiting
// callers and is not remembered.
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
	until time.Time // zero: no expiry
}

type flight[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// ErrClosed is the error of a closed Memory.
var ErrClosed = errors.New("memory is closed")

// NewMemory returns an empty Memory.
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

// Get returns the remembered value of a key, or loads it.
func (m *Memory[K, V]) Get(ctx context.Context, key K, load func(context.Context) (V, error)) (V, error) {
	return m.getValue(ctx, key, load, nil)
}

// GetIf is Get with a condition: good gets a remembered value and the time since its load began.
func (m *Memory[K, V]) GetIf(ctx context.Context, key K, good func(V, time.Duration) bool,
	load func(context.Context) (V, error),
) (V, error) {
	return m.getValue(ctx, key, load, good)
}

func (m *Memory[K, V]) getValue(ctx context.Context, key K, load func(context.Context) (V, error),
	good func(V, time.Duration) bool,
) (V, error) {
	now := m.cfg.Now()
	m.mu.RLock()
	e, ok := m.known[key]
	m.mu.RUnlock()
	if ok && e.isFresh(now) && (good == nil || good(e.value, now.Sub(e.began))) {
		return e.value, nil
	}
	f, err := m.joinLoad(ctx, key, load, now, good)
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

// Peek returns the remembered value of a key without loading.
func (m *Memory[K, V]) Peek(key K) (V, bool) {
	now := m.cfg.Now()
	m.mu.RLock()
	e, ok := m.known[key]
	m.mu.RUnlock()
	if !ok || !e.isFresh(now) {
		var none V
		return none, false
	}
	return e.value, true
}

// Start loads a key in the background, unless it is known or being loaded.
func (m *Memory[K, V]) Start(ctx context.Context, key K, load func(context.Context) (V, error)) {
	if _, ok := m.Peek(key); !ok {
		_, _ = m.joinLoad(ctx, key, load, m.cfg.Now(), nil) // the caller does not wait
	}
}

// StartAll loads those of the keys that are neither known nor being loaded in the background, all with one load. A key without a value in its
// result has the zero value.
func (m *Memory[K, V]) StartAll(ctx context.Context, keys []K, load func(context.Context, []K) (map[K]V, error)) {
	now := m.cfg.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	started := map[K]*flight[V]{}
	for _, key := range keys {
		if e, ok := m.known[key]; m.flying[key] == nil && (!ok || !e.isFresh(now)) {
			f := &flight[V]{done: make(chan struct{})}
			m.flying[key], started[key] = f, f
		}
	}
	if len(started) == 0 {
		return
	}
	m.startLoad(ctx, func(ctx context.Context) {
		values, err := loadSafely(ctx, func(ctx context.Context) (map[K]V, error) {
			return load(ctx, slices.Collect(maps.Keys(started)))
		})
		for key, f := range started {
			f.value, f.err = values[key], err
			m.finishLoad(key, f, now)
		}
	})
}

// startLoad runs a load that does not end with ctx. The caller holds m.mu.
func (m *Memory[K, V]) startLoad(ctx context.Context, load func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.LoadTimeout)
	stop := context.AfterFunc(m.base, cancel)
	m.loads.Go(func() {
		defer cancel()
		defer stop()
		load(ctx)
	})
}

// Put remembers a value that never changes.
func (m *Memory[K, V]) Put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.storeValue(key, value, m.cfg.Now())
}

// joinLoad returns the running load of a key, or starts one.
func (m *Memory[K, V]) joinLoad(ctx context.Context, key K, load func(context.Context) (V, error), now time.Time,
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
	// Another caller may have loaded it since.
	if e, ok := m.known[key]; ok && e.isFresh(now) && (good == nil || good(e.value, now.Sub(e.began))) {
		f := &flight[V]{done: make(chan struct{}), value: e.value}
		close(f.done)
		return f, nil
	}
	f := &flight[V]{done: make(chan struct{})}
	m.flying[key] = f
	m.startLoad(ctx, func(ctx context.Context) {
		f.value, f.err = loadSafely(ctx, load)
		m.finishLoad(key, f, now)
	})
	return f, nil
}

// finishLoad remembers a loaded value and tells those who wait.
func (m *Memory[K, V]) finishLoad(key K, f *flight[V], began time.Time) {
	defer close(f.done)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flying[key] != f {
		return // dropped meanwhile
	}
	delete(m.flying, key)
	if f.err == nil {
		m.storeValue(key, f.value, began)
	}
}

// loadSafely turns a panic of load into an error for all who wait: it runs in a goroutine of its own.
func loadSafely[V any](ctx context.Context, load func(context.Context) (V, error)) (value V, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic during a load: %v", cause)
		}
	}()
	return load(ctx)
}

func (m *Memory[K, V]) storeValue(key K, value V, began time.Time) {
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
	m.removeKey(key)
	if m.size+e.size > m.cfg.MaxSize || (!m.sweep.IsZero() && now.After(m.sweep)) {
		m.removeExpired(now)
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

func (m *Memory[K, V]) removeKey(key K) {
	m.size -= m.known[key].size
	delete(m.known, key)
}

func (m *Memory[K, V]) removeExpired(now time.Time) {
	m.sweep = time.Time{}
	for key, e := range m.known {
		if !e.isFresh(now) {
			m.removeKey(key)
		}
	}
}

// Drop forgets all keys. Running loads are not remembered.
func (m *Memory[K, V]) Drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.size = map[K]entry[V]{}, 0
	m.flying = map[K]*flight[V]{}
}

// DropIf forgets the matching keys. Their running loads are not remembered.
func (m *Memory[K, V]) DropIf(match func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.known {
		if match(key) {
			m.removeKey(key)
		}
	}
	maps.DeleteFunc(m.flying, func(key K, _ *flight[V]) bool { return match(key) })
}

// Close cancels the loads and waits for them.
func (m *Memory[K, V]) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end()
	m.loads.Wait()
}

func (e entry[V]) isFresh(now time.Time) bool { return e.until.IsZero() || now.Before(e.until) }
