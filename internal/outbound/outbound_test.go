package outbound_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

func TestForbiddenAddresses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address string
		private bool // allowed with AllowPrivate
	}{
		{"169.254.169.254", false},
		{"169.254.0.1", false},
		{"[fe80::1]", false},
		{"[fd00:ec2::254]", false},
		{"[fd20:ce::254]", false},
		{"100.100.100.200", false},
		{"192.0.0.192", false},
		{"168.63.129.16", false},
		{"224.0.0.1", false},
		{"255.255.255.255", false},
		{"[ff02::1]", false},
		{"[::ffff:169.254.169.254]", false},
		{"[64:ff9b::a9fe:a9fe]", false},
		{"[2002:a9fe:a9fe::1]", false},
		{"[::169.254.169.254]", false},
		{"[::ffff:0:a9fe:a9fe]", false},          // RFC 7915
		{"[64:ff9b:1::a9fe:a9fe]", false},        // RFC 8215, in a /96
		{"[64:ff9b:1:0:a9:fea9:fe00:0]", false},  // in a /64
		{"[64:ff9b:1:a9:fe:a9fe::]", false},      // in a /56
		{"[64:ff9b:1:a9fe:a9:fe00::]", false},    // in a /48
		{"[64:ff9b:1:ffff:0:6464:64c8:0]", true}, // not embedded at any position
		{"[64:ff9b:1::808:808]", true},
		{"[::ffff:0:a00:1]", true},
		{"[::ffff:0:7f00:1]", true},
		{"127.0.0.1", true},
		{"[::1]", true},
		{"[::ffff:127.0.0.1]", true},
		{"0.0.0.0", true},
		{"10.1.2.3", true},
		{"172.31.0.1", true},
		{"192.168.1.1", true},
		{"100.64.0.1", true},
		{"[fd12:3456::1]", true},
		{"198.18.0.1", true},
		{"[64:ff9b::a00:1]", true},
		{"[2001:db8::1]", true},
	}
	for _, test := range tests {
		t.Run(test.address, func(t *testing.T) {
			t.Parallel()
			ip := netip.MustParseAddr(strings.Trim(test.address, "[]"))
			if err := (outbound.Policy{}).Check("name:1", ip); !errors.Is(err, outbound.ErrForbidden) {
				t.Errorf("public policy: got %v, want ErrForbidden", err)
			}
			err := outbound.Policy{AllowPrivate: true, TrustedHosts: []string{"name"}}.Check("name:1", ip)
			if got := !errors.Is(err, outbound.ErrForbidden); got != test.private {
				t.Errorf("private policy: allowed %t, want %t (%v)", got, test.private, err)
			}
		})
	}
}

func TestPublicAddressesAreAllowed(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"8.8.8.8", "2606:4700::1111", "100.63.255.255", "64:ff9b::808:808", "::ffff:8.8.8.8", "::ffff:0:808:808"} {
		if err := (outbound.Policy{}).Check("name:1", netip.MustParseAddr(address)); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestTrustedHosts(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	host, port, _ := net.SplitHostPort(address)
	for name, test := range map[string]struct {
		trusted string
		ok      bool
	}{
		"host":          {host, true},
		"host and port": {address, true},
		"other port":    {net.JoinHostPort(host, port+"0"), false},
		"other host":    {"example.com", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := outbound.NewTransport(outbound.Config{Policy: outbound.Policy{TrustedHosts: []string{test.trusted}}})
			defer transport.CloseIdleConnections()
			conn, err := transport.DialContext(t.Context(), "tcp", address)
			if err == nil {
				_ = conn.Close()
			}
			if (err == nil) != test.ok {
				t.Errorf("dialled %t, want %t: %v", err == nil, test.ok, err)
			}
		})
	}
}

func TestForbiddenAddressesAreNotDialled(t *testing.T) {
	t.Parallel()
	transport := outbound.NewTransport(outbound.Config{Policy: outbound.Policy{AllowPrivate: true}})
	for _, address := range []string{"169.254.169.254:80", "[::ffff:169.254.169.254]:80", "[fe80::1%lo]:80"} {
		conn, err := transport.DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, outbound.ErrForbidden) {
			t.Errorf("%s: got %v, want ErrForbidden", address, err)
		}
	}
}

func TestNamesAreCheckedAfterResolution(t *testing.T) {
	t.Parallel()
	client := outbound.NewClient(outbound.Config{})
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost:1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	var refused *outbound.AddressError
	if !errors.As(err, &refused) || refused.Host != "localhost" || !strings.Contains(refused.Error(), "private") {
		t.Errorf("got %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest", http.StatusFound))
	t.Cleanup(server.Close)
	client := outbound.NewClient(outbound.Config{Policy: outbound.Policy{AllowPrivate: true}})
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusFound {
		t.Errorf("status %d, want the redirect itself", response.StatusCode)
	}
}
