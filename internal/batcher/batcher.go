// Package batcher lets concurrent callers share transactions. It owns the order and the size of batches and the retries of
// their items, and no statement.
package batcher

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// Batcher writes items in batches: while one transaction commits, the items that arrive wait together for the next. A
// caller who finds no transaction under way writes at once, in its own goroutine, and wakes nobody.
//
// The caller retries, not the transaction: a failed batch gives its place to the next, and each of
// its items is then written alone. So one item that fails, or waits for a lock, delays no other for
// longer than one attempt.
type Batcher[T any] struct {
	Config[T]
	ctx context.Context //nolint:containedctx // of the service; items outlive the requests that made them

	mu       sync.Mutex
	idle     *sync.Cond
	waiting  []*pendingItem[T]
	leaders  int
	open     int       // items that are not written yet
	progress time.Time // when an item was written last, or became the only open one
}

// Config configures a [Batcher]. All fields are required.
type Config[T any] struct {
	// Write stores the items in one transaction. The context ends with the attempt.
	Write func(ctx context.Context, items []*T) error
	// Retry reports whether an item that failed alone is tried again. It may change the item.
	Retry func(item *T, err error, elapsed time.Duration) bool
	// Size returns the approximate bytes of an item on the wire.
	Size func(item *T) int
	// Leaders bounds the transactions at a time.
	Leaders int
	Now     func() time.Time
}

type pendingItem[T any] struct {
	item *T
	size int
	// alone means that an earlier attempt failed.
	alone  bool
	shared bool // the last attempt had other items too
	err    error
	done   chan struct{} // closed at the end of an attempt
}

// retryDelay is the median pause between two attempts of an item.
const retryDelay = 250 * time.Millisecond

const (
	// maxBatch and maxBatchBytes bound one transaction. PostgreSQL refuses messages of 1 GiB.
	maxBatch      = 128
	maxBatchBytes = 32 << 20
	// attemptLimit bounds an attempt; large batches get a second more for each slowestBytes.
	attemptLimit = 10 * time.Second
	slowestBytes = 1 << 20
)

// New makes a batcher. The end of ctx ends the attempts under way and all retries.
func New[T any](ctx context.Context, config Config[T]) *Batcher[T] {
	b := &Batcher[T]{Config: config, ctx: ctx}
	b.idle = sync.NewCond(&b.mu)
	return b
}

// Do writes an item and returns nil, or the error of its last attempt if it is not retried.
func (b *Batcher[T]) Do(item *T) error {
	p := &pendingItem[T]{item: item, size: b.Size(item)}
	began := b.Now()
	b.countOpen(1)
	defer b.countOpen(-1)
	for {
		err := b.tryOnce(p)
		switch {
		case err == nil:
			return nil
		case b.ctx.Err() != nil:
			return err
		case p.shared: // another item may be the reason
		case !b.Retry(item, err, b.Now().Sub(began)):
			return err
		}
		p.alone = true
		// Callers that failed together do not come back together.
		if pause.For(b.ctx, retryDelay/2+rand.N(retryDelay)) != nil { //nolint:gosec // G404: spreads load, hides nothing
			return err
		}
	}
}

// tryOnce writes an item with the next batch.
func (b *Batcher[T]) tryOnce(p *pendingItem[T]) error {
	p.done = make(chan struct{})
	b.mu.Lock()
	b.waiting = append(b.waiting, p)
	lead := b.leaders < b.Leaders
	if lead {
		b.leaders++
	}
	b.mu.Unlock()
	if lead {
		b.leadBatch()
	}
	<-p.done
	return p.err
}

// leadBatch writes one batch. Items that arrive meanwhile get a leader of their own: the caller does not
// wait for them.
func (b *Batcher[T]) leadBatch() {
	batch, size := b.nextBatch()
	if len(batch) > 0 {
		items := make([]*T, len(batch))
		for i, p := range batch {
			items[i] = p.item
		}
		ctx, cancel := context.WithTimeout(b.ctx, attemptLimit+time.Duration(size/slowestBytes)*time.Second)
		err := b.Write(ctx, items)
		cancel()
		if err == nil {
			b.mu.Lock()
			b.progress = b.Now()
			b.mu.Unlock()
		}
		for _, p := range batch {
			p.err, p.shared = err, len(batch) > 1
			close(p.done)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		go b.leadBatch()
		return
	}
	b.waiting = nil
	if b.leaders--; b.leaders == 0 {
		b.idle.Broadcast()
	}
}

// nextBatch takes the first items that wait, within the bounds of a batch.
func (b *Batcher[T]) nextBatch() (batch []*pendingItem[T], size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < min(len(b.waiting), maxBatch) {
		p := b.waiting[n]
		if n > 0 && (p.alone || size+p.size > maxBatchBytes) {
			break
		}
		size += p.size
		if n++; p.alone {
			break
		}
	}
	batch = b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return batch, size
}

func (b *Batcher[T]) countOpen(by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open += by; by > 0 && b.open == by {
		b.progress = b.Now()
	}
}

// StuckFor returns for how long items have waited without one being written.
func (b *Batcher[T]) StuckFor() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == 0 {
		return 0
	}
	return b.Now().Sub(b.progress)
}

// Close waits for the attempts under way.
func (b *Batcher[T]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.leaders > 0 {
		b.idle.Wait()
	}
}
