package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	slowClients    = 1_000 // connections that make no progress, at any moment
	workingClients = 50
)

// slowConnections measures clients that work beside connections that make no progress, on each of the server's addresses in
// turn. Each of those is opened again when the server closes it.
func slowConnections(ctx context.Context, b *bench) error {
	metrics, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	s, err := b.newStage(ctx, "--metrics-addr", metrics)
	if err != nil {
		return err
	}
	defer s.close()
	working, err := openMany(ctx, s.through(), workingClients)
	if err != nil {
		return err
	}
	defer closeMany(working)
	length := pick(b, 10*time.Second, time.Second)
	if _, err := s.drive(ctx, working, pick(b, 3*time.Second, time.Second)); err != nil { // warm up
		return err
	}
	for _, listener := range []struct{ name, addr string }{{"main address", s.addr}, {"address of metrics", metrics}} {
		alone, err := s.drive(ctx, working, length)
		if err != nil {
			return err
		}
		for _, kind := range slowKinds {
			beside, err := s.driveBeside(ctx, working, length, listener.addr, kind.texts)
			if err != nil {
				return fmt.Errorf("%s connections on the %s: %w", kind.name, listener.name, err)
			}
			what := fmt.Sprintf("50 clients beside 1,000 %s connections, %s: p99", kind.name, listener.name)
			b.report.add("slow", what, "µs", beside.p99)
			b.report.add("slow", what+" beside / alone", "", beside.p99/alone.p99)
		}
		b.report.add("slow", "50 clients alone, before the "+listener.name+": p99", "µs", alone.p99)
	}
	return nil
}

// driveBeside is drive while connections to an address are open.
func (s *stage) driveBeside(ctx context.Context, working []*wire, length time.Duration, addr string, texts []string) (sample, error) {
	holding, stop := context.WithCancel(ctx)
	var held sync.WaitGroup
	defer func() {
		stop()
		held.Wait()
	}()
	var open atomic.Int64
	for i := range slowClients {
		held.Go(func() { holdOpen(holding, addr, texts[i%len(texts)], &open) })
	}
	for open.Load() < slowClients {
		select {
		case <-ctx.Done():
			return sample{}, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return s.drive(ctx, working, length)
}

// slowKinds are what slow connections say. A client that vanished says no more, and reads nothing either: half a request is
// all that the server has of it.
var slowKinds = []struct {
	name  string
	texts []string
}{
	{"idle", []string{"", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"}},
	{"slow", []string{"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", "POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"}},
	{"half-open", []string{"GET / HTTP/1.1\r\nHost: x\r\n", "POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\ntoken="}},
}

// slowPause is between two bytes of a slow connection.
const slowPause = time.Second

// holdOpen keeps a connection open until ctx ends. Slow ones go on, byte by byte.
func holdOpen(ctx context.Context, addr, text string, open *atomic.Int64) {
	goesOn := strings.HasSuffix(text, ": ") || strings.HasSuffix(text, "\r\n\r\n") && strings.HasPrefix(text, "POST")
	counted := false
	for ctx.Err() == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return
		}
		closing := context.AfterFunc(ctx, func() { _ = conn.Close() }) // nothing was said on it
		if _, err = io.WriteString(conn, text); err == nil && !counted {
			counted = true
			open.Add(1)
		}
		if goesOn {
			go trickle(ctx, conn)
		}
		_, _ = io.Copy(io.Discard, conn) // it ends when the server closes the connection
		closing()
		_ = conn.Close() // likewise
	}
}

// trickle writes a byte now and then, until the connection is closed.
func trickle(ctx context.Context, conn net.Conn) {
	ticker := time.NewTicker(slowPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if _, err := io.WriteString(conn, "x"); err != nil {
			return
		}
	}
}
