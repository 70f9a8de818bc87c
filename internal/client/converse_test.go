package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/client"
)

// newTalking returns a client that reconnects quickly.
func newTalking(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: url, Token: "t", Retry: time.Millisecond, Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

var errEnough = errors.New("enough")

// The server goes away for a while, or another one replaces it without notice.
func TestFollowOverTrouble(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		switch n {
		case 2, 3:
			w.WriteHeader(http.StatusBadGateway)
			return
		case 4:
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "retry: 1000\n\n: keepalive\n\nid: 1\nevent: user\ndata: {}\n\nevent: unknown\ndata: {}\n\n")
		if n > 4 {
			fmt.Fprintf(w, "id: 2\nevent: assistant\ndata: {\"since\":%q}\n\n", r.Header.Get("Last-Event-ID"))
		}
	}))
	t.Cleanup(server.Close)
	var told []string
	var lost int
	err := newTalking(t, server.URL).Follow(t.Context(), client.Following{
		Conversation: "c", OnLost: func(error) { lost++ },
		OnEvent: func(e client.StreamEvent) error {
			told = append(told, fmt.Sprint(e.Seq, e.Name, string(e.Data)))
			if e.Seq == 2 {
				return errEnough
			}
			return nil
		},
	})
	if !errors.Is(err, errEnough) || strings.Join(told, " ") != `1user{} 2assistant{"since":"1"}` || lost != 1 {
		t.Errorf("told %v, lost %d times, error %v", told, lost, err)
	}
}

func TestFollowGivesUp(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"status":404,"code":"not_found","detail":"nothing"}`)
	}))
	nobody := func(client.StreamEvent) error { return errEnough }
	err := newTalking(t, server.URL).Follow(t.Context(), client.Following{Conversation: "c", OnEvent: nobody})
	var refused *client.Problem
	if !errors.As(err, &refused) || refused.Code != "not_found" {
		t.Errorf("error %v", err)
	}
	server.Close()
	var lost *client.LostError
	hasty := newTalking(t, server.URL)
	hasty.Patience = 50 * time.Millisecond
	if err := hasty.Follow(t.Context(), client.Following{Conversation: "c", OnEvent: nobody}); !errors.As(err, &lost) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newTalking(t, server.URL).Follow(ctx, client.Following{Conversation: "c", OnEvent: nobody}); err == nil {
		t.Error("no error")
	}
}

// A message whose answer is lost is sent again, with the same key.
func TestSayAgain(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string]int{}
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys[r.Header.Get("Idempotency-Key")]++
		switch n++; n {
		case 1:
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			fmt.Fprint(w, `{"pending":false}`)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(server.Close)
	c := newTalking(t, server.URL)
	if text, err := c.Say(t.Context(), "c", "hello"); err != nil || string(text) != `{"pending":false}` {
		t.Errorf("%s, %v", text, err)
	}
	var refused *client.Problem
	if _, err := c.Say(t.Context(), "c", "hello"); !errors.As(err, &refused) || refused.Status != http.StatusForbidden {
		t.Errorf("error %v", err)
	}
	if len(keys) != 2 || n != 4 {
		t.Errorf("%d requests with the keys %v", n, keys)
	}
}
