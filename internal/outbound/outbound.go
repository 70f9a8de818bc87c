// Package outbound owns the rule which network addresses this process
// connects to on behalf of others, and the HTTP transport that keeps it.
//
// The rule is checked when a connection is dialled, on the address that the
// name was resolved to, so neither DNS nor a redirect gets round it. Link-local
// and cloud-metadata addresses are never dialled. It does not own what is sent,
// who may name a host, or retries.
package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrForbidden is wrapped by every error about an address that the policy
// does not let this process dial.
var ErrForbidden = errors.New("address is not allowed")

// AddressError names the address that was not dialled.
type AddressError struct {
	Host    string     // as it was named
	Address netip.Addr // as it was resolved
	Reason  string
}

func (e *AddressError) Error() string {
	if e.Host == e.Address.String() {
		return fmt.Sprintf("dial %s: %s", e.Host, e.Reason)
	}
	return fmt.Sprintf("dial %s (%s): %s", e.Host, e.Address, e.Reason)
}

func (e *AddressError) Unwrap() error { return ErrForbidden }

// Policy says which addresses may be dialled. The zero Policy allows public
// addresses only. No Policy allows link-local or cloud-metadata addresses.
type Policy struct {
	// AllowPrivate also allows loopback and private networks: for a URL that
	// an operator wrote down.
	AllowPrivate bool
	// TrustedHosts are names that may resolve to private addresses although
	// AllowPrivate is false. "host" stands for every port, "host:port" for one.
	TrustedHosts []string
	// PublicHosts are names that may not resolve to private addresses although
	// AllowPrivate is true: an operator wrote them down when they were public.
	PublicHosts []string
}

// Config is a transport's policy and its limits. Zero fields have the
// defaults named.
type Config struct {
	Policy Policy
	// DialTimeout bounds name resolution and connecting, and again the TLS
	// handshake. Default 10 s.
	DialTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. Default 30 s.
	IdleTimeout time.Duration
	// MaxIdlePerHost is how many unused connections are kept. Default 8.
	MaxIdlePerHost int
	// MaxHeaderBytes bounds an answer's header. Default 256 KiB.
	MaxHeaderBytes int64
	// TLS is used for https; nil means Go's defaults.
	TLS *tls.Config
	// HTTP1Only speaks HTTP/1.1 also with servers that offer HTTP/2. Default:
	// HTTP/2 over TLS where the server offers it.
	HTTP1Only bool
	// Wrap, when set, is given each connection after it was dialled, below TLS.
	Wrap func(net.Conn) net.Conn
}

// NewTransport returns a transport that dials only what the policy allows. It
// uses no proxy, because a proxy would resolve the name out of the policy's
// sight, and asks for no compression, so that the bytes read are the bytes sent.
func NewTransport(config Config) *http.Transport {
	t := &http.Transport{
		DialContext:            config.dialer(),
		TLSClientConfig:        config.TLS.Clone(), // transports change theirs
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
		t.TLSClientConfig.NextProtos = []string{"http/1.1"} // a configuration that came with h2 would have the server choose it
	}
	return t
}

// NewClient returns a client over [NewTransport] that follows no redirect: the
// answer that redirects is returned to the caller.
func NewClient(config Config) *http.Client {
	return &http.Client{
		Transport:     NewTransport(config),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (c Config) dialer() func(context.Context, string, string) (net.Conn, error) {
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

// plainError takes the AddressError out of what the dialer wraps around it.
func plainError(err error) error {
	if refused, ok := errors.AsType[*AddressError](err); ok {
		return refused
	}
	return err
}

func (p Policy) trusts(host, address string) bool {
	return slices.ContainsFunc(p.TrustedHosts, func(trusted string) bool {
		return strings.EqualFold(trusted, host) || strings.EqualFold(trusted, address)
	})
}

// IsLocalName reports whether a host's name stands for this machine by itself (RFC 6761, section 6.3).
func IsLocalName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// TrustsURL reports whether the host of an http or https URL is one of TrustedHosts.
func (p Policy) TrustsURL(u *url.URL) bool {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return p.trusts(u.Hostname(), net.JoinHostPort(u.Hostname(), port))
}

// Resolve judges the addresses that a URL's host has now: nil, if one of them may be dialed or none is found. Where it
// leads later is judged when it is dialed.
func (p Policy) Resolve(ctx context.Context, u *url.URL) error {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // a name without an address leads nowhere
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

// IsPublicHost reports whether a name resolves now, and to public addresses only.
func IsPublicHost(ctx context.Context, host string) bool {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	return err == nil && len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return classify(a) != public })
}

// Check judges one address that the host of address ("host:port", as it was
// named) was resolved to. A refusal is an *AddressError.
func (p Policy) Check(address string, resolved netip.Addr) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("check address %q: %w", address, err)
	}
	switch classify(resolved) {
	case forbidden:
		return &AddressError{Host: host, Address: resolved, Reason: "link-local and cloud-metadata addresses are never dialled"}
	case public:
	case privateOnly:
		if p.trusts(host, address) {
			return nil
		}
		if p.AllowPrivate && slices.Contains(p.PublicHosts, strings.ToLower(host)) {
			return &AddressError{
				Host: host, Address: resolved,
				Reason: "it was public when the skill was registered, and is private now: the server's --trusted-hosts can allow it",
			}
		}
		if !p.AllowPrivate {
			return &AddressError{Host: host, Address: resolved, Reason: "private addresses are not allowed here"}
		}
	}
	return nil
}

// checkResolved is called with what the dialer is about to connect to.
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
