package mcptool

import "sync"

// tasks are the goroutines of a peer, or of the Source. None starts after
// stop, which waits for those that run.
type tasks struct {
	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
}

// run starts f, unless stop was called; it reports whether f was started.
func (t *tasks) run(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.running.Go(f)
	return true
}

func (t *tasks) stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.running.Wait()
}
