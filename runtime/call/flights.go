package call

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// flights are the calls that this process is sending. A claim of ours that is
// not among them was never sent: its commit was not confirmed.
type flights struct {
	mu    sync.Mutex
	calls map[uuid.UUID]struct{}
	empty chan struct{} // closed while there are none
}

func newFlights() *flights {
	f := &flights{calls: map[uuid.UUID]struct{}{}, empty: make(chan struct{})}
	close(f.empty)
	return f
}

// add reports whether the call was not in flight before.
func (f *flights) add(id uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.calls[id]; ok {
		return false
	}
	if len(f.calls) == 0 {
		f.empty = make(chan struct{})
	}
	f.calls[id] = struct{}{}
	return true
}

func (f *flights) has(id uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.calls[id]
	return ok
}

// done may be called again for a call that is no longer in flight.
func (f *flights) done(id uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.calls[id]; !ok {
		return
	}
	delete(f.calls, id)
	if len(f.calls) == 0 {
		close(f.empty)
	}
}

func (f *flights) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// wait reports whether nothing was in flight before ctx ended.
func (f *flights) wait(ctx context.Context) bool {
	for {
		f.mu.Lock()
		empty := f.empty
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return f.count() == 0
		case <-empty:
			if f.count() == 0 {
				return true
			}
		}
	}
}

// gates bound how many approved calls of one skill are in flight.
type gates struct {
	mu    sync.Mutex
	limit int
	used  map[uuid.UUID]int
}

func newGates(limit int) *gates {
	return &gates{limit: limit, used: map[uuid.UUID]int{}}
}

// enter reports whether there was room.
func (g *gates) enter(skill uuid.UUID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used[skill] >= g.limit {
		return false
	}
	g.used[skill]++
	return true
}

func (g *gates) leave(skill uuid.UUID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used[skill]--; g.used[skill] <= 0 {
		delete(g.used, skill)
	}
}
