package e2e_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/relay"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
)

// door is a proxy between browsers and the server. It can be shut, and can hold decisions to release them together.
type door struct {
	*httptest.Server

	mu     sync.Mutex
	shut   func(*http.Request) bool // requests to refuse; nil: none
	inside map[*http.Request]context.CancelFunc
	awaits int           // number of decisions to wait for
	came   chan struct{} // closed when they have arrived
}

// allRequests shuts a door completely.
func allRequests(*http.Request) bool { return true }
func isStream(r *http.Request) bool  { return r.URL.Path == "/events" }

func isDecision(r *http.Request) bool {
	return r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/approve") || strings.HasSuffix(r.URL.Path, "/reject"))
}

// openDoor opens a door that closes when the test ends.
func (w *journey) openDoor(t *testing.T) *door {
	t.Helper()
	target, err := url.Parse(w.p.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the server checks the origin against it
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { skill.CloseConnection(w) },
	}
	whole := relay.Whole(proxy)
	d := &door{inside: map[*http.Request]context.CancelFunc{}}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, ok := d.enterDoor(r)
		if !ok {
			skill.CloseConnection(w)
			return
		}
		defer d.leaveDoor(r)
		d.holdBack(ctx, r)
		whole.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(func() {
		d.cutOff(allRequests)
		d.CloseClientConnections()
		d.Close()
		transport.CloseIdleConnections()
	})
	return d
}

func (d *door) enterDoor(r *http.Request) (context.Context, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut != nil && d.shut(r) {
		return nil, false
	}
	ctx, cancel := context.WithCancel(r.Context())
	d.inside[r] = cancel
	return ctx, true
}

func (d *door) leaveDoor(r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside[r]()
	delete(d.inside, r)
}

// holdBack delays a decision until all awaited ones have arrived.
func (d *door) holdBack(ctx context.Context, r *http.Request) {
	d.mu.Lock()
	if d.awaits == 0 || !isDecision(r) {
		d.mu.Unlock()
		return
	}
	came := d.came
	if d.awaits--; d.awaits == 0 {
		close(came)
	}
	d.mu.Unlock()
	select {
	case <-came:
	case <-ctx.Done():
	}
}

// releaseTogether sends the next n decisions to the server together.
func (d *door) releaseTogether(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaits, d.came = n, make(chan struct{})
}

// cutOff shuts the door for some requests and aborts those in flight.
func (d *door) cutOff(what func(*http.Request) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = what
	for r, cancel := range d.inside {
		if what(r) {
			cancel()
		}
	}
}

// restore opens it again for all.
func (d *door) restore() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = nil
}
