// Package authfail owns the handling of failed authentications: it delays their responses, logs them, counts them for /metrics, and
// writes them to the audit log. Audit events are summed by address, so that failures cannot flood the log.
//
// It is called only after a credential was found to be invalid. A valid credential is never delayed.
package authfail

import (
	"context"
	"errors"
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

// Surface is where a credential was used.
type Surface string

// The surfaces.
const (
	Dashboard Surface = "dashboard"
	API       Surface = "api"
	Endpoint  Surface = "endpoint" // an agent's endpoint
	Files     Surface = "files"    // the URLs of uploads and downloads
)

const (
	defaultWindow = time.Minute
	writeTimeout  = 10 * time.Second

	// maxSources is how many addresses are counted separately in a window. The others are counted together.
	maxSources = 32

	// Each failure of an address delays its response by delayStep more, up to maxDelay. Responses to an address are at least
	// answerGap apart, so that more connections do not get more of them. None is delayed by more than maxHeld. Package
	// inbound bounds the connections, and so the delayed responses.
	delayStep = 50 * time.Millisecond
	maxDelay  = time.Second
	answerGap = 10 * time.Millisecond
	maxHeld   = 10 * time.Second
)

// Config configures a [Log]. Pool, Logger and Now are required.
type Config struct {
	Pool   *pgxpool.Pool
	Logger *slog.Logger
	Now    func() time.Time // for the log, audit events and delays
	// Window is the period for which failures are summed. Zero: 1 min.
	Window time.Duration
}

// Log handles the failures of one process. A nil Log ignores them.
type Log struct {
	cfg     Config
	counter *prometheus.CounterVec
	stop    context.CancelFunc
	stopped context.Context
	writing sync.WaitGroup

	mu     sync.Mutex
	window map[failureKey]*failures
}

// failureKey is the key by which failures are summed. The zero source stands for all addresses beyond the first maxSources.
type failureKey struct {
	surface Surface
	source  netip.Prefix
}

type failures struct {
	count       int64
	first, last time.Time
	free        time.Time // when the next response may be sent
}

// New makes a Log. Call [Log.Start] next.
func New(cfg Config) (*Log, error) {
	if cfg.Pool == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("count failed authentications: Pool, Logger and Now are required")
	}
	if cfg.Window == 0 {
		cfg.Window = defaultWindow
	}
	l := &Log{
		cfg: cfg, window: map[failureKey]*failures{},
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

// Collectors returns the metrics.
func (l *Log) Collectors() []prometheus.Collector { return []prometheus.Collector{l.counter} }

// Start begins to write audit events at the end of each window.
func (l *Log) Start() {
	l.writing.Go(func() {
		ticker := time.NewTicker(l.cfg.Window)
		defer ticker.Stop()
		for {
			select {
			case <-l.stopped.Done():
				return
			case <-ticker.C:
				l.flushWindow()
			}
		}
	})
}

// Drain releases all delayed responses.
func (l *Log) Drain() { l.stop() }

// Close writes the remaining audit events.
func (l *Log) Close() {
	l.stop()
	l.writing.Wait()
	l.flushWindow()
}

// Refuse records an invalid credential, and returns when the response may be sent.
func (l *Log) Refuse(ctx context.Context, surface Surface) {
	if l == nil {
		return
	}
	l.counter.WithLabelValues(string(surface)).Inc()
	wait := time.NewTimer(l.addFailure(ctx, surface))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	case <-l.stopped.Done():
	}
}

// addFailure counts a failure and returns the delay of its response.
func (l *Log) addFailure(ctx context.Context, surface Surface) time.Duration {
	addr := clientaddr.FromContext(ctx)
	k := failureKey{surface: surface, source: clientaddr.Source(addr)}
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

// flushWindow writes the window to the audit log and begins a new one. If that fails, the failures are kept for the next
// window.
func (l *Log) flushWindow() {
	l.mu.Lock()
	window := l.window
	l.window = map[failureKey]*failures{}
	l.mu.Unlock()
	if len(window) == 0 {
		return
	}
	events := make([]audit.Event, 0, len(window))
	for k, f := range window {
		events = append(events, auditEvent(k, f))
		if f.count > 1 {
			l.cfg.Logger.Warn("authentications failed", "surface", string(k.surface), "source", sourceName(k.source), "count", f.count)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	err := postgres.InTx(ctx, l.cfg.Pool, func(tx pgx.Tx) error { return audit.Write(ctx, tx, events...) })
	if err != nil {
		l.cfg.Logger.Warn("write failed authentications to the audit log: trying again", "error", err)
		l.putBack(window)
	}
}

func (l *Log) putBack(window map[failureKey]*failures) {
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

func auditEvent(k failureKey, f *failures) audit.Event {
	return audit.Event{
		Actor: audit.System(), Action: audit.AuthenticationFailed, Subject: uuid.Nil,
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
