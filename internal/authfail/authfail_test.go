package authfail_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

type recorded struct {
	Surface, Source string
	Count           int
}

func TestFailuresAreAddedUp(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	var log bytes.Buffer
	l, err := authfail.New(authfail.Config{Pool: db.Pool(), Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	// A response to a client that left is not delayed.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	const addresses = 1_000
	for i := range addresses {
		from := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		for range 3 {
			l.Refuse(clientaddr.WithAddr(gone, from), authfail.API)
		}
	}
	for _, text := range []string{"2001:db8::1", "2001:db8::2"} { // both are one client
		l.Refuse(clientaddr.WithAddr(gone, netip.MustParseAddr(text)), authfail.Dashboard)
	}
	l.Close()
	events, err := audit.List(t.Context(), db.Pool(), audit.Filter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(events) == 0 || len(events) > 40 {
		t.Fatalf("%d events of %d addresses", len(events), addresses)
	}
	total := map[string]int{}
	others := 0
	for _, e := range events {
		var r recorded
		if err := json.Unmarshal(e.Raw, &r); err != nil || e.Action != audit.AuthenticationFailed {
			t.Fatalf("event %s %s: %v", e.Action, e.Raw, err)
		}
		total[r.Surface] += r.Count
		if r.Source == "other" {
			others++
		}
	}
	if total["api"] != 3*addresses || total["dashboard"] != 2 || others == 0 {
		t.Errorf("counted %v, %d events of other addresses", total, others)
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(l.Collectors()...)
	shown := httptest.NewRecorder()
	promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}).ServeHTTP(shown, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	if want := fmt.Sprintf(`holdpoint_authentication_failures_total{surface="api"} %d`, 3*addresses); !strings.Contains(shown.Body.String(), want) {
		t.Errorf("the metrics lack %s:\n%s", want, shown.Body)
	}
	if lines := strings.Count(log.String(), "\n"); lines > 100 || !strings.Contains(log.String(), "address=10.0.0.1") {
		t.Errorf("%d lines of log:\n%.2000s", lines, log.String())
	}
}

// TestAnswersAreHeldBack: responses to an address are delayed longer with each failure. Any number can wait, but only
// until the server stops.
func TestAnswersAreHeldBack(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	now := time.Now() // the clock stands still
	l, err := authfail.New(authfail.Config{Pool: db.Pool(), Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := clientaddr.WithAddr(t.Context(), netip.MustParseAddr("198.51.100.7"))
	gone, cancel := context.WithCancel(ctx)
	cancel()
	for range 100 { // disconnecting gains clients nothing
		l.Refuse(gone, authfail.API)
	}
	began := time.Now()
	l.Refuse(ctx, authfail.API)
	if waited := time.Since(began); waited < 1700*time.Millisecond {
		t.Errorf("the hundredth failure is answered after %s", waited)
	}
	var begun, answered sync.WaitGroup
	var draining atomic.Bool
	var early atomic.Int64
	const many = 3_000
	begun.Add(many)
	for range many {
		answered.Go(func() {
			began := time.Now()
			begun.Done()
			l.Refuse(ctx, authfail.API)
			if time.Since(began) < 1700*time.Millisecond && !draining.Load() {
				early.Add(1)
			}
		})
	}
	begun.Wait()
	draining.Store(true)
	l.Drain()
	answered.Wait()
	if n := early.Load(); n > 0 {
		t.Errorf("%d of %d failures at a time are answered early", n, many)
	}
}
