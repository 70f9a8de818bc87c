package outbound

import "net/netip"

// never are the ranges that no policy opens: link-local addresses and the
// places where clouds serve instance credentials.
func never() []netip.Prefix {
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

// private are the ranges that are not part of the public Internet (the
// special-purpose registries of RFC 6890).
func private() []netip.Prefix {
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

// embedded returns the IPv4 addresses that an IPv6 address may carry in forms
// that a router or a host may unwrap: mapped and compatible (RFC 4291), NAT64
// (RFC 6052), IPv4-translated (RFC 7915), 6to4 (RFC 3056).
func embedded(ip netip.Addr) []netip.Addr {
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
		// A network's own NAT64 (RFC 8215). How long its prefix is, /48, /56, /64 or /96, only the network
		// knows; after each the address stands elsewhere, around the eighth byte (RFC 6052, section 2.2).
		return []netip.Addr{
			netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}),
			netip.AddrFrom4([4]byte{b[7], b[9], b[10], b[11]}),
			netip.AddrFrom4([4]byte(b[9:13])),
			tail,
		}
	}
	return nil
}

// classify says whether an address is forbidden to all, private, or public.
func classify(ip netip.Addr) class {
	found := public
	for _, candidate := range candidates(ip.WithZone("")) {
		switch {
		case within(never(), candidate):
			return forbidden
		case within(private(), candidate):
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

// candidates are the addresses that ip may turn out to be.
func candidates(ip netip.Addr) []netip.Addr {
	if ip.Is4In6() {
		return embedded(ip)
	}
	return append([]netip.Addr{ip}, embedded(ip)...)
}

func within(prefixes []netip.Prefix, ip netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}
