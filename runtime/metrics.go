package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// registry is all that /metrics tells: each package's own metrics, and what is read when it is asked for.
func (rt *Runtime) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newGauges(rt))
	r.MustRegister(rt.Collectors...)
	for _, owner := range []interface{ Collectors() []prometheus.Collector }{rt.Calls, rt.Converse, rt.Failures, rt.source, rt.asked, rt.Traces, rt.jobs} {
		r.MustRegister(owner.Collectors()...)
	}
	return r
}

// gauges are read when they are asked for. Those of the database's rows are the same at every process.
type gauges struct {
	rt              *Runtime
	conns, waits    *prometheus.Desc
	pending, oldest *prometheus.Desc
	queued, late    *prometheus.Desc
	talking         *prometheus.Desc
}

func newGauges(rt *Runtime) gauges {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return gauges{
		rt:      rt,
		conns:   describe("holdpoint_database_connections", "Connections of this process's pool.", "state"),
		waits:   describe("holdpoint_database_acquire_wait_seconds_total", "Time spent waiting for a connection."),
		pending: describe("holdpoint_approvals_pending", "Parked calls that wait for a decision, in all processes."),
		oldest:  describe("holdpoint_approvals_oldest_seconds", "How long the oldest of them has waited; 0: none waits."),
		talking: describe("holdpoint_conversations_at_work", "Conversations of the built-in loop that are at work, in all processes, by status: due, queued, running, waiting (for calls).", "status"),
		queued:  describe("holdpoint_jobs", "Jobs in the queue, of all processes, by queue and state: available, running, retryable, scheduled (for later: expiries, mostly).", "queue", "state"),
		late:    describe("holdpoint_jobs_oldest_seconds", "How long the oldest job that could begin has waited for a worker; 0: none does.", "queue"),
	}
}

// Describe implements [prometheus.Collector].
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.conns, g.waits, g.pending, g.oldest, g.queued, g.late, g.talking} {
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
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	if pulse, err := g.rt.Calls.Pulse(ctx); err != nil {
		ch <- prometheus.NewInvalidMetric(g.pending, err)
	} else {
		set(g.pending, float64(pulse.Pending))
		set(g.oldest, pulse.Waited().Seconds())
	}
	if working, err := g.rt.Converse.AtWork(ctx); err != nil {
		ch <- prometheus.NewInvalidMetric(g.talking, err)
	} else {
		for status, n := range working {
			set(g.talking, float64(n), string(status))
		}
	}
	if err := g.collectJobs(ctx, set); err != nil {
		ch <- prometheus.NewInvalidMetric(g.queued, err)
	}
}

// collectJobs counts what waits in River's table. Its client lists jobs, and counts none.
func (g gauges) collectJobs(ctx context.Context, set func(d *prometheus.Desc, value float64, labels ...string)) error {
	rows, err := g.rt.DB.Pool().Query(ctx, `SELECT queue, state::text, count(*)::float8,
			coalesce(extract(epoch FROM now() - min(scheduled_at)), 0)::float8
		FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled') GROUP BY queue, state`)
	if err != nil {
		return err
	}
	late := map[string]float64{}
	for name := range queues() {
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

// jobs measures the jobs that this process works on.
type jobs struct {
	river.MiddlewareDefaults
	now       func() time.Time
	durations *prometheus.HistogramVec
}

var _ rivertype.WorkerMiddleware = (*jobs)(nil)

func newJobs(now func() time.Time) *jobs {
	return &jobs{now: now, durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "holdpoint_job_duration_seconds",
		Help:    "Jobs that this process worked on, by kind and outcome: done, snoozed (it comes again), cancelled, failed (it is tried again).",
		Buckets: []float64{.005, .025, .1, .5, 1, 5, 15, 60, 300},
	}, []string{"kind", "outcome"})}
}

// Collectors are the metrics of jobs.
func (j *jobs) Collectors() []prometheus.Collector { return []prometheus.Collector{j.durations} }

// Work implements [rivertype.WorkerMiddleware].
func (j *jobs) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	began, outcome := j.now(), "failed" // also of a panic, which goes on
	defer func() { j.durations.WithLabelValues(job.Kind, outcome).Observe(j.now().Sub(began).Seconds()) }()
	err := work(ctx)
	var snoozed *rivertype.JobSnoozeError
	var cancelled *rivertype.JobCancelError
	switch {
	case err == nil:
		outcome = "done"
	case errors.As(err, &snoozed):
		outcome = "snoozed"
	case errors.As(err, &cancelled):
		outcome = "cancelled"
	}
	return err
}
