package httptool

import (
	"strings"

	"golang.org/x/net/http/httpguts"
)

const upperHex = "0123456789ABCDEF"

// escapeBut percent-encodes all bytes but those that may stay.
func escapeBut(s string, stays func(byte) bool) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		if c := s[i]; stays(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}

// unreserved characters mean the same wherever in a URL they stand (RFC 3986, section 2.3).
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// escapeAll leaves nothing that means something in a URL.
func escapeAll(s string) string { return escapeBut(s, unreserved) }

// escapeReserved leaves the reserved characters (RFC 3986, section 2.2) but those that would end the query or one of its pairs.
func escapeReserved(s string) string {
	return escapeBut(s, func(c byte) bool {
		return unreserved(c) || c != '#' && c != '&' && c != '+' && strings.IndexByte(":/?#[]@!$&'()*+,;=", c) >= 0
	})
}

// escapeCookie leaves what may stand in the value of a cookie (cookie-octet of RFC 6265, section 4.1.1), but % and the comma, which
// separates lists.
func escapeCookie(s string) string {
	return escapeBut(s, func(c byte) bool {
		return 0x21 <= c && c <= 0x7E && strings.IndexByte("\",;\\%", c) < 0
	})
}

// escapeLiteral writes what a path's template has outside of its parameters: what is percent-encoded stays so.
func escapeLiteral(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteString(s[i : i+3])
			i += 2
		default:
			b.WriteString(escapeBut(s[i:i+1], func(c byte) bool { return unreserved(c) || strings.IndexByte("/:@!$&'()*+,;=", c) >= 0 }))
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}

// decoded undoes percent-encoding wherever there is one, as lenient servers do.
func decoded(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			b.WriteByte(unhex(s[i+1])<<4 | unhex(s[i+2]))
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// maxDecodings is how often a server on the way may decode a path.
const maxDecodings = 8

// traverses reports whether a text has, or gets by being decoded, a segment that leads to another path: "." or "..", between slashes
// of either kind, also with path parameters ("..;x").
func traverses(s string) bool {
	for range maxDecodings {
		for _, segment := range strings.FieldsFunc(s, func(r rune) bool { return r == '/' || r == '\\' }) {
			segment, _, _ = strings.Cut(segment, ";")
			if segment == "." || segment == ".." {
				return true
			}
		}
		next := decoded(s)
		if next == s {
			return false
		}
		s = next
	}
	return true
}

// token reports whether a text may be the name of a method, a header field or a cookie (RFC 9110, section 5.6.2).
func token(s string) bool { return httpguts.ValidHeaderFieldName(s) }
