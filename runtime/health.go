package runtime

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	healthTimeout = 5 * time.Second
	// stallLimit is how long work with the database may make no progress before the process is not ready.
	stallLimit = 10 * time.Second
)

// stalled names the work with the database that makes no progress.
func (rt *Runtime) stalled() []string {
	stalled := rt.Calls.Stalled(stallLimit)
	if rt.DB.ListenerSilence() > stallLimit {
		stalled = append(stalled, "listening for notifications")
	}
	return stalled
}

// mountHealth adds /healthz (the process answers), /readyz (its database answers and work with it goes
// on).
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
		if stalled := rt.stalled(); len(stalled) > 0 {
			text := fmt.Sprintf("no progress for %s: %s", stallLimit, strings.Join(stalled, ", "))
			rt.Logger.Warn("not ready", "error", text)
			http.Error(w, text, http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
}

// Metrics shows the metrics of this process to Prometheus. Who may read them is the caller's to decide.
func (rt *Runtime) Metrics() http.Handler {
	return promhttp.HandlerFor(rt.registry(), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
