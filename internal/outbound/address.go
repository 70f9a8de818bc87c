package outbound

import "net/netip"

// forbiddenRanges are never dialed: link-local addresses and the services of clouds that hand out instance credentials.
func forbiddenRanges() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("169.254.0.0/16"),      // link-local, and the metadata service of most clouds
		netip.MustParsePrefix("fe80::/10"),           // link-local
		netip.MustParsePrefix("fd00:ec2::/32"),       // AWS: metadata, time, DNS
		netip.MustParsePrefix("fd20:ce::/32"),        // Google: metadata
		netip.MustParsePrefix("100.100.100.200/32"),  // Alibaba: metadata
		netip.MustParsePrefix("192.0.0.192/32"),      // Oracle: metadata
		netip.MustParsePrefix("168.63.129.16/32"),    // Azure: wire server
		netip.MustParsePrefix("fd00:a9fe:a9fe::/48"), // link-local written as a unique local address
		netip.MustParsePrefix("255.255.255.255/32"),  // broadcast
		netip.MustParsePrefix("ff00::/8"),            // multicast
		netip.MustParsePrefix("224.0.0.0/4"),         // multicast
	}
}

// privateRanges are not part of the public Internet (special-purpose registries of RFC 6890).
func privateRanges() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), // "this host": reaches loopback
		netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("100.64.0.0/10"), // carrier-grade NAT
		netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("192.0.2.0/24"), // documentation
		netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
		netip.MustParsePrefix("198.51.100.0/24"), // documentation
		netip.MustParsePrefix("203.0.113.0/24"),  // documentation
		netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("::/128"),
		netip.MustParsePrefix("::1/128"),
		netip.MustParsePrefix("100::/64"),       // discard
		netip.MustParsePrefix("2001::/23"),      // protocol assignments, Teredo
		netip.MustParsePrefix("2001:db8::/32"),  // documentation
		netip.MustParsePrefix("3fff::/20"),      // documentation
		netip.MustParsePrefix("64:ff9b:1::/48"), // local-use NAT64
		netip.MustParsePrefix("fc00::/7"),       // unique local
		netip.MustParsePrefix("fec0::/10"),      // site-local
	}
}

// embeddedAddrs returns the IPv4 addresses that a router or host may unwrap from an IPv6 address: mapped and compatible (RFC
// 4291), NAT64 (RFC 6052), IPv4-translated (RFC 7915), 6to4 (RFC 3056).
func embeddedAddrs(ip netip.Addr) []netip.Addr {
	if !ip.Is6() {
		return nil
	}
	b := ip.As16()
	tail := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case ip.Is4In6(),
		netip.MustParsePrefix("64:ff9b::/96").Contains(ip),
		netip.MustParsePrefix("::ffff:0:0:0/96").Contains(ip),
		netip.MustParsePrefix("::/96").Contains(ip) && !ip.IsUnspecified() && !ip.IsLoopback():
		return []netip.Addr{tail}
	case netip.MustParsePrefix("2002::/16").Contains(ip):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}
	case netip.MustParsePrefix("64:ff9b:1::/48").Contains(ip):
		// Local-use NAT64 (RFC 8215). The length of its prefix, /48, /56, /64 or /96, is not known here; the position of the
		// address around the eighth byte depends on it (RFC 6052 section 2.2).
		return []netip.Addr{
			netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}),
			netip.AddrFrom4([4]byte{b[7], b[9], b[10], b[11]}),
			netip.AddrFrom4([4]byte(b[9:13])),
			tail,
		}
	}
	return nil
}

// classifyAddr returns the strictest class of an address and the addresses embedded in it.
func classifyAddr(ip netip.Addr) class {
	found := public
	for _, candidate := range effectiveAddrs(ip.WithZone("")) {
		switch {
		case inAnyRange(forbiddenRanges(), candidate):
			return forbidden
		case inAnyRange(privateRanges(), candidate):
			found = privateOnly
		}
	}
	return found
}

type class int

const (
	public class = iota
	privateOnly
	forbidden
)

// effectiveAddrs returns the addresses that a connection to ip may reach.
func effectiveAddrs(ip netip.Addr) []netip.Addr {
	if ip.Is4In6() {
		return embeddedAddrs(ip)
	}
	return append([]netip.Addr{ip}, embeddedAddrs(ip)...)
}

func inAnyRange(prefixes []netip.Prefix, ip netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}
