package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// parkedBytes is the length of the arguments of a parked call.
const parkedBytes = 200

// parkedText returns the text of a numbered call. The arguments with this text have parkedBytes bytes.
func parkedText(number int) string { return markedText(number, parkedBytes-len(`{"text":""}`)) }

// clientGroup is a set of connected clients. Client i belongs to submitter i modulo the number of submitters. Sessions are shared in
// the same way.
type clientGroup struct {
	wires      []*wire
	submitters int
}

// connectClients connects n clients that share the given number of sessions.
func connectClients(ctx context.Context, t target, n, submitters, sessions int) (clientGroup, error) {
	c := clientGroup{make([]*wire, n), submitters}
	err := c.forEach(func(i int) error {
		var err error
		if i < sessions {
			c.wires[i], err = openSession(ctx, t)
		} else {
			c.wires[i], err = dialTarget(ctx, t)
		}
		return err
	})
	if err != nil {
		c.close()
		return c, err
	}
	for i := sessions; i < n; i++ {
		c.wires[i].session = c.wires[i%sessions].session
	}
	return c, nil
}

// forEach runs do for every client. Submitters run concurrently; each takes its clients one after the other.
func (c clientGroup) forEach(do func(i int) error) error {
	var group errgroup.Group
	for k := range c.submitters {
		group.Go(func() error {
			for i := k; i < len(c.wires); i += c.submitters {
				if err := do(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// parkCalls parks one call of each client, numbered from first, and returns the time that all of them took.
func (c clientGroup) parkCalls(first int) ([]heldCall, time.Duration, error) {
	calls := make([]heldCall, len(c.wires))
	began := time.Now()
	err := c.forEach(func(i int) error {
		var err error
		if calls[i], err = c.wires[i].parkCall(parkedText(first + i)); err != nil {
			return fmt.Errorf("park call %d: %w", first+i, err)
		}
		return nil
	})
	return calls, time.Since(began), err
}

// close disconnects all clients.
func (c clientGroup) close() {
	for _, w := range c.wires {
		if w != nil {
			w.close()
		}
	}
}
