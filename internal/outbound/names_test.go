package outbound_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/holdpoint/holdpoint/internal/outbound"
)

// zone is a name server that answers queries for a name with its addresses in turn, and then repeats the last.
type zone struct {
	mu      sync.Mutex
	answers map[string][][]string
	asked   map[string]int
}

// answer returns the response to a query.
func (z *zone) answer(query []byte) []byte {
	var message dnsmessage.Message
	if err := message.Unpack(query); err != nil || len(message.Questions) != 1 {
		return nil
	}
	question := message.Questions[0]
	message.Response, message.Additionals = true, nil
	if question.Type != dnsmessage.TypeA {
		reply, _ := message.Pack()
		return reply
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	name := question.Name.String()
	if all := z.answers[name]; len(all) > 0 {
		for _, address := range all[min(z.asked[name], len(all)-1)] {
			message.Answers = append(message.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()},
			})
		}
	}
	z.asked[name]++
	reply, _ := message.Pack()
	return reply
}

// serveNames makes the whole process resolve names with the zone until the test ends.
func serveNames(t *testing.T, z *zone) {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo(z.answer(buffer[:n]), from)
		}
	})
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = socket.Close()
		serving.Wait()
	})
}

// Each dial checks the resolved address. Not parallel, because it replaces the process's resolver.
func TestHostileNames(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	const public = "192.88.99.1" // in a range that is no longer routed (RFC 7526)
	z := &zone{asked: map[string]int{}, answers: map[string][][]string{
		"private.test.":  {{"10.1.2.3"}},
		"loopback.test.": {{"127.0.0.1"}},
		"metadata.test.": {{"169.254.169.254"}},
		"trusted.test.":  {{"127.0.0.1"}},
		"turned.test.":   {{"127.0.0.1"}, {"169.254.169.254"}},
		"rebind.test.":   {{public}, {"127.0.0.1"}},
	}}
	serveNames(t, z)
	trusted := outbound.Policy{TrustedHosts: []string{"metadata.test", "trusted.test", "turned.test"}}
	patient := outbound.NewTransport(outbound.Config{Policy: trusted, DialTimeout: 30 * time.Second})
	hasty := outbound.NewTransport(outbound.Config{Policy: trusted, DialTimeout: 2 * time.Second})
	dial := func(name string) error {
		transport := patient
		if name == "rebind.test" { // no server listens at the first address
			transport = hasty
		}
		conn, err := transport.DialContext(t.Context(), "tcp", net.JoinHostPort(name, port))
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	refused := func(name, gist string) {
		t.Helper()
		err := dial(name)
		var address *outbound.AddressError
		if !errors.As(err, &address) || address.Host != name || !strings.Contains(err.Error(), gist) {
			t.Errorf("%s: got %v, want it refused: %s", name, err, gist)
		}
	}
	refused("private.test", "private addresses are not allowed here: the server's --trusted-hosts can allow it")
	refused("loopback.test", "private addresses are not allowed")
	refused("metadata.test", "never dialled") // despite being trusted
	if err := dial("trusted.test"); err != nil {
		t.Errorf("trusted name: %v", err)
	}
	if err := dial("turned.test"); err != nil {
		t.Errorf("trusted name, before it turns: %v", err)
	}
	refused("turned.test", "never dialled")
	// The first answer was public. Earlier answers do not affect the next check.
	if err := dial("rebind.test"); errors.Is(err, outbound.ErrForbidden) {
		t.Errorf("a public address: %v", err)
	}
	refused("rebind.test", "private addresses are not allowed")
}

// The URL's host is checked, whatever the Host header says.
func TestHostHeaderDoesNotCount(t *testing.T) {
	t.Parallel()
	client := outbound.NewClient(outbound.Config{Policy: outbound.Policy{TrustedHosts: []string{"good.test"}}})
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "good.test"
	response, err := client.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, outbound.ErrForbidden) {
		t.Errorf("got %v, want ErrForbidden", err)
	}
}

func TestLoopbackHosts(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "127.0.0.1": true, "127.8.0.1": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.": false, "a.localhost": false, "localhost.example": false, "0.0.0.0": false, "10.0.0.1": false, "127.0.0.1.example": false,
	} {
		if got := outbound.IsLoopbackHost(host); got != want {
			t.Errorf("%q: %t, want %t", host, got, want)
		}
	}
}
