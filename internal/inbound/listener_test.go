package inbound_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/inbound"
)

// limit is how long a test waits for an event.
const limit = time.Minute

// stall is the servers' timeout for everything, long enough for a slow machine to send a request.
const stall = 2 * time.Second

func serve(t *testing.T, handler http.HandlerFunc, change func(*inbound.Config)) *inbound.Listener {
	t.Helper()
	cfg := inbound.Config{
		HeaderTimeout: stall, IdleTimeout: stall, StallTimeout: stall, DrainTimeout: stall / 4, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	if change != nil {
		change(&cfg)
	}
	l, err := inbound.Listen(t.Context(), "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := l.Server(handler)
	done := make(chan error, 1)
	go func() { done <- l.Serve(server) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l
}

func dial(t *testing.T, l *inbound.Listener, from string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// wantClosed reads from the server until it closes the connection.
func wantClosed(t *testing.T, c net.Conn, what string) string {
	t.Helper()
	said, err := io.ReadAll(c)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		t.Errorf("%s: the server keeps the connection open", what)
	}
	return string(said)
}

func wantOK(t *testing.T, l *inbound.Listener) {
	t.Helper()
	c := dial(t, l, "127.0.0.1")
	send(t, c, "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("nobody else is served: %v", err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "5 bytes" {
		t.Errorf("got %q, %v", text, err)
	}
}

// echo returns the number of bytes it read; /refuse reads none.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/refuse" {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%d bytes", n)
}

func TestConnectionsThatMakeNoProgressEnd(t *testing.T) {
	t.Parallel()
	l := serve(t, echo, nil)
	const post = " HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
	for name, text := range map[string]string{
		"says nothing":                  "",
		"half a header":                 "GET /read HTTP/1.1\r\nHost: x\r\n",
		"idle after a request":          "GET /read HTTP/1.1\r\nHost: x\r\n\r\n",
		"idle after a second request":   "GET /read HTTP/1.1\r\nHost: x\r\n\r\nGET /read HTTP/1.1\r\nHost: x\r\n\r\n",
		"no body":                       "POST /read" + post,
		"half a body":                   "POST /read" + post + strings.Repeat("x", 50_000),
		"chunked, no end":               "POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"body of an answered request":   "POST /refuse" + post,
		"chunks of an answered request": "POST /refuse HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, l, "127.0.0.1")
			send(t, c, text)
			wantOK(t, l)
			if said := wantClosed(t, c, name); strings.Contains(text, "/refuse") && !strings.Contains(said, "401") {
				t.Errorf("the answer is lost: got %q", said)
			}
		})
	}
}

// trickle sends pieces of a body at an interval until the connection fails or all are sent.
func trickle(ctx context.Context, c net.Conn, piece string, every time.Duration, pieces int) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for range pieces {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if _, err := io.WriteString(c, piece); err != nil {
			return err
		}
	}
	return nil
}

func TestASlowBodyEndsAndAProgressingOneDoesNot(t *testing.T) {
	t.Parallel()
	l := serve(t, echo, nil)
	t.Run("a byte now and then", func(t *testing.T) {
		t.Parallel()
		c := dial(t, l, "127.0.0.1")
		send(t, c, "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
		go func() { _ = trickle(t.Context(), c, "x", stall/20, 100_000) }() // ends with the connection
		wantClosed(t, c, "trickle")
	})
	t.Run("longer than the timeout, but steadily", func(t *testing.T) {
		t.Parallel()
		c := dial(t, l, "127.0.0.1")
		const pieces, size = 40, 8 << 10 // twice the stall timeout
		send(t, c, fmt.Sprintf("POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", pieces*size))
		if err := trickle(t.Context(), c, strings.Repeat("x", size), stall/20, pieces); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("the upload ended with %s", answer.Status)
		}
	})
	t.Run("steadily, but longer than a body may take", func(t *testing.T) {
		t.Parallel()
		l := serve(t, echo, func(cfg *inbound.Config) { cfg.BodyTimeout = stall })
		c := dial(t, l, "127.0.0.1")
		send(t, c, "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
		go func() { _ = trickle(t.Context(), c, strings.Repeat("x", 8<<10), stall/20, 10_000) }() // ends with the connection
		wantClosed(t, c, "endless body")
	})
}

// TestAHeldResponseHasNoDeadline: all timeouts pass while the server writes nothing.
func TestAHeldResponseHasNoDeadline(t *testing.T) {
	t.Parallel()
	l := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		if r.URL.Query().Has("stream") {
			fmt.Fprint(w, "first ")
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-time.After(2 * stall):
			fmt.Fprint(w, "last")
		case <-r.Context().Done():
		}
	}, nil)
	for text, want := range map[string]string{
		"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}":                            "last",
		"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n": "last",
		"GET /?stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                                             "first last",
		"POST /?stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}":                     "first last",
	} {
		t.Run(strings.Fields(text)[0]+strings.Fields(text)[1], func(t *testing.T) {
			t.Parallel()
			c := dial(t, l, "127.0.0.1")
			send(t, c, text)
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if got, err := io.ReadAll(answer.Body); err != nil || string(got) != want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestAClientThatDoesNotReadIsLetGo: a handler without a deadline does not block forever.
func TestAClientThatDoesNotReadIsLetGo(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	l := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		_, err := w.Write(make([]byte, 256<<20))
		failed <- err
	}, nil)
	c := dial(t, l, "127.0.0.1")
	send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case err := <-failed:
		if err == nil {
			t.Error("256 MiB were written to a client that reads nothing")
		}
	case <-time.After(limit):
		t.Error("the server goes on writing")
	}
}

// TestAnEventStreamThatNobodyReadsEnds: the stream ends even if each event is small.
func TestAnEventStreamThatNobodyReadsEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	event := []byte("data: " + strings.Repeat("x", 4<<10) + "\n\n")
	l := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			_, err := w.Write(event)
			if err == nil {
				err = http.NewResponseController(w).Flush()
			}
			if err != nil {
				return
			}
		}
	}, nil)
	send(t, dial(t, l, "127.0.0.1"), "GET / HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
	select {
	case <-ended:
	case <-time.After(limit):
		t.Error("the stream goes on")
	}
}

func TestConnectionLimits(t *testing.T) {
	t.Parallel()
	t.Run("in total", func(t *testing.T) {
		t.Parallel()
		l := serve(t, echo, func(cfg *inbound.Config) { cfg.MaxConnections, cfg.IdleTimeout, cfg.HeaderTimeout = 2, limit, limit })
		first, second, third := dial(t, l, "127.0.0.1"), dial(t, l, "127.0.0.1"), dial(t, l, "127.0.0.1")
		const request = "GET /read HTTP/1.1\r\nHost: x\r\n\r\n"
		for _, c := range []net.Conn{first, second} {
			send(t, c, request)
			wantAnswer(t, c)
		}
		send(t, third, request)
		if err := third.SetReadDeadline(time.Now().Add(stall / 4)); err != nil {
			t.Fatal(err)
		}
		if _, err := third.Read(make([]byte, 1)); err == nil {
			t.Error("a third connection is served while two are open")
		}
		if err := errors.Join(first.Close(), third.SetReadDeadline(time.Now().Add(limit))); err != nil {
			t.Fatal(err)
		}
		wantAnswer(t, third)
	})
	t.Run("of an address", func(t *testing.T) {
		t.Parallel()
		exempt, err := clientaddr.ParseProxies([]string{"127.0.0.9"})
		if err != nil {
			t.Fatal(err)
		}
		l := serve(t, echo, func(cfg *inbound.Config) {
			cfg.MaxConnectionsPerAddress, cfg.Exempt, cfg.IdleTimeout, cfg.HeaderTimeout = 1, exempt, limit, limit
		})
		const request = "GET /read HTTP/1.1\r\nHost: x\r\n\r\n"
		first := dial(t, l, "127.0.0.2")
		send(t, first, request)
		wantAnswer(t, first)
		if said := wantClosed(t, dial(t, l, "127.0.0.2"), "the second of an address"); said != "" {
			t.Errorf("it was served: %q", said)
		}
		for _, other := range []string{"127.0.0.3", "127.0.0.9", "127.0.0.9"} {
			c := dial(t, l, other)
			send(t, c, request)
			wantAnswer(t, c)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		for ended := time.Now().Add(limit); ; { // the server notices the end of the first one a little later
			c := dial(t, l, "127.0.0.2")
			_, _ = io.WriteString(c, request) // the server may have closed it
			if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				answer.Body.Close()
				break
			}
			if time.Now().After(ended) {
				t.Fatal("the address stays refused")
			}
		}
	})
}

func wantAnswer(t *testing.T, c net.Conn) {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
}
