// Package skill owns the skill servers of the tests. Each records what arrives at
// it, outside of the processes that are killed, so that how often a call
// was executed is known for certain; some behave badly.
package skill

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

// Ledger counts arrivals by the argument n, as it was written.
type Ledger struct {
	mu       sync.Mutex
	arrivals map[string]int
	held     chan struct{} // nil: nothing is held
	pace     time.Duration
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{arrivals: map[string]int{}} }

// Record notes an arrival. It returns what to wait for before answering; nil: nothing.
func (l *Ledger) Record(n string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrivals[n]++
	return l.held
}

// Count is how often n arrived.
func (l *Ledger) Count(n string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.arrivals[n]
}

// All is how often each n arrived.
func (l *Ledger) All() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.arrivals)
}

// Hold keeps the calls that arrive from now on in flight, until Release.
func (l *Ledger) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(chan struct{})
	}
}

// Release lets go of all held calls.
func (l *Ledger) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

// TakeUpTo makes each call from now on take a while, at most d.
func (l *Ledger) TakeUpTo(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace = d
}

func (l *Ledger) dawdle() {
	l.mu.Lock()
	pace := l.pace
	l.mu.Unlock()
	if pace > 0 {
		<-time.After(rand.N(pace)) //nolint:gosec // G404: a pace is no secret
	}
}
