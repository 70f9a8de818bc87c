package call

import (
	"context"
	"sync"
)

// batcher lets concurrent callers share transactions: while one is being
// committed, the items that arrive wait together for the next. A lone caller waits for nobody.
type batcher[T any] struct {
	flush func(ctx context.Context, items []*T)
	queue chan *pendingItem[T]
	wg    sync.WaitGroup
}

type pendingItem[T any] struct {
	item *T
	done chan struct{}
}

// maxBatch bounds the items of one transaction.
const maxBatch = 128

// newBatcher starts the workers. flush gives every item its outcome, in the item; it must not fail.
func newBatcher[T any](ctx context.Context, workers int, flush func(ctx context.Context, items []*T)) *batcher[T] {
	b := &batcher[T]{flush: flush, queue: make(chan *pendingItem[T], maxBatch)}
	for range workers {
		b.wg.Go(func() { b.work(ctx) })
	}
	return b
}

// do hands over an item and returns when it has its outcome.
func (b *batcher[T]) do(item *T) {
	p := &pendingItem[T]{item: item, done: make(chan struct{})}
	b.queue <- p
	<-p.done
}

// close ends the workers once everything handed over is done.
func (b *batcher[T]) close() {
	close(b.queue)
	b.wg.Wait()
}

func (b *batcher[T]) work(ctx context.Context) {
	for first := range b.queue {
		batch := []*pendingItem[T]{first}
		items := []*T{first.item}
	fill:
		for len(batch) < maxBatch {
			select {
			case p, ok := <-b.queue:
				if !ok {
					break fill
				}
				batch, items = append(batch, p), append(items, p.item)
			default:
				break fill
			}
		}
		b.flush(ctx, items)
		for _, p := range batch {
			close(p.done)
		}
	}
}
