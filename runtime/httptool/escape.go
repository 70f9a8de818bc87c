package httptool

import (
	"strings"

	"golang.org/x/net/http/httpguts"
)

const upperHex = "0123456789ABCDEF"

// escapeExcept percent-encodes all bytes except those that keep accepts.
func escapeExcept(s string, keep func(byte) bool) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		if c := s[i]; keep(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}

// isUnreserved reports whether a character has no special meaning anywhere in a URL (RFC 3986, section 2.3).
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// escapeAll escapes all characters with a special meaning in a URL.
func escapeAll(s string) string { return escapeExcept(s, isUnreserved) }

// escapeReserved keeps reserved characters (RFC 3986, section 2.2), except those that would end the query or one of its pairs.
func escapeReserved(s string) string {
	return escapeExcept(s, func(c byte) bool {
		return isUnreserved(c) || c != '#' && c != '&' && c != '+' && strings.IndexByte(":/?#[]@!$&'()*+,;=", c) >= 0
	})
}

// escapeCookie keeps the characters of a cookie's value (cookie-octet of RFC 6265, section 4.1.1), except % and the comma, which separates
// lists.
func escapeCookie(s string) string {
	return escapeExcept(s, func(c byte) bool {
		return 0x21 <= c && c <= 0x7E && strings.IndexByte("\",;\\%", c) < 0
	})
}

// escapeLiteral escapes the literal parts of a path template, and keeps percent-encoded characters.
func escapeLiteral(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteString(s[i : i+3])
			i += 2
		default:
			b.WriteString(escapeExcept(s[i:i+1], func(c byte) bool { return isUnreserved(c) || strings.IndexByte("/:@!$&'()*+,;=", c) >= 0 }))
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func hexValue(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}

// decodePercent decodes percent-encoding leniently: it keeps a % that begins no valid sequence.
func decodePercent(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			b.WriteByte(hexValue(s[i+1])<<4 | hexValue(s[i+2]))
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// maxDecodings is the number of times that servers along the way may decode a path.
const maxDecodings = 8

// hasTraversal reports whether a text has, before or after repeated decoding, a segment "." or "..", between slashes of either kind,
// also with path parameters ("..;x").
func hasTraversal(s string) bool {
	for range maxDecodings {
		for _, segment := range strings.FieldsFunc(s, func(r rune) bool { return r == '/' || r == '\\' }) {
			segment, _, _ = strings.Cut(segment, ";")
			if segment == "." || segment == ".." {
				return true
			}
		}
		next := decodePercent(s)
		if next == s {
			return false
		}
		s = next
	}
	return true
}

// isToken reports whether a text can be the name of a method, a header field or a cookie (RFC 9110, section 5.6.2).
func isToken(s string) bool { return httpguts.ValidHeaderFieldName(s) }
