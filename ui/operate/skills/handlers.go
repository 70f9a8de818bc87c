// Package skills owns the pages about skills: their settings, health and tools, and the import of HTTP APIs.
package skills

import (
	"time"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/operate/connections"
	"github.com/holdpoint/holdpoint/ui/shell"
)

// Config has the dependencies of the handlers. All but MayRunPrograms are required.
type Config struct {
	Shell       *shell.Shell
	Agents      *agent.Service
	Trials      *trial.Service
	Calls       *call.Service
	Discovery   *tool.Discovery
	Connections *connections.Handler
	Login       *login.Login
	ProofAge    time.Duration // how long a sign-in counts as recent for the settings of tools of high risk
	// MayRunPrograms lets operators set the programs that this server runs.
	MayRunPrograms bool
}

// Handlers answer requests about skills.
type Handlers struct {
	Skills  *Handler
	Tools   *ToolHandler
	Imports *ImportHandler
}

// New returns the handlers.
func New(cfg Config) *Handlers {
	skills := &Handler{
		Shell: cfg.Shell, agents: cfg.Agents, trials: cfg.Trials, calls: cfg.Calls, discovery: cfg.Discovery, connections: cfg.Connections, mayRunPrograms: cfg.MayRunPrograms,
	}
	return &Handlers{
		Skills: skills,
		Tools: &ToolHandler{
			Shell: cfg.Shell, skillPages: skills, agents: cfg.Agents, calls: cfg.Calls, discovery: cfg.Discovery, login: cfg.Login, proofAge: cfg.ProofAge,
		},
		Imports: &ImportHandler{Shell: cfg.Shell, agents: cfg.Agents, trials: cfg.Trials, calls: cfg.Calls},
	}
}

// Handler shows and changes skills.
type Handler struct {
	*shell.Shell

	agents         *agent.Service
	trials         *trial.Service
	calls          *call.Service
	discovery      *tool.Discovery
	connections    *connections.Handler
	mayRunPrograms bool
}

// ToolHandler shows and changes the tools of skills.
type ToolHandler struct {
	*shell.Shell

	skillPages *Handler
	agents     *agent.Service
	calls      *call.Service
	discovery  *tool.Discovery
	login      *login.Login
	proofAge   time.Duration
}

// ImportHandler registers skills of HTTP APIs step by step.
type ImportHandler struct {
	*shell.Shell

	agents   *agent.Service
	trials   *trial.Service
	calls    *call.Service
	examined Examined
}
