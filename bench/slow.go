package main

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"time"
)

const (
	slowClients    = 1_000 // connections that make no progress, at any moment
	workingClients = 50
)

// slowConnections measures clients that work beside connections that make no progress. Each of those is opened again
// when the server closes it.
func slowConnections(ctx context.Context, b *bench) error {
	s, err := b.newStage(ctx)
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
	alone, err := s.drive(ctx, working, length)
	if err != nil {
		return err
	}
	holding, stop := context.WithCancel(ctx)
	defer stop()
	var open atomic.Int64
	for i := range slowClients {
		go holdOpen(holding, s.addr, slowTexts[i%len(slowTexts)], &open)
	}
	for open.Load() < slowClients {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	beside, err := s.drive(ctx, working, length)
	if err != nil {
		return err
	}
	b.report.add("slow", "50 clients alone: p99", "µs", alone.p99)
	b.report.add("slow", "50 clients beside 1,000 slow connections: p99", "µs", beside.p99)
	b.report.add("slow", "50 clients: p99 beside / alone", "", beside.p99/alone.p99)
	return nil
}

// slowTexts are what slow connections say: nothing, half a header, part of a form, a request whose answer they ignore.
var slowTexts = []string{
	"",
	"GET / HTTP/1.1\r\nHost: x\r\n",
	"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\ntoken=",
	"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
}

// holdOpen keeps a connection open that makes no progress, until ctx ends.
func holdOpen(ctx context.Context, addr, text string, open *atomic.Int64) {
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
		_, _ = io.Copy(io.Discard, conn) // it ends when the server closes the connection
		closing()
		_ = conn.Close() // likewise
	}
}
