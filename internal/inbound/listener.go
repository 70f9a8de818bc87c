// Package inbound owns the listeners of the server and the bounds of their connections: how many there are, in total and per
// address, and how long one may stay without progress.
//
// A connection is closed if its request header, the next bytes of its request body, or its next request do not arrive in
// time, if its client does not read the response, or if the client's machine no longer answers. A response that the server
// holds open has no deadline.
package inbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdpoint/holdpoint/internal/clientaddr"
)

// The defaults of [Config].
const (
	DefaultMaxConnections           = 10_000
	DefaultMaxConnectionsPerAddress = 1_000

	defaultHeaderTimeout = 10 * time.Second
	defaultIdleTimeout   = 2 * time.Minute // longer than proxies and clients keep a connection for reuse
	defaultStallTimeout  = 30 * time.Second
	defaultBodyTimeout   = 30 * time.Minute
	defaultDrainTimeout  = time.Second
	minBodyRate          = 1 << 10 // bytes a second, on average
	maxHeaderBytes       = 64 << 10
)

// Config configures a [Listener]. Logger and Now are required.
type Config struct {
	// MaxConnections bounds all connections. More wait in the kernel's queue. Zero: [DefaultMaxConnections].
	MaxConnections int
	// MaxConnectionsPerAddress bounds the connections of an IPv4 address or an IPv6 /64. More are closed at once. Zero:
	// [DefaultMaxConnectionsPerAddress].
	MaxConnectionsPerAddress int
	// Exempt are reverse proxies, to which MaxConnectionsPerAddress does not apply.
	Exempt clientaddr.Proxies

	HeaderTimeout time.Duration // for the header of a request. Zero: 10 s
	IdleTimeout   time.Duration // between requests. Zero: 2 min
	StallTimeout  time.Duration // for the next bytes of a request body, and for the client to read the next 64 KiB. Zero: 30 s
	BodyTimeout   time.Duration // for a whole request body. Zero: 30 min
	DrainTimeout  time.Duration // for the unread rest of a request body after the handler. Zero: 1 s

	// Certificate makes the listener speak TLS, with HTTP/2. Nil: it speaks plain HTTP/1.1.
	Certificate *Certificate

	Logger *slog.Logger
	Now    func() time.Time
}

func (c *Config) setDefaults() {
	setDefault(&c.MaxConnections, DefaultMaxConnections)
	setDefault(&c.MaxConnectionsPerAddress, DefaultMaxConnectionsPerAddress)
	setDefault(&c.HeaderTimeout, defaultHeaderTimeout)
	setDefault(&c.IdleTimeout, defaultIdleTimeout)
	setDefault(&c.StallTimeout, defaultStallTimeout)
	setDefault(&c.BodyTimeout, defaultBodyTimeout)
	setDefault(&c.DrainTimeout, defaultDrainTimeout)
}

func setDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// Listener accepts connections within the bounds of its [Config].
type Listener struct {
	net.Listener
	cfg     Config
	slots   chan struct{}
	closed  chan struct{}
	closing sync.Once
	open    prometheus.GaugeFunc
	refused prometheus.Counter

	mu        sync.Mutex
	addresses map[netip.Prefix]int
	warned    time.Time
}

// Listen listens on a TCP address. The kernel ends connections of vanished clients within about 70 s: it probes after 15 s
// without traffic, every 10 s, and gives up after 60 s without an acknowledgment.
func Listen(ctx context.Context, address string, cfg Config) (*Listener, error) {
	opening := net.ListenConfig{
		Control:         limitUnacknowledged,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3},
	}
	inner, err := opening.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	cfg.setDefaults()
	l := &Listener{
		Listener: inner, cfg: cfg, slots: make(chan struct{}, cfg.MaxConnections), closed: make(chan struct{}), addresses: map[netip.Prefix]int{},
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdpoint_http_connections_refused_total", Help: "Connections closed at once, for their address had too many.",
		}),
	}
	l.open = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "holdpoint_http_connections", Help: "Open connections from clients."},
		func() float64 { return float64(len(l.slots)) })
	return l, nil
}

// Collectors returns the metrics.
func (l *Listener) Collectors() []prometheus.Collector {
	all := []prometheus.Collector{l.open, l.refused}
	if c := l.cfg.Certificate; c != nil {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "holdpoint_tls_certificate_not_after_seconds", Help: "When the TLS certificate in use expires, in Unix time.",
		}, func() float64 { return float64(c.NotAfter().Unix()) }))
	}
	return all
}

// Server returns an HTTP server with the deadlines of the listener. [Listener.Serve] runs it.
func (l *Listener) Server(handler http.Handler) *http.Server {
	s := &http.Server{
		Handler:           l.limitBodies(handler),
		ReadHeaderTimeout: l.cfg.HeaderTimeout,
		IdleTimeout:       l.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(serverLog{l.cfg.Logger}, "", 0),
	}
	if l.cfg.Certificate != nil {
		s.Handler = l.limitStreams(s.Handler)
		s.TLSConfig = &tls.Config{GetCertificate: l.cfg.Certificate.Get, MinVersion: tls.VersionTLS12}
	}
	return s
}

// serverLog logs the messages of net/http.
type serverLog struct{ *slog.Logger }

// Write implements [io.Writer]. Failed handshakes are the clients' mistakes, and as many as clients like.
func (l serverLog) Write(p []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(p, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug
	}
	l.Log(context.Background(), level, string(bytes.TrimSpace(p))) //nolint:sloglint // the text is net/http's
	return len(p), nil
}

// Serve runs a server of the listener until it is closed.
func (l *Listener) Serve(server *http.Server) error {
	if l.cfg.Certificate != nil {
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}

// Accept waits for a free slot and then for a connection.
func (l *Listener) Accept() (net.Conn, error) {
	if len(l.slots) == cap(l.slots) {
		l.warnRarely("too many connections: new ones wait", "max_connections", cap(l.slots))
	}
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		source, ok := l.admitConn(accepted.RemoteAddr())
		if ok {
			return &conn{Conn: accepted, listener: l, source: source}, nil
		}
		l.refused.Inc()
		l.warnRarely("too many connections from one address: name it with --trusted-proxies if it is a reverse proxy of yours",
			"address", source.String(), "max_connections_per_address", l.cfg.MaxConnectionsPerAddress)
		_ = accepted.Close() // unused so far
	}
}

// Close stops listening. Connections stay open.
func (l *Listener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// admitConn counts a connection by its source. It returns the zero prefix for exempt addresses, which are not counted.
func (l *Listener) admitConn(remote net.Addr) (source netip.Prefix, ok bool) {
	tcp, isTCP := remote.(*net.TCPAddr)
	if !isTCP || l.cfg.Exempt.Contains(tcp.AddrPort().Addr()) {
		return netip.Prefix{}, true
	}
	source = clientaddr.Source(tcp.AddrPort().Addr())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.addresses[source] >= l.cfg.MaxConnectionsPerAddress {
		return source, false
	}
	l.addresses[source]++
	return source, true
}

func (l *Listener) releaseConn(source netip.Prefix) {
	<-l.slots
	if !source.IsValid() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.addresses[source]--; l.addresses[source] == 0 {
		delete(l.addresses, source)
	}
}

// warnRarely logs at most once a minute.
func (l *Listener) warnRarely(text string, args ...any) {
	l.mu.Lock()
	now := l.cfg.Now()
	due := now.Sub(l.warned) >= time.Minute
	if due {
		l.warned = now
	}
	l.mu.Unlock()
	if due {
		l.cfg.Logger.Warn(text, args...) //nolint:sloglint // the callers' texts are constants
	}
}

// conn is a connection whose writes must make progress.
type conn struct {
	net.Conn // only the interface: ReadFrom would bypass Write

	listener *Listener
	source   netip.Prefix
	closing  sync.Once

	mu       sync.Mutex
	deadline time.Time // of writes, set by the server or a handler; zero: none
}

// maxPiece is how much a client has to read within the stall timeout.
const maxPiece = 64 << 10

// Write writes in pieces, each with its own deadline.
func (c *conn) Write(p []byte) (written int, err error) {
	for {
		if err := c.extendWrite(); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:min(len(p), written+maxPiece)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

func (c *conn) extendWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.listener.cfg.Now().Add(c.listener.cfg.StallTimeout)
	if !c.deadline.IsZero() && c.deadline.Before(at) {
		at = c.deadline
	}
	return c.Conn.SetWriteDeadline(at)
}

// SetWriteDeadline sets a deadline in addition to the stall timeout. The zero time removes it.
func (c *conn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = at
	if at.IsZero() {
		return nil
	}
	return c.Conn.SetWriteDeadline(at)
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(at time.Time) error {
	return errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at))
}

// CloseWrite lets net/http end a response so that a client that is still sending can read it.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.closing.Do(func() { c.listener.releaseConn(c.source) })
	return c.Conn.Close()
}
