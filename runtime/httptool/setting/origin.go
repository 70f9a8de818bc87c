package setting

import (
	"net"
	"net/url"
	"strings"
)

// OriginOf returns scheme, host and port of a URL (RFC 6454, section 4), as in [tool.API]'s Origins.
func OriginOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme) + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
