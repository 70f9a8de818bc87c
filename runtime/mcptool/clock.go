package mcptool

import (
	"sync"
	"time"
)

// clock is the time that an errand has. It stands still while somebody is being asked. A nil one
// never runs out.
type clock struct {
	now func() time.Time
	end func()

	mu    sync.Mutex
	left  time.Duration // when it was set going last
	since time.Time
	open  int // questions
	timer *time.Timer
}

// startClock calls end when limit has passed; zero is no limit.
func startClock(limit time.Duration, now func() time.Time, end func()) *clock {
	if limit <= 0 {
		return nil
	}
	return &clock{now: now, end: end, left: limit, since: now(), timer: time.AfterFunc(limit, end)}
}

// pause stops the clock until resume is called, once for each pause.
func (c *clock) pause() (resume func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open++; c.open == 1 && c.timer.Stop() {
		c.left -= c.now().Sub(c.since)
	}
	return c.resume
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.open == 0 {
		c.since = c.now()
		c.timer.Reset(max(c.left, 0))
	}
}

// stop ends the clock for good.
func (c *clock) stop() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	c.timer.Stop()
}
