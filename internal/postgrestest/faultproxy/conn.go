package faultproxy

import (
	"io"
	"net"
	"sync"
	"time"
)

// fault is the fault of one direction of traffic.
type fault struct {
	delay   time.Duration
	hold    bool
	swallow bool
}

// Conn is one connection through the proxy.
type Conn struct {
	client net.Conn
	ended  chan struct{} // closed when the connection is cut

	mu      sync.Mutex
	server  net.Conn // nil until it is dialed
	faults  [2]fault // by direction
	lost    [2]bool  // bytes were swallowed
	passed  [2]int64
	cut     bool
	changed chan struct{} // closed and replaced with each change
}

// Conns are some connections of a [Proxy]. While some are held and others are not, their traffic is reordered.
type Conns []*Conn

// BlackHole swallows the traffic, and keeps the connections open.
func (cs Conns) BlackHole(d Direction) { cs.changeFaults(d, func(f *fault) { f.swallow = true }) }

// Hold keeps back the traffic until [Conns.Heal].
func (cs Conns) Hold(d Direction) { cs.changeFaults(d, func(f *fault) { f.hold = true }) }

// Delay lets each read wait before it is passed on. Zero ends it.
func (cs Conns) Delay(d Direction, by time.Duration) {
	cs.changeFaults(d, func(f *fault) { f.delay = by })
}

// Heal is [Proxy.Heal] for these connections.
func (cs Conns) Heal() { cs.changeFaults(Both, func(f *fault) { *f = fault{} }) }

// HalfClose ends the direction, like a peer that shuts down its sending side. Later traffic is swallowed.
func (cs Conns) HalfClose(d Direction) {
	for _, c := range cs {
		c.changeFaults(d, func(f *fault) { f.swallow = true })
		c.mu.Lock()
		if d&ToServer != 0 && c.server != nil {
			closeWrite(c.server)
		}
		if d&ToClient != 0 {
			closeWrite(c.client)
		}
		c.mu.Unlock()
	}
}

// Cut resets the connections at both ends.
func (cs Conns) Cut() {
	for _, c := range cs {
		c.Cut()
	}
}

func (cs Conns) changeFaults(d Direction, change func(*fault)) {
	for _, c := range cs {
		c.changeFaults(d, change)
	}
}

// Cut resets the connection at both ends.
func (c *Conn) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return
	}
	c.cut = true
	close(c.ended)
	resetConn(c.client)
	if c.server != nil {
		resetConn(c.server)
	}
}

// Passed returns the number of bytes that passed in the directions.
func (c *Conn) Passed(d Direction) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := int64(0)
	for i, n := range c.passed {
		if d&(1<<i) != 0 {
			sum += n
		}
	}
	return sum
}

// attachServer adds the server's end, unless the connection was cut.
func (c *Conn) attachServer(server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		_ = server.Close() // nothing was sent
		return false
	}
	c.server = server
	return true
}

func (c *Conn) changeFaults(d Direction, change func(*fault)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.faults {
		if d&(1<<i) != 0 {
			change(&c.faults[i])
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// copyTraffic copies one direction until it ends, and passes on the end.
func (c *Conn) copyTraffic(direction int, from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, readErr := from.Read(buffer)
		if n > 0 && !c.awaitPass(direction, n) {
			n = 0
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				c.Cut()
				return
			}
		}
		if readErr == nil {
			continue
		}
		if readErr != io.EOF { //nolint:errorlint // io.Reader returns it unwrapped
			c.Cut()
			return
		}
		if !c.awaitPass(direction, 0) { // the peer is not told of the end
			<-c.ended
			return
		}
		closeWrite(to)
		return
	}
}

// awaitPass waits until n bytes may pass, and reports false if they are lost.
func (c *Conn) awaitPass(direction, n int) bool {
	var until <-chan time.Time
	delayed := false
	for {
		c.mu.Lock()
		f, changed := c.faults[direction], c.changed
		if f.swallow || c.lost[direction] {
			c.lost[direction] = c.lost[direction] || n > 0
			c.mu.Unlock()
			return false
		}
		if !f.hold && (f.delay == 0 || delayed) {
			c.passed[direction] += int64(n)
			c.mu.Unlock()
			return true
		}
		c.mu.Unlock()
		if f.delay > 0 && until == nil {
			until = time.After(f.delay)
		}
		select {
		case <-until:
			delayed, until = true, make(chan time.Time)
		case <-changed:
		case <-c.ended:
			return false
		}
	}
}

func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // fails only if it is closed
	}
}

func resetConn(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if it fails, the connection ends in order
	}
	_ = conn.Close() // it is not used any more
}
