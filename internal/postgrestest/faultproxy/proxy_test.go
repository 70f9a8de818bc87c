package faultproxy_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/postgrestest/faultproxy"
)

const limit = time.Minute // for each expected event

func start(t *testing.T) *faultproxy.Proxy {
	t.Helper()
	return faultproxy.Start(t, postgrestest.New(t).URL())
}

func dial(t *testing.T, p *faultproxy.Proxy) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.CutAll()
		_ = conn.Close(context.WithoutCancel(t.Context()))
	})
	return conn
}

// ask runs a statement in the background.
func ask(t *testing.T, conn *pgx.Conn) <-chan error {
	t.Helper()
	answer := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	go func() {
		defer cancel()
		answer <- conn.Ping(ctx)
	}()
	return answer
}

func isSilent(t *testing.T, answer <-chan error) {
	t.Helper()
	select {
	case err := <-answer:
		t.Fatalf("got an answer: %v", err)
	case <-time.After(50 * time.Millisecond): // a later answer fails the test where it is awaited
	}
}

func wantSuccess(t *testing.T, answer <-chan error) {
	t.Helper()
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
}

func wantFailure(t *testing.T, answer <-chan error) {
	t.Helper()
	if err := <-answer; err == nil {
		t.Fatal("no error")
	}
}

func TestPassesTraffic(t *testing.T) {
	t.Parallel()
	p := start(t)
	conn := dial(t, p)
	var text string
	if err := conn.QueryRow(t.Context(), "SELECT repeat('x', 1000000)").Scan(&text); err != nil || len(text) != 1_000_000 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if n := p.Conns()[0].Passed(faultproxy.ToClient); n < 1_000_000 {
		t.Errorf("%d bytes passed", n)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for len(p.Conns()) > 0 {
		if t.Context().Err() != nil {
			t.Fatal("the connection is still there")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestHoldReordersConnections(t *testing.T) {
	t.Parallel()
	p := start(t)
	first, second := dial(t, p), dial(t, p)
	p.Oldest(1).Hold(faultproxy.ToServer)
	held := ask(t, first)
	wantSuccess(t, ask(t, second)) // asked later, answered earlier
	isSilent(t, held)
	p.Oldest(1).Heal()
	wantSuccess(t, held)

	p.Hold(faultproxy.ToClient)
	held = ask(t, first)
	isSilent(t, held)
	p.Heal()
	wantSuccess(t, held)
}

func TestBlackHole(t *testing.T) {
	t.Parallel()
	p := start(t)
	first, second := dial(t, p), dial(t, p)
	p.Oldest(1).BlackHole(faultproxy.Both)
	lost := ask(t, first)
	wantSuccess(t, ask(t, second))
	isSilent(t, lost)
	p.Heal()
	isSilent(t, lost) // its bytes are lost
	p.Oldest(1).Cut()
	wantFailure(t, lost)

	p.BlackHole()
	lost = ask(t, second)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := pgx.Connect(ctx, p.URL()); err == nil {
		t.Error("a new connection got through")
	}
	p.Heal()
	wantSuccess(t, ask(t, dial(t, p)))
	isSilent(t, lost)
	p.CutAll()
	wantFailure(t, lost)
}

func TestHoldNew(t *testing.T) {
	t.Parallel()
	p := start(t)
	old := dial(t, p)
	p.HoldNew()
	connected := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
		defer cancel()
		conn, err := pgx.Connect(ctx, p.URL())
		if err == nil {
			err = conn.Close(ctx)
		}
		connected <- err
	}()
	wantSuccess(t, ask(t, old))
	isSilent(t, connected)
	p.Heal()
	wantSuccess(t, connected)
}

func TestHalfClose(t *testing.T) {
	t.Parallel()
	p := start(t)
	toClient, toServer := dial(t, p), dial(t, p)
	p.Oldest(1).HalfClose(faultproxy.ToClient)
	wantFailure(t, ask(t, toClient))
	p.Oldest(2).HalfClose(faultproxy.ToServer)
	wantFailure(t, ask(t, toServer)) // the server drops a client that stopped sending
}

func TestDelay(t *testing.T) {
	t.Parallel()
	p := start(t)
	conn := dial(t, p)
	const delay = 100 * time.Millisecond
	p.Delay(faultproxy.Both, delay)
	started := time.Now()
	wantSuccess(t, ask(t, conn))
	if took := time.Since(started); took < 2*delay {
		t.Errorf("took %s", took)
	}
	p.Delay(faultproxy.Both, time.Hour)
	delayed := ask(t, conn)
	isSilent(t, delayed)
	p.Heal()
	wantSuccess(t, delayed)
}

func TestCutAll(t *testing.T) {
	t.Parallel()
	p := start(t)
	conn := dial(t, p)
	if n := p.CutAll(); n != 1 {
		t.Errorf("%d connections cut", n)
	}
	wantFailure(t, ask(t, conn))
	wantSuccess(t, ask(t, dial(t, p)))
}
