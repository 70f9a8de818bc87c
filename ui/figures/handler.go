// Package figures owns the pages of figures: insights into decisions and outcomes, and the usage of tools.
package figures

import (
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/ui/shell"
)

// Handler shows figures. All fields are required.
type Handler struct {
	*shell.Shell

	calls   *call.Service
	agents  *agent.Service
	figures *figures.Service
}

// New returns the handler.
func New(sh *shell.Shell, calls *call.Service, agents *agent.Service, counted *figures.Service) *Handler {
	return &Handler{Shell: sh, calls: calls, agents: agents, figures: counted}
}
