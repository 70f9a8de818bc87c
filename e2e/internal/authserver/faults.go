package authserver

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/eventually"
)

const arrivalLimit = 5 * time.Minute

// faults are the current faults of the token endpoint.
type faults struct {
	mu        sync.Mutex
	requests  *Hold // nil: they go on
	responses *Hold // nil: they go out
	all       []*Hold
	answer    *answer // nil: the provider's
}

type answer struct {
	status      int
	contentType string
	body        string
}

// Hold keeps token requests, or the responses to them, until it is released.
type Hold struct {
	mu       sync.Mutex
	held     int
	released chan struct{}
	once     sync.Once
}

// Release releases all held requests or responses and ends the hold.
func (h *Hold) Release() { h.once.Do(func() { close(h.released) }) }

// Held is how many were held so far.
func (h *Hold) Held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// Await waits until n are held.
func (h *Hold) Await(t testing.TB, n int) {
	t.Helper()
	eventually.Succeeds(t, arrivalLimit, fmt.Sprintf("%d are held at the token endpoint", n), func() error {
		if held := h.Held(); held < n {
			return fmt.Errorf("%d are held", held)
		}
		return nil
	})
}

// waitForRelease waits for the release. It returns false if the client disconnects first.
func (h *Hold) waitForRelease(ctx context.Context) bool {
	select {
	case <-h.released:
		return true
	default:
	}
	h.mu.Lock()
	h.held++
	h.mu.Unlock()
	select {
	case <-h.released:
		return true
	case <-ctx.Done():
		return false
	}
}

// HoldTokenRequests makes the token endpoint slow: requests wait for the release before the
// provider sees them. Those of clients that leave are dropped; nothing was issued.
func (s *Server) HoldTokenRequests() *Hold {
	f := &s.front.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = f.addHold()
	return f.requests
}

// HoldTokenResponses keeps responses with tokens back until the release. The tokens were
// issued, and a refresh token that was used is used up.
func (s *Server) HoldTokenResponses() *Hold {
	f := &s.front.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	f.responses = f.addHold()
	return f.responses
}

// AnswerTokenRequests makes the token endpoint answer this, without asking the provider.
func (s *Server) AnswerTokenRequests(status int, contentType, body string) {
	f := &s.front.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = &answer{status: status, contentType: contentType, body: body}
}

// MendTokenEndpoint takes AnswerTokenRequests back.
func (s *Server) MendTokenEndpoint() {
	f := &s.front.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = nil
}

func (f *faults) addHold() *Hold {
	h := &Hold{released: make(chan struct{})}
	f.all = append(f.all, h)
	return h
}

func (f *faults) releaseAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.all {
		h.Release()
	}
}

// interceptRequest reports whether a token request was dealt with.
func (f *faults) interceptRequest(w http.ResponseWriter, r *http.Request, front *front) bool {
	f.mu.Lock()
	hold, a := f.requests, f.answer
	f.mu.Unlock()
	if hold != nil && !hold.waitForRelease(r.Context()) {
		return true
	}
	if a == nil {
		return false
	}
	front.countStatus(keptOf(r.Context()), a.status)
	w.Header().Set("Content-Type", a.contentType)
	w.WriteHeader(a.status)
	w.Write([]byte(a.body))
	return true
}

func (f *faults) holdResponse(ctx context.Context) {
	f.mu.Lock()
	hold := f.responses
	f.mu.Unlock()
	if hold != nil {
		hold.waitForRelease(ctx)
	}
}

func withKept(ctx context.Context, kept *Request) context.Context {
	return context.WithValue(ctx, keptKey{}, kept)
}

// keptOf is the request that ServeHTTP put there.
func keptOf(ctx context.Context) *Request {
	kept, _ := ctx.Value(keptKey{}).(*Request)
	return kept
}
