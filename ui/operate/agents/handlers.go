// Package agents owns the pages about agents: their settings, keys, assigned skills and callbacks.
package agents

import (
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/shell"
)

// Config is required in full.
type Config struct {
	Shell     *shell.Shell
	Agents    *agent.Service
	Calls     *call.Service
	History   *history.Service
	Callbacks *callback.Service
	Catalog   *catalog.Service
	Discovery *tool.Discovery
	Suggest   *shell.Suggester
	PublicURL string
}

// Handlers answer the requests about agents.
type Handlers struct {
	Agents      *Handler
	Assignments *AssignmentHandler
	Callbacks   *CallbackHandler
}

// New makes the handlers.
func New(cfg Config) *Handlers {
	agents := &Handler{
		Shell: cfg.Shell, agents: cfg.Agents, calls: cfg.Calls, history: cfg.History, callbacks: cfg.Callbacks, catalog: cfg.Catalog, suggest: cfg.Suggest,
		publicURL: cfg.PublicURL,
	}
	return &Handlers{
		Agents:      agents,
		Assignments: &AssignmentHandler{Shell: cfg.Shell, agentPages: agents, agents: cfg.Agents, discovery: cfg.Discovery},
		Callbacks:   &CallbackHandler{Shell: cfg.Shell, agentPages: agents, calls: cfg.Calls, callbacks: cfg.Callbacks},
	}
}

// Handler shows and changes agents and their keys.
type Handler struct {
	*shell.Shell

	agents    *agent.Service
	calls     *call.Service
	history   *history.Service
	callbacks *callback.Service
	catalog   *catalog.Service
	suggest   *shell.Suggester
	publicURL string
}

// AssignmentHandler assigns skills to agents.
type AssignmentHandler struct {
	*shell.Shell

	agentPages *Handler
	agents     *agent.Service
	discovery  *tool.Discovery
}

// CallbackHandler shows and changes the callbacks of agents.
type CallbackHandler struct {
	*shell.Shell

	agentPages *Handler
	calls      *call.Service
	callbacks  *callback.Service
}
