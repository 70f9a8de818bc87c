// Package history owns the pages about the past: the history of calls, the audit log, and the exports of both.
package history

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/ui/shell"
)

// Exports begin exports: once one is recorded and begun, the handler sends it. Package api owns their shapes.
type Exports interface {
	ExportCalls(ctx context.Context, by audit.Actor, f history.Filter, format string) (http.Handler, error)
	ExportAudit(ctx context.Context, by audit.Actor, f audit.Filter) (http.Handler, error)
}

// Config is required in full.
type Config struct {
	Shell    *shell.Shell
	Calls    *call.Service
	History  *history.Service
	Agents   *agent.Service
	Identity *identity.Service
	Exports  Exports
	Pool     *pgxpool.Pool // for the audit log
}

// Handlers answer the requests about the past.
type Handlers struct {
	Calls *CallsHandler
	Audit *AuditHandler
}

// New makes the handlers.
func New(cfg Config) *Handlers {
	suggest, export := &shell.Suggester{Agents: cfg.Agents, Identity: cfg.Identity}, &exporter{cfg.Shell}
	return &Handlers{
		Calls: &CallsHandler{
			Shell: cfg.Shell, calls: cfg.Calls, history: cfg.History, identity: cfg.Identity, exports: cfg.Exports, exporter: export, suggest: suggest,
			facts: &shell.CallFactsReader{Shell: cfg.Shell},
		},
		Audit: &AuditHandler{
			Shell: cfg.Shell, calls: cfg.Calls, history: cfg.History, agents: cfg.Agents, identity: cfg.Identity, exports: cfg.Exports, exporter: export, suggest: suggest,
			pool: cfg.Pool,
		},
	}
}

// CallsHandler shows and exports calls.
type CallsHandler struct {
	*shell.Shell

	calls    *call.Service
	history  *history.Service
	identity *identity.Service
	exports  Exports
	exporter *exporter
	facts    *shell.CallFactsReader
	suggest  *shell.Suggester
}

// AuditHandler shows and exports the audit log.
type AuditHandler struct {
	*shell.Shell

	calls    *call.Service
	history  *history.Service
	agents   *agent.Service
	identity *identity.Service
	exports  Exports
	exporter *exporter
	pool     *pgxpool.Pool
	suggest  *shell.Suggester
}

// exporter sends exports.
type exporter struct{ *shell.Shell }
