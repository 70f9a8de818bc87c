package call

import (
	"context"
	"sync"
)

// batcher lets concurrent callers share transactions: while one is being
// committed, the items that arrive wait together for the next. A caller who finds nothing under
// way writes at once, in its own goroutine: it waits for nobody, and nobody is woken for it.
type batcher[T any] struct {
	ctx   context.Context //nolint:containedctx // of the service; what was handed over outlives its caller's
	flush func(ctx context.Context, items []*T)
	most  int // transactions at a time

	mu      sync.Mutex
	idle    *sync.Cond
	waiting []*pendingItem[T]
	leaders int
}

type pendingItem[T any] struct {
	item *T
	done chan struct{} // closed when the item has its outcome
}

// maxBatch bounds the items of one transaction.
const maxBatch = 128

// newBatcher makes a batcher. flush gives every item its outcome, in the item; it must not fail.
func newBatcher[T any](ctx context.Context, most int, flush func(ctx context.Context, items []*T)) *batcher[T] {
	b := &batcher[T]{ctx: ctx, flush: flush, most: most}
	b.idle = sync.NewCond(&b.mu)
	return b
}

// do hands over an item and returns when it has its outcome.
func (b *batcher[T]) do(item *T) {
	p := &pendingItem[T]{item: item, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, p)
	if b.leaders == b.most {
		b.mu.Unlock()
		<-p.done
		return
	}
	b.leaders++
	b.mu.Unlock()
	b.lead()
	<-p.done
}

// lead writes one batch, and leaves what arrived meanwhile to another leader:
// its caller should not pay for it.
func (b *batcher[T]) lead() {
	b.mu.Lock()
	n := min(len(b.waiting), maxBatch)
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.mu.Unlock()
	if n > 0 {
		items := make([]*T, n)
		for i, p := range batch {
			items[i] = p.item
		}
		b.flush(b.ctx, items)
		for _, p := range batch {
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

// close waits until everything handed over is done.
func (b *batcher[T]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.leaders > 0 {
		b.idle.Wait()
	}
}
