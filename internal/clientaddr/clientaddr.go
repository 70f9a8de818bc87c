// Package clientaddr finds the address of a request's client. Behind reverse proxies that the operator
// trusts, it is the address that they forward; headers of other clients are ignored.
//
// [Handler] resolves the address once and puts it into the request's context, where [FromContext] finds it.
package clientaddr

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the addresses of the reverse proxies in front of the server.
type Proxies []netip.Prefix

// ParseProxies reads addresses ("10.0.0.7") and prefixes ("10.0.0.0/8").
func ParseProxies(texts []string) (Proxies, error) {
	var proxies Proxies
	for _, text := range texts {
		prefix, err := parsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		proxies = append(proxies, prefix)
	}
	return proxies, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf(`%q: must be an IP address or a prefix like "10.0.0.0/8"`, text)
	}
	if prefix.Bits() == 0 {
		return netip.Prefix{}, fmt.Errorf("%q: must be the addresses of your proxies: this trusts every client", text)
	}
	return prefix.Masked(), nil
}

// Contains reports whether an address is one of a trusted proxy.
func (p Proxies) Contains(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// Source returns the prefix that an address is counted by: the address itself, or the /64 of an IPv6 address, which one client
// may own.
func Source(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		return netip.PrefixFrom(addr, 64).Masked()
	}
	return netip.PrefixFrom(addr, addr.BitLen())
}

// Client returns the address of the client: the nearest hop that is not a trusted proxy. It is the zero address if the
// connection has none (a Unix socket).
//
// Proxies append to X-Forwarded-For or to Forwarded (RFC 7239), and pass on the header that they do not know. If both headers
// are present and disagree, the client wrote one of them, and the proxy's own address is returned.
func (p Proxies) Client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := peer.Addr().Unmap().WithZone("")
	if !p.Contains(addr) {
		return addr
	}
	legacy, standard := r.Header.Values("X-Forwarded-For"), r.Header.Values("Forwarded")
	byLegacy := p.nearestUntrusted(addr, splitList(legacy))
	byStandard := p.nearestUntrusted(addr, forwardedFor(standard))
	switch {
	case len(standard) == 0:
		return byLegacy
	case len(legacy) == 0, byLegacy == byStandard:
		return byStandard
	}
	return addr
}

// nearestUntrusted follows the hops backward from the last, as long as trusted proxies wrote them.
func (p Proxies) nearestUntrusted(addr netip.Addr, hops []string) netip.Addr {
	for i := len(hops) - 1; i >= 0 && p.Contains(addr); i-- {
		next, ok := parseHop(hops[i])
		if !ok {
			break // "unknown" or an obfuscated name: the last known address is that of the proxy that wrote it
		}
		addr = next
	}
	return addr
}

// parseHop reads "192.0.2.1", "192.0.2.1:4711", "2001:db8::1" and "[2001:db8::1]:4711".
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap().WithZone(""), err == nil
}

func splitList(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return strings.Split(strings.Join(values, ","), ",")
}

// forwardedFor returns the "for" parameter of each hop in Forwarded headers; "": the hop has none.
func forwardedFor(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	var hops []string
	for _, element := range splitQuoted(strings.Join(values, ","), ',') {
		hop := ""
		for _, pair := range splitQuoted(element, ';') {
			name, value, _ := strings.Cut(pair, "=")
			if strings.EqualFold(strings.TrimSpace(name), "for") {
				hop = strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
		hops = append(hops, hop)
	}
	return hops
}

// splitQuoted splits text at a separator outside of quotes.
func splitQuoted(text string, separator rune) []string {
	quoted := false
	var parts []string
	start := 0
	for i, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case r == separator && !quoted:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

type contextKey struct{}

// Handler puts the client's address into the context of each request.
func (p Proxies) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(WithAddr(r.Context(), p.Client(r))))
	})
}

// WithAddr returns a context that carries a client's address.
func WithAddr(ctx context.Context, addr netip.Addr) context.Context {
	return context.WithValue(ctx, contextKey{}, addr)
}

// FromContext returns the address of the client of the request. It is the zero address outside of [Proxies.Handler], in work
// of the server itself.
func FromContext(ctx context.Context) netip.Addr {
	addr, _ := ctx.Value(contextKey{}).(netip.Addr)
	return addr
}
