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

// door stands between browsers and the server. It can be shut, and keep decisions until several have come.
type door struct {
	*httptest.Server

	mu     sync.Mutex
	shut   func(*http.Request) bool // nil: shut for no request
	inside map[*http.Request]context.CancelFunc
	awaits int           // decisions that are kept until so many more have come
	came   chan struct{} // closed when they have
}

// The requests that a door can be shut for.
func allRequests(*http.Request) bool { return true }
func isStream(r *http.Request) bool  { return r.URL.Path == "/events" }

func isDecision(r *http.Request) bool {
	return r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/approve") || strings.HasSuffix(r.URL.Path, "/reject"))
}

// openDoor opens one; it ends with the test.
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
			r.Out.Host = r.In.Host // the browser's, against which the server holds the origin
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

// holdBack holds a decision back until all that are awaited have come.
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

// releaseTogether makes the next n decisions arrive at the server at once.
func (d *door) releaseTogether(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaits, d.came = n, make(chan struct{})
}

// cutOff shuts the door for some requests and breaks off those on their way.
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
