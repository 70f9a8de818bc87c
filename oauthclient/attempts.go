package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// attempts are the operations on connections that are running in this process, at most one of each name. An operation
// continues when its callers leave.
type attempts struct {
	base context.Context //nolint:containedctx // ends with the service
	stop context.CancelFunc

	mu      sync.Mutex
	byName  map[string]*attempt
	running sync.WaitGroup
	closed  bool
}

type attempt struct {
	done chan struct{}
	err  error
}

func newAttempts() *attempts {
	a := &attempts{byName: map[string]*attempt{}}
	a.base, a.stop = context.WithCancel(context.Background())
	return a
}

// runShared runs f, or waits for the running operation of the same name.
func (a *attempts) runShared(ctx context.Context, name string, f func(context.Context) error) error {
	t := a.startShared(name, f)
	if t == nil {
		return errors.New("the server is stopping")
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startShared starts f and returns the operation, or the running one of the same name. After closeAll it returns nil.
func (a *attempts) startShared(name string, f func(context.Context) error) *attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	if t, ok := a.byName[name]; ok {
		return t
	}
	t := &attempt{done: make(chan struct{})}
	a.byName[name] = t
	a.running.Go(func() {
		ctx, cancel := context.WithTimeout(a.base, attemptTimeout)
		defer cancel()
		t.err = runRecovered(ctx, f)
		a.mu.Lock()
		delete(a.byName, name)
		a.mu.Unlock()
		close(t.done)
	})
	return t
}

// runRecovered turns a panic, such as over a server's answer, into an error.
func runRecovered(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("authorization panicked: %v\n%s", cause, debug.Stack())
		}
	}()
	return f(ctx)
}

// closeAll cancels the running operations, waits for them, and refuses further ones.
func (a *attempts) closeAll() {
	a.stop()
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.running.Wait()
}

// backoffs holds the connections whose early renewal failed a moment ago. Their tokens are still good, so no caller waits
// for another failure.
type backoffs struct {
	mu    sync.Mutex
	until map[Key]time.Time
}

const backoffTime = 10 * time.Second

func (b *backoffs) startBackoff(key Key, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil || len(b.until) > maxServers {
		b.until = map[Key]time.Time{}
	}
	b.until[key] = now.Add(backoffTime)
}

func (b *backoffs) isBackingOff(key Key, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.until[key])
}

// requestSlots bound the transactions that hold a connection of the pool during a request to an authorization server. A
// server that hangs delays only its own skills, and all of them together leave connections for others.
type requestSlots struct {
	all chan struct{}

	mu       sync.Mutex
	byIssuer map[string]chan struct{}
}

const (
	slotsPerIssuer = 2
	slotsInAll     = 6
)

// acquireSlot waits for a slot. The caller calls release at the end of its transaction.
func (rs *requestSlots) acquireSlot(ctx context.Context, issuer string) (release func(), err error) {
	rs.mu.Lock()
	if rs.byIssuer == nil || len(rs.byIssuer) > maxServers {
		rs.byIssuer = map[string]chan struct{}{}
	}
	each := rs.byIssuer[issuer]
	if each == nil {
		each = make(chan struct{}, slotsPerIssuer)
		rs.byIssuer[issuer] = each
	}
	rs.mu.Unlock()
	select {
	case each <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case rs.all <- struct{}{}:
		return func() { <-rs.all; <-each }, nil
	case <-ctx.Done():
		<-each
		return nil, ctx.Err()
	}
}
