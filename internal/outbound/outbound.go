// Package outbound owns the policy which network addresses this process may connect to on behalf of others, and the HTTP
// transport that enforces it. It does not own requests, retries, or who may name a host.
//
// The policy is checked when a connection is dialed, on the resolved address, so neither DNS nor a redirect can bypass it.
// Link-local and cloud metadata addresses are never dialed.
package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrForbidden is wrapped by every error about an address that the policy forbids.
var ErrForbidden = errors.New("address is not allowed")

// AddressError is a connection that was refused by the policy.
type AddressError struct {
	Host    string     // the name or address that was requested
	Address netip.Addr // the resolved address
	Reason  string
}

func (e *AddressError) Error() string {
	if e.Host == e.Address.String() {
		return fmt.Sprintf("dial %s: %s", e.Host, e.Reason)
	}
	return fmt.Sprintf("dial %s (%s): %s", e.Host, e.Address, e.Reason)
}

func (e *AddressError) Unwrap() error { return ErrForbidden }

// Policy says which addresses may be dialed. The zero policy allows public addresses only. No policy allows link-local or
// cloud metadata addresses.
type Policy struct {
	// AllowPrivate also allows loopback and private networks, for URLs that an operator configured.
	AllowPrivate bool
	// TrustedHosts may resolve to private addresses without AllowPrivate. "host" stands for every port, "host:port" for
	// one.
	TrustedHosts []string
	// PublicHosts must not resolve to private addresses in spite of AllowPrivate: they were public when an operator
	// configured them.
	PublicHosts []string
}

// Config is the policy and the limits of a transport. Zero fields have the defaults named.
type Config struct {
	Policy Policy
	// DialTimeout bounds name resolution and connecting, and again the TLS
	// handshake. Default 10 s.
	DialTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. Default 30 s.
	IdleTimeout time.Duration
	// MaxIdlePerHost is how many unused connections are kept. Default 8.
	MaxIdlePerHost int
	// MaxHeaderBytes bounds the header of a response. Default 256 KiB.
	MaxHeaderBytes int64
	// TLS configures https. Nil: Go's defaults.
	TLS *tls.Config
	// HTTP1Only disables HTTP/2. By default it is used over TLS if the server offers it.
	HTTP1Only bool
	// Wrap wraps each new connection, below TLS. Nil: connections are not wrapped.
	Wrap func(net.Conn) net.Conn
}

// NewTransport returns a transport that dials only addresses that the policy allows. It uses no proxy, which would resolve
// names outside of the policy, and requests no compression, so that the bytes read are the bytes sent.
func NewTransport(config Config) *http.Transport {
	t := &http.Transport{
		DialContext:            config.newDialer(),
		TLSClientConfig:        config.TLS.Clone(), // the transport changes it
		TLSHandshakeTimeout:    orDefault(config.DialTimeout, 10*time.Second),
		IdleConnTimeout:        orDefault(config.IdleTimeout, 30*time.Second),
		MaxIdleConns:           0,
		MaxIdleConnsPerHost:    orDefault(config.MaxIdlePerHost, 8),
		MaxResponseHeaderBytes: orDefault(config.MaxHeaderBytes, 256<<10),
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
	}
	if config.HTTP1Only {
		t.ForceAttemptHTTP2, t.Protocols = false, new(http.Protocols)
		t.Protocols.SetHTTP1(true)
		if t.TLSClientConfig == nil {
			t.TLSClientConfig = new(tls.Config)
		}
		t.TLSClientConfig.NextProtos = []string{"http/1.1"} // with h2 in it, the server could choose HTTP/2
	}
	return t
}

// NewClient returns a client over [NewTransport] that follows no redirect, but returns the redirecting response.
func NewClient(config Config) *http.Client {
	return &http.Client{
		Transport:     NewTransport(config),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// BoundBodies returns a transport that cuts the bodies of responses after limit bytes, for libraries that read without a limit.
func BoundBodies(next http.RoundTripper, limit int64) http.RoundTripper {
	return boundedTransport{next, limit}
}

type boundedTransport struct {
	next  http.RoundTripper
	limit int64
}

// RoundTrip implements [http.RoundTripper].
func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, b.limit), response.Body}
	return response, nil
}

// CloseIdleConnections closes the idle connections of the transport below; [http.Client] calls it.
func (b boundedTransport) CloseIdleConnections() {
	if closer, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

func (c Config) newDialer() func(context.Context, string, string) (net.Conn, error) {
	timeout := orDefault(c.DialTimeout, 10*time.Second)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		dialer := net.Dialer{
			Timeout: timeout,
			ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
				return c.Policy.checkResolved(address, resolved)
			},
		}
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, plainError(err)
		}
		if c.Wrap != nil {
			conn = c.Wrap(conn)
		}
		return conn, nil
	}
}

// plainError unwraps an AddressError from the dialer's errors.
func plainError(err error) error {
	if refused, ok := errors.AsType[*AddressError](err); ok {
		return refused
	}
	return err
}

func (p Policy) trustsHost(host, address string) bool {
	return slices.ContainsFunc(p.TrustedHosts, func(trusted string) bool {
		return strings.EqualFold(trusted, host) || strings.EqualFold(trusted, address)
	})
}

// IsLocalName reports whether a host name always means this machine (RFC 6761 section 6.3).
func IsLocalName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// IsLoopbackHost reports whether the host of a URL, a name or an address, is this machine for every resolver: localhost or a loopback address. Some
// resolvers ask the network for names below localhost.
func IsLoopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// TrustsURL reports whether the host of an http or https URL is one of TrustedHosts.
func (p Policy) TrustsURL(u *url.URL) bool {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return p.trustsHost(u.Hostname(), net.JoinHostPort(u.Hostname(), port))
}

// Resolve checks the present addresses of the host of a URL. It returns nil if one of them may be dialed or there is none.
// Later addresses are checked when they are dialed.
func (p Policy) Resolve(ctx context.Context, u *url.URL) error {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // a name without an address cannot be dialed
	}
	policy := p
	policy.AllowPrivate = p.AllowPrivate || p.TrustsURL(u)
	var refused error
	for _, address := range addresses {
		if refused = policy.Check(net.JoinHostPort(u.Hostname(), "0"), address); refused == nil {
			return nil
		}
	}
	return refused
}

// IsPublicHost reports whether a name resolves now, and only to public addresses.
func IsPublicHost(ctx context.Context, host string) bool {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	return err == nil && len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return classifyAddr(a) != public })
}

// Check checks a resolved address of the host in address ("host:port", as it was requested). The error is an *[AddressError].
func (p Policy) Check(address string, resolved netip.Addr) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("check address %q: %w", address, err)
	}
	switch classifyAddr(resolved) {
	case forbidden:
		return &AddressError{Host: host, Address: resolved, Reason: "link-local and cloud-metadata addresses are never dialled"}
	case public:
	case privateOnly:
		if p.trustsHost(host, address) {
			return nil
		}
		if p.AllowPrivate && slices.Contains(p.PublicHosts, strings.ToLower(host)) {
			return &AddressError{
				Host: host, Address: resolved,
				Reason: "it was public when the skill was registered, and is private now: the server's --trusted-hosts can allow it",
			}
		}
		if !p.AllowPrivate {
			return &AddressError{Host: host, Address: resolved, Reason: "private addresses are not allowed here: the server's --trusted-hosts can allow it"}
		}
	}
	return nil
}

// checkResolved checks the address that the dialer is about to connect to.
func (p Policy) checkResolved(address, resolved string) error {
	target, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fmt.Errorf("check address %q of %q: %w", resolved, address, err)
	}
	return p.Check(address, target.Addr())
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
