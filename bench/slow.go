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

	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	slowClients    = 1_000 // connections without progress, at any moment
	workingClients = 50
)

// measureSlowConnections measures clients beside connections without progress, on each address of the server. When the server
// closes such a connection, it is opened again.
func measureSlowConnections(ctx context.Context, b *bench) error {
	metrics, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	s, err := b.newStage(ctx, "--metrics-addr", metrics)
	if err != nil {
		return err
	}
	defer s.close()
	group, err := connectClients(ctx, s.openTarget(), workingClients, 1, workingClients)
	if err != nil {
		return err
	}
	defer group.close()
	working := group.wires
	length := choose(b, 10*time.Second, time.Second)
	if _, err := s.driveCalls(ctx, working, choose(b, 3*time.Second, time.Second)); err != nil { // warm up
		return err
	}
	for _, listener := range []struct{ name, addr string }{{"main address", s.addr}, {"address of metrics", metrics}} {
		alone, err := s.driveCalls(ctx, working, length)
		if err != nil {
			return err
		}
		for _, kind := range slowKinds {
			beside, err := s.driveBeside(ctx, working, length, listener.addr, kind.texts)
			if err != nil {
				return fmt.Errorf("%s connections on the %s: %w", kind.name, listener.name, err)
			}
			what := fmt.Sprintf("50 clients beside 1,000 %s connections, %s: p99", kind.name, listener.name)
			b.report.addFigure("slow", what, "µs", beside.p99)
			b.report.addFigure("slow", what+" beside / alone", "", beside.p99/alone.p99)
		}
		b.report.addFigure("slow", "50 clients alone, before the "+listener.name+": p99", "µs", alone.p99)
	}
	return nil
}

// driveBeside is driveCalls beside slow connections to an address.
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
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return sample{}, err
		}
	}
	return s.driveCalls(ctx, working, length)
}

// slowKinds are the texts that slow connections send. Of a client that vanished, the server has half a request.
var slowKinds = []struct {
	name  string
	texts []string
}{
	{"idle", []string{"", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"}},
	{"slow", []string{"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", "POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"}},
	{"half-open", []string{"GET / HTTP/1.1\r\nHost: x\r\n", "POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\ntoken="}},
}

// slowPause is the time between two bytes of a slow connection.
const slowPause = time.Second

// holdOpen keeps a connection open until ctx ends. Unfinished texts continue byte by byte.
func holdOpen(ctx context.Context, addr, text string, open *atomic.Int64) {
	goesOn := strings.HasSuffix(text, ": ") || strings.HasSuffix(text, "\r\n\r\n") && strings.HasPrefix(text, "POST")
	counted := false
	for ctx.Err() == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return
		}
		closing := context.AfterFunc(ctx, func() { _ = conn.Close() }) // there is nothing to flush
		if _, err = io.WriteString(conn, text); err == nil && !counted {
			counted = true
			open.Add(1)
		}
		if goesOn {
			go writeSlowly(ctx, conn)
		}
		_, _ = io.Copy(io.Discard, conn) // until the server closes the connection
		closing()
		_ = conn.Close() // the server may have closed it
	}
}

// writeSlowly writes one byte at a time until the connection is closed.
func writeSlowly(ctx context.Context, conn net.Conn) {
	for pause.For(ctx, slowPause) == nil {
		if _, err := io.WriteString(conn, "x"); err != nil {
			return
		}
	}
}
