package session

import (
	"sync"
)

// Background runs the goroutines of a session or of a source.
type Background struct {
	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
}

// Go runs f in a goroutine and reports true, unless Stop was called.
func (t *Background) Go(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.running.Go(f)
	return true
}

// Stop prevents new goroutines and waits for the running ones.
func (t *Background) Stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.running.Wait()
}
