// Package shell renders pages, explains errors, reads requests and forms, and looks up people, for all handlers of the
// dashboard. It knows no page of an audience; those packages import it, never the reverse.
package shell

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Explainer turns a known error into a status and a notice. It reports false for any other error.
type Explainer func(r *http.Request, err error) (status int, n view.Notice, ok bool)

// Config configures a [Shell]. All fields are required.
type Config struct {
	Calls    *call.Service // for the number of pending approvals, which every page shows
	History  *history.Service
	Identity *identity.Service
	Assets   view.Assets
	Explain  []Explainer // asked in this order
	Logger   *slog.Logger
	Now      func() time.Time
}

// Shell answers requests with pages. Handlers embed it.
type Shell struct {
	Log *slog.Logger
	Now func() time.Time

	calls     *call.Service
	history   *history.Service
	identity  *identity.Service
	assetURLs view.Assets
	explain   []Explainer
	zippers   sync.Pool // of *gzip.Writer
}

// New returns a Shell.
func New(cfg Config) *Shell {
	return &Shell{
		Log: cfg.Logger, Now: cfg.Now, calls: cfg.Calls, history: cfg.History, identity: cfg.Identity, assetURLs: cfg.Assets, explain: cfg.Explain,
	}
}
