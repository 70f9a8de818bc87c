// Package skill owns the skill servers of the tests. Each records the calls that arrive, outside of the processes that tests kill, so
// that a test knows how often a call was executed. Some of them misbehave.
package skill

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

// Ledger counts calls by the bytes of their argument n.
type Ledger struct {
	mu       sync.Mutex
	arrivals map[string]int
	held     chan struct{} // nil: calls are not held
	pace     time.Duration
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{arrivals: map[string]int{}} }

// Record counts a call. If the result is not nil, the call is held until it is closed.
func (l *Ledger) Record(n string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrivals[n]++
	return l.held
}

// Count returns the number of calls with n.
func (l *Ledger) Count(n string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.arrivals[n]
}

// All returns the number of calls for each n.
func (l *Ledger) All() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.arrivals)
}

// Hold holds later calls until Release.
func (l *Ledger) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(chan struct{})
	}
}

// Release releases all held calls.
func (l *Ledger) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

// TakeUpTo makes each later call take a random time up to d.
func (l *Ledger) TakeUpTo(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace = d
}

func (l *Ledger) waitForPace() {
	l.mu.Lock()
	pace := l.pace
	l.mu.Unlock()
	if pace > 0 {
		<-time.After(rand.N(pace)) //nolint:gosec // G404: a pace is no secret
	}
}
