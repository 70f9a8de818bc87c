package tool

import (
	"net/textproto"
	"strings"
)

// FramingHeader tells the header fields by which HTTP itself is spoken, and traces are passed on: only Holdpoint sets them.
func FramingHeader(name string) bool {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch canonical {
	case "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Cookie", "Expect", "Host", "Http2-Settings", "Keep-Alive",
		"Te", "Traceparent", "Tracestate", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(canonical, "Proxy-") || strings.HasPrefix(canonical, "Sec-")
}

// ReservedHeader tells the header fields of requests to HTTP APIs that no argument and no document sets: those of [FramingHeader], and
// those by which servers are told who stands before them, which an operator may set.
func ReservedHeader(name string) bool {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	return FramingHeader(name) || canonical == "Forwarded" || canonical == "Via" || canonical == "X-Real-Ip" || strings.HasPrefix(canonical, "X-Forwarded-")
}

// HeaderValueProblem says what keeps a text from being the value of a header field of a request to an HTTP API; empty: nothing. It is visible
// ASCII with spaces between (RFC 9110, section 5.5, without what is obsolete there, and without tabs), so that nobody reads it as another.
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
