// Package authfail keeps count of authentications that failed: it delays their answers, logs them, counts them for
// /metrics, and writes them to the audit, added up by address so that nobody can fill it.
//
// It is asked only after a credential was found to be wrong. A valid one is never delayed, whatever others do.
package authfail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Surface is where a credential was presented.
type Surface string

// The surfaces.
const (
	Dashboard Surface = "dashboard"
	API       Surface = "api"
	Endpoint  Surface = "endpoint" // of an agent
	Files     Surface = "files"    // the URLs of uploads and downloads
)

// Action is the audit event's.
const Action = "authentication.failed"

const (
	defaultWindow = time.Minute
	writeTimeout  = 10 * time.Second

	// maxSources is how many addresses of a window are told apart; the others are added up.
	maxSources = 32

	// The answer to each further failure of an address comes later, up to maxDelay, and answerGap after the answer before
	// it: more connections get no more answers. None is held back longer than maxHeld. How many are held back at a time is
	// bounded by the connections that package inbound accepts.
	delayStep = 50 * time.Millisecond
	maxDelay  = time.Second
	answerGap = 10 * time.Millisecond
	maxHeld   = 10 * time.Second
)

// Config is what a [Log] needs. Pool, Logger and Now are required.
type Config struct {
	Pool   *pgxpool.Pool
	Logger *slog.Logger
	Now    func() time.Time // for the log, the audit's data, and how long answers are held back
	// Window is how long failures are added up. Zero: a minute.
	Window time.Duration
}

// Log is the failures of one process. A nil Log takes no notice of any.
type Log struct {
	cfg     Config
	counter *prometheus.CounterVec
	stop    context.CancelFunc
	stopped context.Context
	writing sync.WaitGroup

	mu     sync.Mutex
	window map[key]*failures
}

// key is what failures are added up by. The zero source is all addresses beyond the first maxSources.
type key struct {
	surface Surface
	source  netip.Prefix
}

type failures struct {
	count       int64
	first, last time.Time
	free        time.Time // when the next answer may be given
}

// New makes a Log. Start it.
func New(cfg Config) (*Log, error) {
	if cfg.Pool == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("count failed authentications: Pool, Logger and Now are required")
	}
	if cfg.Window == 0 {
		cfg.Window = defaultWindow
	}
	l := &Log{
		cfg: cfg, window: map[key]*failures{},
		counter: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_authentication_failures_total",
			Help: "Requests with a credential that is not valid, by surface: dashboard, api, endpoint (of an agent), files.",
		}, []string{"surface"}),
	}
	for _, surface := range []Surface{Dashboard, API, Endpoint, Files} {
		l.counter.WithLabelValues(string(surface)) // shown from the start
	}
	l.stopped, l.stop = context.WithCancel(context.Background())
	return l, nil
}

// Collectors are the log's metrics.
func (l *Log) Collectors() []prometheus.Collector { return []prometheus.Collector{l.counter} }

// Start writes to the audit at the end of each window.
func (l *Log) Start() {
	l.writing.Go(func() {
		ticker := time.NewTicker(l.cfg.Window)
		defer ticker.Stop()
		for {
			select {
			case <-l.stopped.Done():
				return
			case <-ticker.C:
				l.flush()
			}
		}
	})
}

// Drain answers those whose answers are held back.
func (l *Log) Drain() { l.stop() }

// Close writes what was not written yet.
func (l *Log) Close() {
	l.stop()
	l.writing.Wait()
	l.flush()
}

// Refuse takes notice of a credential that was not valid, and returns when its holder may be told.
func (l *Log) Refuse(ctx context.Context, surface Surface) {
	if l == nil {
		return
	}
	l.counter.WithLabelValues(string(surface)).Inc()
	wait := time.NewTimer(l.add(ctx, surface))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	case <-l.stopped.Done():
	}
}

// add counts a failure and returns how long its answer is held back.
func (l *Log) add(ctx context.Context, surface Surface) time.Duration {
	addr := clientaddr.FromContext(ctx)
	k := key{surface: surface, source: clientaddr.Source(addr)}
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.window[k]
	if f == nil && len(l.window) >= maxSources {
		k.source = netip.Prefix{}
		f = l.window[k]
	}
	if f == nil {
		f = &failures{first: now}
		l.window[k] = f
		l.cfg.Logger.Warn("authentication failed", "surface", string(surface), "address", addr.String())
	}
	f.count++
	f.last = now
	answer := now.Add(min(time.Duration(f.count)*delayStep, maxDelay))
	if answer.Before(f.free) {
		answer = f.free
	}
	held := min(answer.Sub(now), maxHeld)
	f.free = now.Add(held + answerGap)
	return held
}

// flush writes the window to the audit and begins a new one. Failures that cannot be written are kept for the next.
func (l *Log) flush() {
	l.mu.Lock()
	window := l.window
	l.window = map[key]*failures{}
	l.mu.Unlock()
	if len(window) == 0 {
		return
	}
	events := make([]audit.Event, 0, len(window))
	for k, f := range window {
		events = append(events, event(k, f))
		if f.count > 1 {
			l.cfg.Logger.Warn("authentications failed", "surface", string(k.surface), "source", sourceName(k.source), "count", f.count)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	err := postgres.InTx(ctx, l.cfg.Pool, func(tx pgx.Tx) error { return audit.Write(ctx, tx, events...) })
	if err != nil {
		l.cfg.Logger.Warn("write failed authentications to the audit", "error", fmt.Errorf("keep them for later: %w", err))
		l.putBack(window)
	}
}

func (l *Log) putBack(window map[key]*failures) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, old := range window {
		f := l.window[k]
		if f == nil && len(l.window) >= maxSources {
			k.source = netip.Prefix{}
			f = l.window[k]
		}
		if f == nil {
			l.window[k] = old
			continue
		}
		f.count += old.count
		f.first = old.first
	}
}

func event(k key, f *failures) audit.Event {
	return audit.Event{
		Actor: audit.System(), Action: Action, Subject: uuid.Nil,
		Data: map[string]any{
			"surface": k.surface, "source": sourceName(k.source), "count": f.count,
			"first_at": f.first.UTC().Format(time.RFC3339), "last_at": f.last.UTC().Format(time.RFC3339),
		},
	}
}

func sourceName(source netip.Prefix) string {
	switch {
	case !source.IsValid():
		return "other"
	case source.IsSingleIP():
		return source.Addr().String()
	}
	return source.String()
}
