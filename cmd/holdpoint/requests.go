package main

import (
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdpoint/holdpoint/internal/clientaddr"
)

// requests counts the requests of clients and logs them at debug level.
type requests struct {
	log    *slog.Logger
	total  *prometheus.CounterVec
	flying prometheus.Gauge
}

func newRequests(log *slog.Logger) *requests {
	return &requests{
		log: log,
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_http_requests_total", Help: "Answered requests, by route and status. Requests without a route have an empty one.",
		}, []string{"route", "code"}),
		flying: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "holdpoint_http_requests_in_flight", Help: "Requests without a complete answer, among them responses that are held open.",
		}),
	}
}

// collectors returns the metrics, and one that has the version.
func (q *requests) collectors(version string) []prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "holdpoint_build_info", Help: "Always 1. The labels are the version of this process and of Go.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	build.Set(1)
	return []prometheus.Collector{q.total, q.flying, build}
}

// observe counts and logs by the route, because paths and queries may hold secrets.
func (q *requests) observe(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, s := time.Now(), &statusWriter{ResponseWriter: w, status: http.StatusOK}
		q.flying.Inc()
		defer func() {
			q.flying.Dec()
			q.total.WithLabelValues(r.Pattern, strconv.Itoa(s.status)).Inc()
			q.log.Debug("request", "method", r.Method, "route", r.Pattern, "status", s.status, "took", time.Since(began).String(),
				"address", clientaddr.FromContext(r.Context()).String(), "user_agent", r.UserAgent())
		}()
		mux.ServeHTTP(s, r)
	})
}

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter

	status int
	wrote  bool
}

// WriteHeader implements [http.ResponseWriter].
func (s *statusWriter) WriteHeader(status int) {
	if !s.wrote && status >= http.StatusOK {
		s.status, s.wrote = status, true
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (s *statusWriter) Write(p []byte) (int, error) {
	s.wrote = true
	return s.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher].
func (s *statusWriter) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() } // the next write fails, too

// Unwrap lets [http.ResponseController] reach the connection.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
