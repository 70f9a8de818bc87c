package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/relay"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// isSlowRun reports whether tests wait for the full timeouts, as `task e2e` does.
func isSlowRun() bool { return os.Getenv("HOLDPOINT_E2E_SLOW") != "" }

// idleProxy relays connections and closes idle ones, as load balancers do.
func idleProxy(t *testing.T, target string, idle time.Duration) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		_ = listener.Close() // it only listened
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { passOn(ctx, client, target, idle) })
		}
	})
	return "http://" + listener.Addr().String()
}

func passOn(ctx context.Context, client net.Conn, target string, idle time.Duration) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })()
	alive := func() { _, _ = client.SetDeadline(time.Now().Add(idle)), server.SetDeadline(time.Now().Add(idle)) }
	alive()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			defer way[1].Close()
			buffer := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(buffer)
				if err != nil {
					return
				}
				alive()
				if _, err := way[1].Write(buffer[:n]); err != nil {
					return
				}
			}
		})
	}
	both.Wait()
}

// TestFetchHoldsThroughProxy: Node's fetch waits at most 300 s for the response head and between two chunks. It can
// hold a call longer, even through a proxy that closes connections after 30 s of silence.
func TestFetchHoldsThroughProxy(t *testing.T) {
	t.Parallel()
	held, idle := 30*time.Second, 20*time.Second
	if isSlowRun() {
		held, idle = 330*time.Second, 30*time.Second
	}
	w := newClientWorld(t, "50s")
	proxied := w.agent
	proxied.URL = idleProxy(t, strings.TrimPrefix(w.URL, "http://"), idle)
	silent := dropsSilence(t, proxied.URL)
	n := w.nextNumber()
	c := newSDKClient(t)
	type said struct {
		clientSaid
		err error
	}
	done := make(chan said, 1)
	go func() {
		got, err := c.tryOrder(map[string]any{
			"do": "fetch", "url": endpointURL(proxied), "key": proxied.Key,
			"body": fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"counting__record","arguments":{"n":%d}}}`, n),
		})
		done <- said{got, err}
	}()
	if _, err := pendingFor(t.Context(), strconv.Itoa(n), w.Process); err != nil {
		t.Fatal(err)
	}
	_ = pause.For(t.Context(), held)
	if err := <-silent; !errors.Is(err, io.EOF) {
		t.Errorf("on a silent connection the proxy ends with %v", err)
	}
	w.approveCall(t, n)
	got := <-done
	if got.err != nil || !strings.Contains(got.Text, `"`+recordedText(n)+`"`) || strings.Contains(got.Text, `"attached"`) {
		t.Fatalf("after %.0f s fetch got %s, %v", got.Seconds, got.Text, got.err)
	}
	w.wantCount(t, n, 1)
}

// dropsSilence connects, sends nothing, and reports how the connection ends.
func dropsSilence(t *testing.T, address string) <-chan error {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the proxy closed it
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	}()
	return ended
}

// roundRobin is a proxy that sends each request to the next running server.
type roundRobin struct {
	URL     string
	servers []*holdpoint.Process

	mu     sync.Mutex
	last   int
	served map[*holdpoint.Process]int           // requests
	open   map[*http.Request]*holdpoint.Process // requests without a response so far
}

type serverKey struct{}

func newRoundRobin(t *testing.T, servers ...*holdpoint.Process) *roundRobin {
	t.Helper()
	rr := &roundRobin{
		servers: servers, served: map[*holdpoint.Process]int{}, open: map[*http.Request]*holdpoint.Process{},
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     &http.Transport{DisableKeepAlives: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			p := r.In.Context().Value(serverKey{}).(*holdpoint.Process)
			r.SetURL(&url.URL{Scheme: "http", Host: strings.TrimPrefix(p.URL, "http://")})
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:     log.New(io.Discard, "", 0), // connections break on purpose
	}
	whole := relay.Whole(proxy)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := rr.beginRequest(r)
		defer rr.endRequest(r)
		whole.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, p)))
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	rr.URL = server.URL
	return rr
}

func (rr *roundRobin) beginRequest(r *http.Request) *holdpoint.Process {
	rr.mu.Lock()
	defer rr.mu.Unlock()
	for range rr.servers {
		rr.last = (rr.last + 1) % len(rr.servers)
		if !rr.servers[rr.last].Ended() {
			break
		}
	}
	p := rr.servers[rr.last]
	rr.served[p]++
	rr.open[r] = p
	return p
}

func (rr *roundRobin) endRequest(r *http.Request) {
	rr.mu.Lock()
	defer rr.mu.Unlock()
	delete(rr.open, r)
}

// findHolder returns the server that holds an open POST of the client, and another one.
func (rr *roundRobin) findHolder(t *testing.T, agent string) (holds, other *holdpoint.Process) {
	t.Helper()
	rr.mu.Lock()
	defer rr.mu.Unlock()
	if len(rr.served) != len(rr.servers) {
		t.Fatalf("of %d servers %d got requests", len(rr.servers), len(rr.served))
	}
	for r, p := range rr.open {
		if r.Method == http.MethodPost && strings.HasPrefix(r.UserAgent(), agent) {
			holds = p
		}
	}
	for _, p := range rr.servers {
		if p != holds {
			other = p
		}
	}
	if holds == nil {
		t.Fatalf("no server holds a request of %s", agent)
	}
	return holds, other
}
