package tool

import (
	"net/textproto"
	"strings"
)

// ReservedHeader tells the header fields of requests to HTTP APIs that only Holdpoint sets: those of the connection, of framing, of cookies, and
// those by which proxies and browsers say who asks.
func ReservedHeader(name string) bool {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch canonical {
	case "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Cookie", "Expect", "Forwarded", "Host", "Http2-Settings", "Keep-Alive",
		"Te", "Traceparent", "Tracestate", "Trailer", "Transfer-Encoding", "Upgrade", "Via", "X-Real-Ip":
		return true
	}
	for _, prefix := range []string{"X-Forwarded-", "Proxy-", "Sec-"} {
		if strings.HasPrefix(canonical, prefix) {
			return true
		}
	}
	return false
}
