package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// parkedBytes is the length of a parked call's arguments.
const parkedBytes = 200

// parkedText is the text of the numbered call, with its braces and name around it that long.
func parkedText(number int) string { return marked(number, parkedBytes-len(`{"text":""}`)) }

// crew are connected clients, dealt out to submitters: client i belongs to
// submitter i modulo their number, and a submitter's clients share
// sessions dealt out alike.
type crew struct {
	wires      []*wire
	submitters int
}

// enlist connects n clients with that many sessions, before anything is timed.
func enlist(ctx context.Context, t target, n, submitters, sessions int) (crew, error) {
	c := crew{make([]*wire, n), submitters}
	err := c.each(func(i int) error {
		var err error
		if i < sessions {
			c.wires[i], err = open(ctx, t)
		} else {
			c.wires[i], err = dial(ctx, t)
		}
		return err
	})
	if err != nil {
		c.dismiss()
		return c, err
	}
	for i := sessions; i < n; i++ {
		c.wires[i].session = c.wires[i%sessions].session
	}
	return c, nil
}

// each does something for every client: a submitter after the other for its
// own, all submitters at once.
func (c crew) each(do func(i int) error) error {
	errs := make([]error, c.submitters)
	var wg sync.WaitGroup
	for k := range c.submitters {
		wg.Go(func() {
			for i := k; i < len(c.wires) && errs[k] == nil; i += c.submitters {
				errs[k] = do(i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// park makes every client's call, numbered from first on, and says how long all took.
func (c crew) park(first int) ([]held, time.Duration, error) {
	calls := make([]held, len(c.wires))
	began := time.Now()
	err := c.each(func(i int) error {
		var err error
		if calls[i], err = c.wires[i].park(parkedText(first + i)); err != nil {
			return fmt.Errorf("park call %d: %w", first+i, err)
		}
		return nil
	})
	return calls, time.Since(began), err
}

// dismiss lets all clients leave.
func (c crew) dismiss() {
	for _, w := range c.wires {
		if w != nil {
			w.close()
		}
	}
}
