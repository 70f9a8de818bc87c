package call

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// batcher lets concurrent callers share transactions: while one commits, the items that arrive
// wait together for the next. A caller who finds no transaction under way writes at once, in its own
// goroutine, and wakes nobody.
//
// The caller retries, not the transaction: a failed batch gives its place to the next, and each of
// its items is then written alone. So one item that fails, or waits for a lock, delays no other for
// longer than one attempt.
type batcher[T any] struct {
	batcherConfig[T]
	ctx context.Context //nolint:containedctx // of the service; items outlive the requests that made them

	mu       sync.Mutex
	idle     *sync.Cond
	waiting  []*pendingItem[T]
	leaders  int
	open     int       // items that are not written yet
	progress time.Time // when an item was written last, or became the only open one
}

// batcherConfig is all that batchers differ in.
type batcherConfig[T any] struct {
	// write stores the items in one transaction. The context ends with the attempt.
	write func(ctx context.Context, items []*T) error
	// retry reports whether an item that failed alone is tried again. It may change the item.
	retry func(item *T, err error, elapsed time.Duration) bool
	// size returns the bytes of an item on the wire, roughly.
	size func(item *T) int
	// most bounds the transactions at a time.
	most int
	now  func() time.Time
}

type pendingItem[T any] struct {
	item *T
	size int
	// alone: an attempt failed that had other items too, or failed before.
	alone  bool
	shared bool // the last attempt had other items too
	err    error
	done   chan struct{} // closed at the end of an attempt
}

const (
	// maxBatch and maxBatchBytes bound one transaction. PostgreSQL refuses messages of 1 GiB.
	maxBatch      = 128
	maxBatchBytes = 32 << 20
	// attemptLimit bounds an attempt; large batches get a second more for each slowestBytes.
	attemptLimit = 10 * time.Second
	slowestBytes = 1 << 20
)

func newBatcher[T any](ctx context.Context, config batcherConfig[T]) *batcher[T] {
	b := &batcher[T]{batcherConfig: config, ctx: ctx}
	b.idle = sync.NewCond(&b.mu)
	return b
}

// do writes an item and returns nil, or the error of its last attempt if it is not retried.
func (b *batcher[T]) do(item *T) error {
	p := &pendingItem[T]{item: item, size: b.size(item)}
	began := b.now()
	b.count(1)
	defer b.count(-1)
	for {
		err := b.attempt(p)
		switch {
		case err == nil:
			return nil
		case b.ctx.Err() != nil:
			return err
		case p.shared: // another item may be the reason
		case !b.retry(item, err, b.now().Sub(began)):
			return err
		}
		p.alone = true
		// Callers that failed together do not come back together.
		if pause.For(b.ctx, retryDelay/2+rand.N(retryDelay)) != nil { //nolint:gosec // G404: spreads load, hides nothing
			return err
		}
	}
}

// attempt writes an item with the next batch.
func (b *batcher[T]) attempt(p *pendingItem[T]) error {
	p.done = make(chan struct{})
	b.mu.Lock()
	b.waiting = append(b.waiting, p)
	lead := b.leaders < b.most
	if lead {
		b.leaders++
	}
	b.mu.Unlock()
	if lead {
		b.lead()
	}
	<-p.done
	return p.err
}

// lead writes one batch. Items that arrive meanwhile get a leader of their own: the caller does not
// wait for them.
func (b *batcher[T]) lead() {
	batch, size := b.next()
	if len(batch) > 0 {
		items := make([]*T, len(batch))
		for i, p := range batch {
			items[i] = p.item
		}
		ctx, cancel := context.WithTimeout(b.ctx, attemptLimit+time.Duration(size/slowestBytes)*time.Second)
		err := b.write(ctx, items)
		cancel()
		if err == nil {
			b.mu.Lock()
			b.progress = b.now()
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
		go b.lead()
		return
	}
	b.waiting = nil
	if b.leaders--; b.leaders == 0 {
		b.idle.Broadcast()
	}
}

// next takes the first items that wait, within the bounds of a batch.
func (b *batcher[T]) next() (batch []*pendingItem[T], size int) {
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

func (b *batcher[T]) count(by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open += by; by > 0 && b.open == by {
		b.progress = b.now()
	}
}

// stuckFor returns for how long items have waited without one being written.
func (b *batcher[T]) stuckFor() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == 0 {
		return 0
	}
	return b.now().Sub(b.progress)
}

// close waits for the attempts under way.
func (b *batcher[T]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.leaders > 0 {
		b.idle.Wait()
	}
}
