package runtime

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const healthTimeout = 5 * time.Second

// mountHealth adds /healthz (the process answers), /readyz (and its database
// does) and /metrics.
func (rt *Runtime) mountHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "ok") // the client may be gone
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		if err := rt.DB.Pool().Ping(ctx); err != nil {
			rt.Logger.Warn("not ready", "error", err)
			http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newGauges(rt))
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
}

// gauges are read when they are asked for.
type gauges struct {
	rt                    *Runtime
	pending, conns, waits *prometheus.Desc
}

func newGauges(rt *Runtime) gauges {
	return gauges{
		rt:      rt,
		pending: prometheus.NewDesc("holdpoint_approvals_pending", "Parked calls that wait for a decision, in all processes.", nil, nil),
		conns:   prometheus.NewDesc("holdpoint_database_connections", "Connections of this process's pool.", []string{"state"}, nil),
		waits:   prometheus.NewDesc("holdpoint_database_acquire_wait_seconds_total", "Time spent waiting for a connection.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- g.pending
	ch <- g.conns
	ch <- g.waits
}

// Collect implements [prometheus.Collector].
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	stat := g.rt.DB.Pool().Stat()
	ch <- prometheus.MustNewConstMetric(g.conns, prometheus.GaugeValue, float64(stat.AcquiredConns()), "in_use")
	ch <- prometheus.MustNewConstMetric(g.conns, prometheus.GaugeValue, float64(stat.IdleConns()), "idle")
	ch <- prometheus.MustNewConstMetric(g.waits, prometheus.CounterValue, stat.AcquireDuration().Seconds())
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	pulse, err := g.rt.Calls.Pulse(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(g.pending, err)
		return
	}
	ch <- prometheus.MustNewConstMetric(g.pending, prometheus.GaugeValue, float64(pulse.Pending))
}
