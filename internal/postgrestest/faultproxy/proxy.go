// Package faultproxy runs a TCP proxy in front of a PostgreSQL server, for tests with a broken network or a frozen server. A
// test can delay, hold, swallow, half-close and cut the traffic of all or of some connections, in each direction.
//
// The proxy copies bytes. It does not know the PostgreSQL protocol, and does not terminate TLS.
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

// Direction is a direction of traffic. Directions can be combined.
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
	ctx              context.Context //nolint:containedctx // the proxy's life, which ends its dialing
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
	p.running.Go(p.acceptConns)
	tb.Cleanup(p.closeAll)
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

// Oldest returns up to n of the oldest open connections.
func (p *Proxy) Oldest(n int) Conns {
	conns := p.Conns()
	return conns[:min(n, len(conns))]
}

// BlackHole swallows all traffic of present and future connections, and keeps them open.
func (p *Proxy) BlackHole() { p.changeAll(Both, func(f *fault) { f.swallow = true }) }

// Hold keeps back the traffic of present and future connections until [Proxy.Heal].
func (p *Proxy) Hold(d Direction) { p.changeAll(d, func(f *fault) { f.hold = true }) }

// Delay lets each read of present and future connections wait before it is passed on. Zero ends it.
func (p *Proxy) Delay(d Direction, by time.Duration) { p.changeAll(d, func(f *fault) { f.delay = by }) }

// HoldNew accepts new connections and does not connect them to the server until [Proxy.Heal].
func (p *Proxy) HoldNew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdNew = true
}

// CutAll resets all connections and returns their number. New connections are not affected.
func (p *Proxy) CutAll() int {
	conns := p.Conns()
	conns.Cut()
	return len(conns)
}

// Heal ends all faults. Held traffic is passed on. A connection that has lost bytes stays silent until it is cut, because its
// stream cannot continue.
func (p *Proxy) Heal() {
	p.mu.Lock()
	p.holdNew = false
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.changeAll(Both, func(f *fault) { *f = fault{} })
}

// changeAll changes the faults of present and future connections.
func (p *Proxy) changeAll(d Direction, change func(*fault)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.initial {
		if d&(1<<i) != 0 {
			change(&p.initial[i])
		}
	}
	for _, c := range p.conns {
		c.changeFaults(d, change)
	}
}

func (p *Proxy) acceptConns() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the listener is closed
		}
		p.mu.Lock()
		c := &Conn{client: client, ended: make(chan struct{}), faults: p.initial, changed: make(chan struct{})}
		p.conns = append(p.conns, c)
		p.mu.Unlock()
		p.running.Go(func() {
			p.serveConn(c)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.conns = slices.DeleteFunc(p.conns, func(other *Conn) bool { return other == c })
		})
	}
}

func (p *Proxy) serveConn(c *Conn) {
	defer c.Cut()
	if !p.awaitAdmission(c) {
		return
	}
	server, err := (&net.Dialer{}).DialContext(p.ctx, p.network, p.address)
	if err != nil {
		return
	}
	if !c.attachServer(server) {
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { c.copyTraffic(0, c.client, server) })
	pumps.Go(func() { c.copyTraffic(1, server, c.client) })
	pumps.Wait()
}

// awaitAdmission waits while new connections are held. It reports false if the connection is cut.
func (p *Proxy) awaitAdmission(c *Conn) bool {
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

func (p *Proxy) closeAll() {
	p.stop()
	_ = p.listener.Close() // nothing more is accepted either way
	p.CutAll()
	p.running.Wait()
}
