package setting

import (
	"net/textproto"
	"strings"
)

// IsFramingHeader reports whether a header field frames HTTP messages or carries a trace. Only Holdpoint sets these.
func IsFramingHeader(name string) bool {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch canonical {
	case "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Cookie", "Expect", "Host", "Http2-Settings", "Keep-Alive",
		"Te", "Traceparent", "Tracestate", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(canonical, "Proxy-") || strings.HasPrefix(canonical, "Sec-")
}

// IsReservedHeader reports whether no argument and no document may set a header field of a request: those of [IsFramingHeader], and those
// that tell a server about the proxies before it, which an operator may set.
func IsReservedHeader(name string) bool {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	return IsFramingHeader(name) || canonical == "Forwarded" || canonical == "Via" || canonical == "X-Real-Ip" || strings.HasPrefix(canonical, "X-Forwarded-")
}

// HeaderValueProblem says why a text cannot be the value of a header field. It returns "" if it can: visible ASCII with spaces only
// between (RFC 9110, section 5.5, without its obsolete parts and without tabs), which every reader reads alike.
func HeaderValueProblem(s string) string {
	for i := range len(s) {
		if c := s[i]; c != ' ' && (c < 0x21 || c > 0x7E) {
			return "has a line break, a control character or one that is not ASCII, which a header field cannot carry"
		}
	}
	if s != strings.TrimSpace(s) {
		return "begins or ends with a space, which a header field cannot carry"
	}
	return ""
}
