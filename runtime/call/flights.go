package call

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// flights are the calls that this process is sending. A claim of this instance without a flight was never sent, because its commit
// was not confirmed. So the flight of a call that may have been sent lasts until its outcome is written.
type flights struct {
	mu    sync.Mutex
	calls map[uuid.UUID]flight
	empty chan struct{} // closed while there are none

	// gated and direct remember the last sent calls, because a database that lost its last commits, in a failover or a restore, may
	// offer one of them again. Auto-approved calls do not displace gated ones.
	gated, direct sentCalls
	recent        recentCalls
}

// sentCalls is a set of the last maxSent calls.
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
	run     int  // of heartbeats at its begin; see [pulse]
	sending bool // the request may have been sent
}

// maxSent bounds each set of sent calls to about 5 MB.
const maxSent = 100_000

func newFlights() *flights {
	f := &flights{calls: map[uuid.UUID]flight{}, empty: make(chan struct{})}
	f.gated.ids, f.direct.ids = map[uuid.UUID]struct{}{}, map[uuid.UUID]struct{}{}
	close(f.empty)
	return f
}

// add begins the flight of a call before it is claimed. It reports false if the call is in flight already.
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

// heartbeatRun returns the run of heartbeats in which a flight began.
func (f *flights) heartbeatRun(id uuid.UUID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[id].run
}

// isSending reports whether the request of a call in flight may have been sent.
func (f *flights) isSending(id uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[id].sending
}

func (f *flights) has(id uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.calls[id]
	return ok
}

// markSending notes that the request may be sent from now on.
func (f *flights) markSending(c *Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[c.ID] = flight{f.calls[c.ID].run, true}
	f.rememberLocked(c)
}

// remember notes that a call is about to be released. Its caller may execute it even if the database loses that.
func (f *flights) remember(c *Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rememberLocked(c)
}

func (f *flights) rememberLocked(c *Call) {
	f.recent.add(new(c.withoutResult()))
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

// forgetRefused ends the flight of a call that its server refused without executing it. It may be sent again.
func (f *flights) forgetRefused(id uuid.UUID) {
	f.mu.Lock()
	delete(f.gated.ids, id)
	delete(f.direct.ids, id)
	f.mu.Unlock()
	f.done(id)
}

// release ends the flight of a call that was not sent. The flight of a call that may have been sent ends with [flights.done] only.
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

// wait waits until nothing is in flight, or ctx ends. It reports whether nothing is in flight.
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

// gates bound the approved calls in flight for each skill.
type gates struct {
	mu    sync.Mutex
	limit int
	used  map[uuid.UUID]int
}

func newGates(limit int) *gates {
	return &gates{limit: limit, used: map[uuid.UUID]int{}}
}

// enter takes a place of a skill. It reports false if there is none.
func (g *gates) enter(skill uuid.UUID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used[skill] >= g.limit {
		return false
	}
	g.used[skill]++
	return true
}

// isFull reports whether a skill has no place.
func (g *gates) isFull(skill uuid.UUID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used[skill] >= g.limit
}

func (g *gates) leave(skill uuid.UUID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used[skill]--; g.used[skill] <= 0 {
		delete(g.used, skill)
	}
}
