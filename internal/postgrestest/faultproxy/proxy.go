// Package faultproxy puts a TCP proxy in front of a PostgreSQL server, for tests of what a
// broken network or a frozen server does. At run time a test can delay, hold, swallow, half-close
// and cut the traffic of all connections or of chosen ones, in each direction.
//
// The proxy copies bytes. It knows nothing of the PostgreSQL protocol and does not end TLS.
package faultproxy

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Direction says which way traffic flows. Directions can be combined.
type Direction int

// The directions.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// Proxy is a running proxy. It is safe for concurrent use.
type Proxy struct {
	network, address string // the server's
	url              string
	listener         net.Listener
	running          sync.WaitGroup
	ctx              context.Context //nolint:containedctx // it is the proxy's life, and ends its dialing
	stop             context.CancelFunc

	mu      sync.Mutex
	conns   Conns // oldest first
	initial [2]fault
	holdNew bool
	changed chan struct{} // closed and replaced when holdNew changes
}

// Start runs a proxy in front of the database's server until the test ends. The server may listen on a Unix socket.
func Start(tb testing.TB, databaseURL string) *Proxy {
	tb.Helper()
	cfg, err := pgconn.ParseConfig(databaseURL)
	if err != nil {
		tb.Fatalf("start fault proxy: %v", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("start fault proxy: %v", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	p := &Proxy{listener: listener, ctx: ctx, stop: stop, changed: make(chan struct{})}
	p.network, p.address = pgconn.NetworkAddress(cfg.Host, cfg.Port)
	sslmode := "disable"
	if cfg.TLSConfig != nil {
		sslmode = "require" // the certificate is not for the proxy's address
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(cfg.User, cfg.Password), Host: listener.Addr().String(),
		Path: "/" + cfg.Database, RawQuery: "sslmode=" + sslmode,
	}
	p.url = u.String()
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// URL returns the connection string of the database through the proxy.
func (p *Proxy) URL() string { return p.url }

// Address returns the host and port that the proxy listens on.
func (p *Proxy) Address() (host string, port int) {
	host, text, _ := strings.Cut(p.listener.Addr().String(), ":")
	port, _ = strconv.Atoi(text)
	return host, port
}

// Conns returns the open connections, oldest first.
func (p *Proxy) Conns() Conns {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.conns)
}

// Oldest returns the n oldest open connections, or fewer if there are not so many.
func (p *Proxy) Oldest(n int) Conns {
	conns := p.Conns()
	return conns[:min(n, len(conns))]
}

// BlackHole swallows all traffic of present and future connections, and keeps them open.
func (p *Proxy) BlackHole() { p.all(Both, func(f *fault) { f.swallow = true }) }

// Hold keeps back the traffic of present and future connections until [Proxy.Heal].
func (p *Proxy) Hold(d Direction) { p.all(d, func(f *fault) { f.hold = true }) }

// Delay lets each read of present and future connections wait before it is passed on. Zero ends it.
func (p *Proxy) Delay(d Direction, by time.Duration) { p.all(d, func(f *fault) { f.delay = by }) }

// HoldNew accepts new connections and does not connect them to the server until [Proxy.Heal].
func (p *Proxy) HoldNew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdNew = true
}

// CutAll resets all connections and returns how many. New ones are let through.
func (p *Proxy) CutAll() int {
	conns := p.Conns()
	conns.Cut()
	return len(conns)
}

// Heal ends all faults. What was held is passed on. A connection that has lost bytes stays silent until it is cut: its
// stream cannot be continued.
func (p *Proxy) Heal() {
	p.mu.Lock()
	p.holdNew = false
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.all(Both, func(f *fault) { *f = fault{} })
}

// all changes present and future connections.
func (p *Proxy) all(d Direction, change func(*fault)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.initial {
		if d&(1<<i) != 0 {
			change(&p.initial[i])
		}
	}
	for _, c := range p.conns {
		c.change(d, change)
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the listener is closed
		}
		p.mu.Lock()
		c := newConn(client, p.initial)
		p.conns = append(p.conns, c)
		p.mu.Unlock()
		p.running.Go(func() {
			defer p.forget(c)
			p.serve(c)
		})
	}
}

func (p *Proxy) serve(c *Conn) {
	defer c.Cut()
	if !p.admit(c) {
		return
	}
	server, err := (&net.Dialer{}).DialContext(p.ctx, p.network, p.address)
	if err != nil {
		return
	}
	if !c.join(server) {
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { c.pump(0, c.client, server) })
	pumps.Go(func() { c.pump(1, server, c.client) })
	pumps.Wait()
}

// admit waits while new connections are held.
func (p *Proxy) admit(c *Conn) bool {
	for {
		p.mu.Lock()
		held, changed := p.holdNew, p.changed
		p.mu.Unlock()
		if !held {
			return true
		}
		select {
		case <-changed:
		case <-c.ended:
			return false
		}
	}
}

func (p *Proxy) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, func(other *Conn) bool { return other == c })
}

func (p *Proxy) close() {
	p.stop()
	_ = p.listener.Close() // nothing more is accepted either way
	p.CutAll()
	p.running.Wait()
}
