package runtime

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/riverqueue/river/rivertype"

	"github.com/holdpoint/holdpoint/internal/guarded"
)

// gauges are read for each request. Those that count rows have the same value in every process.
type gauges struct {
	rt              *Runtime
	conns, waits    *prometheus.Desc
	pending, oldest *prometheus.Desc
	unmeetable      *prometheus.Desc
	queued, late    *prometheus.Desc
	talking         *prometheus.Desc
	guards          *prometheus.Desc
	standby, reads  *prometheus.Desc // only with a standby
}

func newGauges(rt *Runtime) gauges {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return gauges{
		rt:         rt,
		conns:      describe("holdpoint_database_connections", "Connections of this process's pool.", "state"),
		standby:    describe("holdpoint_standby_usable", "Whether the standby for history can be used: 1 or 0."),
		reads:      describe("holdpoint_standby_reads_total", "Reads of history for which there is a standby, by the server that answered: standby, primary.", "server"),
		waits:      describe("holdpoint_database_acquire_wait_seconds_total", "Time spent waiting for a connection."),
		pending:    describe("holdpoint_approvals_pending", "Parked calls that wait for a decision, in all processes."),
		oldest:     describe("holdpoint_approvals_oldest_seconds", "How long the oldest of them has waited; 0: none waits."),
		unmeetable: describe("holdpoint_approvals_unmeetable", "Those of them whose policies the present reviewers cannot meet."),
		talking:    describe("holdpoint_conversations_at_work", "Conversations of the built-in loop that are at work, in all processes, by status: due, queued, running, waiting (for calls).", "status"),
		guards:     describe("holdpoint_guards", "Guarded coding agents, by state: holds, broken, silent, removed, unwatched.", "state"),
		queued:     describe("holdpoint_jobs", "Jobs in the queue, of all processes, by queue and state: available, running, retryable, scheduled (for later).", "queue", "state"),
		late:       describe("holdpoint_jobs_oldest_seconds", "How long the oldest job that could begin has waited for a worker; 0: none does.", "queue"),
	}
}

// Describe implements [prometheus.Collector].
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.conns, g.waits, g.pending, g.oldest, g.unmeetable, g.queued, g.late, g.talking, g.guards, g.standby, g.reads} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	stat := g.rt.DB.Pool().Stat()
	set(g.conns, float64(stat.AcquiredConns()), "in_use")
	set(g.conns, float64(stat.IdleConns()), "idle")
	ch <- prometheus.MustNewConstMetric(g.waits, prometheus.CounterValue, stat.AcquireDuration().Seconds())
	if stats, ok := g.rt.DB.Reader().Stats(); ok {
		usable := 0.0
		if stats.Usable {
			usable = 1
		}
		set(g.standby, usable)
		ch <- prometheus.MustNewConstMetric(g.reads, prometheus.CounterValue, float64(stats.Standby), "standby")
		ch <- prometheus.MustNewConstMetric(g.reads, prometheus.CounterValue, float64(stats.Primary), "primary")
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	if pulse, err := g.rt.Calls.ReadPulse(ctx); err != nil {
		ch <- prometheus.NewInvalidMetric(g.pending, err)
	} else {
		set(g.pending, float64(pulse.Pending))
		set(g.oldest, pulse.Waited().Seconds())
	}
	if n, err := g.rt.Calls.CountUnmeetable(ctx); err != nil {
		ch <- prometheus.NewInvalidMetric(g.unmeetable, err)
	} else {
		set(g.unmeetable, float64(n))
	}
	if working, err := g.rt.Converse.AtWork(ctx); err != nil {
		ch <- prometheus.NewInvalidMetric(g.talking, err)
	} else {
		for status, n := range working {
			set(g.talking, float64(n), string(status))
		}
	}
	if guards, err := g.rt.Guards.Count(ctx); err != nil {
		ch <- prometheus.NewInvalidMetric(g.guards, err)
	} else {
		for _, state := range guarded.States() {
			set(g.guards, float64(guards[state]), string(state))
		}
	}
	if err := g.collectJobs(ctx, set); err != nil {
		ch <- prometheus.NewInvalidMetric(g.queued, err)
	}
}

// collectJobs counts waiting jobs by SQL, because River's client cannot count.
func (g gauges) collectJobs(ctx context.Context, set func(d *prometheus.Desc, value float64, labels ...string)) error {
	rows, err := g.rt.DB.Pool().Query(ctx, `SELECT queue, state::text, count(*)::float8,
			coalesce(extract(epoch FROM now() - min(scheduled_at)), 0)::float8
		FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled') GROUP BY queue, state`)
	if err != nil {
		return err
	}
	late := map[string]float64{}
	for name := range jobQueues() {
		late[name] = 0
	}
	var queue, state string
	var count, waited float64
	_, err = pgx.ForEachRow(rows, []any{&queue, &state, &count, &waited}, func() error {
		set(g.queued, count, queue, state)
		if state == string(rivertype.JobStateAvailable) {
			late[queue] = max(0, waited)
		}
		return nil
	})
	for queue, seconds := range late {
		set(g.late, seconds, queue)
	}
	return err
}

const (
	healthTimeout = 5 * time.Second
	// stallLimit is the time without progress after which the process is not ready.
	stallLimit = 10 * time.Second
)

// StopReadiness makes /readyz answer 503, so that load balancers send no more requests.
func (rt *Runtime) StopReadiness() { rt.stopping.Store(true) }

// mountHealth adds /healthz (the process answers) and /readyz (the database answers and its work makes progress).
func (rt *Runtime) mountHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "ok") // the client may be gone
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if rt.stopping.Load() {
			http.Error(w, "this server is stopping", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		if err := rt.DB.Pool().Ping(ctx); err != nil {
			rt.Logger.Warn("not ready", "error", err)
			http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
			return
		}
		stalled := rt.Calls.ListStalled(stallLimit)
		if rt.DB.ListenerSilence() > stallLimit {
			stalled = append(stalled, "listening for notifications")
		}
		if len(stalled) > 0 {
			text := fmt.Sprintf("no progress for %s: %s", stallLimit, strings.Join(stalled, ", "))
			rt.Logger.Warn("not ready", "error", text)
			http.Error(w, text, http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
}

// Metrics serves the metrics of all packages in this process to Prometheus, and gauges that are read for each request. The caller decides who may read them.
func (rt *Runtime) Metrics() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newGauges(rt))
	r.MustRegister(rt.Collectors...)
	for _, owner := range []interface{ Collectors() []prometheus.Collector }{rt.Calls, rt.Converse, rt.Failures, rt.source, rt.asked, rt.Traces, rt.jobs, rt.Retention} {
		r.MustRegister(owner.Collectors()...)
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
