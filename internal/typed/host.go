package typed

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"github.com/holdpoint/holdpoint/internal/lookalike"
)

// Host is the host of a URL or an e-mail address.
type Host struct {
	Text        string // as written
	Registrable string // the registered end of Text: example.co.uk. The whole of Text if it is an IP address or a single name
	IP          string // the IP address that a numeric host means, or ""
	Letters     string // the host with its letters if it is written in punycode, or ""
	LooksLike   string // the ASCII host that it looks like, or ""
}

func parseHost(text string) Host {
	h := Host{Text: text, Registrable: text}
	bare := strings.TrimSuffix(text, ".")
	if ip, ok := parseIP(bare); ok {
		h.IP = ip.String()
		return h
	}
	unicodeHost := bare
	if strings.Contains(strings.ToLower(bare), "xn--") {
		if letters, err := idna.Punycode.ToUnicode(strings.ToLower(bare)); err == nil {
			h.Letters, unicodeHost = letters, letters
		}
	}
	if !isASCII(unicodeHost) {
		h.LooksLike = lookalike.ReadAsASCII(unicodeHost)
	}
	if registrable, err := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(bare)); err == nil {
		if at := len(bare) - len(registrable); at >= 0 && strings.EqualFold(bare[at:], registrable) {
			h.Registrable = text[at:]
		}
	}
	return h
}

func isASCII(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c >= 0x80 })
}

// parseIP reads an IP address in the forms that browsers and the C library accept: 127.0.0.1, 2130706433, 0x7f.1, [::1].
func parseIP(host string) (netip.Addr, bool) {
	if strings.HasPrefix(host, "[") {
		ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
		return ip.Unmap(), err == nil
	}
	parts := strings.Split(host, ".")
	if host == "" || len(parts) > 4 {
		return netip.Addr{}, false
	}
	var number uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 64)
		if len(part) > 1 && part[0] == '0' && isDigit(part[1]) {
			n, err = strconv.ParseUint(part, 8, 64)
		}
		last := i == len(parts)-1
		if err != nil || strings.ContainsAny(part, "_+-oObB") && !strings.HasPrefix(strings.ToLower(part), "0x") || !last && n > 255 || last && n >= 1<<(8*(5-len(parts))) {
			return netip.Addr{}, false
		}
		if last {
			number |= n
		} else {
			number |= n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)}), true
}

func (h Host) listWarnings() []Warning {
	switch {
	case h.IP != "" && h.IP != strings.Trim(h.Text, "[]"):
		return []Warning{newWarning(NumericHost, h.Text, h.IP)}
	case h.IP != "":
		return []Warning{newWarning(IPHost, h.IP)}
	case h.LooksLike != "":
		return []Warning{newWarning(LookalikeHost, h.Text, h.LooksLike)}
	case h.Letters != "":
		return []Warning{newWarning(PunycodeHost, h.Text, h.Letters)}
	}
	return nil
}

func (h Host) listSpans() []Span {
	at := len(h.Text) - len(h.Registrable)
	return []Span{{ClassPlain, h.Text[:at]}, {ClassStrong, h.Text[at:]}}
}
