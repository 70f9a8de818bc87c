package call

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// flights are the calls that this process is sending. A claim of ours that is
// not among them was never sent: its commit was not confirmed. So a call that may have been sent
// stays among them until its outcome is written, whatever happens in between.
type flights struct {
	mu    sync.Mutex
	calls map[uuid.UUID]flight
	empty chan struct{} // closed while there are none

	// The calls that were sent last. A database that lost its last commits, in a failover or a restore, may offer one of them again.
	// Auto-approved calls, which may be many, make no gated one forgotten.
	gated, direct sentCalls
}

// sentCalls remembers the last maxSent calls.
type sentCalls struct {
	ids    map[uuid.UUID]struct{}
	oldest []uuid.UUID // in a ring
	next   int
}

func (s *sentCalls) add(id uuid.UUID) {
	if len(s.oldest) < maxSent {
		s.oldest = append(s.oldest, id)
	} else {
		delete(s.ids, s.oldest[s.next])
		s.oldest[s.next] = id
		s.next = (s.next + 1) % maxSent
	}
	s.ids[id] = struct{}{}
}

// flight is one call in flight.
type flight struct {
	run     int  // of heartbeats, when the flight began; see [pulse]
	sending bool // bytes of the call may be on their way
}

// maxSent bounds each memory of sent calls: about 5 MB.
const maxSent = 100_000

func newFlights() *flights {
	f := &flights{calls: map[uuid.UUID]flight{}, empty: make(chan struct{})}
	f.gated.ids, f.direct.ids = map[uuid.UUID]struct{}{}, map[uuid.UUID]struct{}{}
	close(f.empty)
	return f
}

// add begins the flight of a call, in a run of heartbeats, before it is claimed. It reports whether the call was not in flight before.
func (f *flights) add(id uuid.UUID, run int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.calls[id]; ok {
		return false
	}
	if len(f.calls) == 0 {
		f.empty = make(chan struct{})
	}
	f.calls[id] = flight{run: run}
	return true
}

// run returns the run of heartbeats in which the flight of a call began.
func (f *flights) run(id uuid.UUID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[id].run
}

func (f *flights) has(id uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.calls[id]
	return ok
}

// sending says that from here on bytes of the call may be on their way.
func (f *flights) sending(c *Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[c.ID] = flight{f.calls[c.ID].run, true}
	if c.Gated {
		f.gated.add(c.ID)
	} else {
		f.direct.add(c.ID)
	}
}

// wasSent reports whether this process sent the call before.
func (f *flights) wasSent(id uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, gated := f.gated.ids[id]
	_, direct := f.direct.ids[id]
	return gated || direct
}

// refused says that the server of a call refused it unexecuted: it may be sent again.
func (f *flights) refused(id uuid.UUID) {
	f.mu.Lock()
	delete(f.gated.ids, id)
	delete(f.direct.ids, id)
	f.mu.Unlock()
	f.done(id)
}

// release ends the flight of a call that was not sent; one that may have been
// ends with [flights.done] only.
func (f *flights) release(id uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if flight, ok := f.calls[id]; ok && !flight.sending {
		f.remove(id)
	}
}

// done ends the flight of a call whose outcome is written.
func (f *flights) done(id uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.calls[id]; ok {
		f.remove(id)
	}
}

func (f *flights) remove(id uuid.UUID) {
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
