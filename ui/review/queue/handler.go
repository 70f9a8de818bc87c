// Package queue owns the dashboard's first page: the calls and questions that wait for a reviewer, and the calls that wait
// for a connection. It also owns the saved views and the settings of its readers (tables queue_views and queue_settings).
package queue

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/live"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ConnectionResolver tells who can connect the skill that a call waits for.
type ConnectionResolver interface {
	Resolver(ctx context.Context, access identity.Access, c *call.Call, names map[uuid.UUID]string) (view.Resolver, error)
}

// Config is required in full.
type Config struct {
	Shell       *shell.Shell
	Calls       *call.Service
	Agents      *agent.Service
	Identity    *identity.Service
	Discovery   *tool.Discovery
	Presence    *live.Presence
	Connections ConnectionResolver
	Pool        *pgxpool.Pool // stores views and settings
}

// Handler shows the queue.
type Handler struct {
	*shell.Shell

	calls       *call.Service
	agents      *agent.Service
	identity    *identity.Service
	discovery   *tool.Discovery
	presence    *live.Presence
	viewers     *shell.ViewerReader
	connections ConnectionResolver
	queues      live.Shared[*list]
	asked       live.Shared[bool] // whether a pending approval asks people
	pool        *pgxpool.Pool
}

// New makes the handler.
func New(cfg Config) *Handler {
	return &Handler{
		Shell: cfg.Shell, calls: cfg.Calls, agents: cfg.Agents, identity: cfg.Identity, discovery: cfg.Discovery, presence: cfg.Presence, connections: cfg.Connections, pool: cfg.Pool,
		viewers: &shell.ViewerReader{Shell: cfg.Shell, Presence: cfg.Presence},
	}
}
