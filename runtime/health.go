package runtime

import (
	"context"
	"fmt"
	"net/http"
	"time"

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
	mux.Handle("GET /metrics", promhttp.HandlerFor(rt.registry(), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
}
