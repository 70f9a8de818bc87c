package clientaddr_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/holdpoint/holdpoint/internal/clientaddr"
)

func TestClient(t *testing.T) {
	t.Parallel()
	proxies, err := clientaddr.ParseProxies([]string{"10.0.0.0/8", "192.168.1.1", " fd00::/8"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, peer       string
		legacy, standard []string
		want             string
	}{
		{"direct", "198.51.100.7:1", nil, nil, "198.51.100.7"},
		{"direct and forged", "198.51.100.7:1", []string{"203.0.113.9"}, []string{"for=203.0.113.9"}, "198.51.100.7"},
		{"IPv4 in IPv6", "[::ffff:198.51.100.7]:1", nil, nil, "198.51.100.7"},
		{"zone", "[fe80::1%eth0]:1", nil, nil, "fe80::1"},
		{"proxy", "10.0.0.1:1", []string{"203.0.113.9"}, nil, "203.0.113.9"},
		{"proxy over IPv4 in IPv6", "[::ffff:10.0.0.1]:1", []string{"203.0.113.9"}, nil, "203.0.113.9"},
		{"proxy says nothing", "10.0.0.1:1", nil, nil, "10.0.0.1"},
		{"forged before the proxy", "10.0.0.1:1", []string{"127.0.0.1, 203.0.113.9"}, nil, "203.0.113.9"},
		{"two headers", "10.0.0.1:1", []string{"127.0.0.1", "203.0.113.9"}, nil, "203.0.113.9"},
		{"two proxies", "10.0.0.1:1", []string{"1.2.3.4, 203.0.113.9, 192.168.1.1"}, nil, "203.0.113.9"},
		{"only proxies", "10.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, nil, "10.0.0.3"},
		{"port", "10.0.0.1:1", []string{"203.0.113.9:4711"}, nil, "203.0.113.9"},
		{"IPv6", "10.0.0.1:1", []string{"2001:db8::1"}, nil, "2001:db8::1"},
		{"IPv6 and port", "10.0.0.1:1", []string{"[2001:db8::1]:4711"}, nil, "2001:db8::1"},
		{"no address", "10.0.0.1:1", []string{"203.0.113.9, unknown"}, nil, "10.0.0.1"},
		{"empty", "10.0.0.1:1", []string{""}, nil, "10.0.0.1"},
		{"RFC 7239", "10.0.0.1:1", nil, []string{`for="[2001:db8::1]:4711";proto=https`}, "2001:db8::1"},
		{"RFC 7239, hops", "10.0.0.1:1", nil, []string{`for=1.2.3.4, For=203.0.113.9;by=x`, `by=10.0.0.1;for=192.168.1.1`}, "203.0.113.9"},
		{"RFC 7239, quoted comma", "10.0.0.1:1", nil, []string{`for=203.0.113.9;host="a,for=1.2.3.4;b"`}, "203.0.113.9"},
		{"RFC 7239, hidden", "10.0.0.1:1", nil, []string{`for=203.0.113.9, for=_hidden`}, "10.0.0.1"},
		{"both agree", "10.0.0.1:1", []string{"203.0.113.9"}, []string{"for=203.0.113.9"}, "203.0.113.9"},
		{"both disagree", "10.0.0.1:1", []string{"203.0.113.9"}, []string{"for=1.2.3.4"}, "10.0.0.1"},
		{"socket", "@", []string{"203.0.113.9"}, nil, "invalid IP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.RemoteAddr = c.peer
			r.Header["X-Forwarded-For"], r.Header["Forwarded"] = c.legacy, c.standard
			var got netip.Addr
			proxies.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got = clientaddr.FromContext(r.Context())
			})).ServeHTTP(httptest.NewRecorder(), r)
			if got.String() != c.want {
				t.Errorf("client %s, want %s", got, c.want)
			}
		})
	}
	if addr := clientaddr.FromContext(t.Context()); addr.IsValid() {
		t.Errorf("without a request there is the address %s", addr)
	}
}

func TestParseProxies(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "proxy", "10.0.0.0/33", "10.0.0.1:80", "0.0.0.0/0", "::/0", "fe80::1%eth0", "::ffff:10.0.0.0/104"} {
		if got, err := clientaddr.ParseProxies([]string{"10.0.0.1", text}); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
	got, err := clientaddr.ParseProxies([]string{"::ffff:10.0.0.1", "10.1.2.3/8"})
	if err != nil || got[0].String() != "10.0.0.1/32" || got[1].String() != "10.0.0.0/8" {
		t.Errorf("read as %v, %v", got, err)
	}
}
