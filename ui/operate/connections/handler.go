// Package connections owns the pages about OAuth connections to the servers of skills: who is connected, connecting and
// disconnecting.
package connections

import (
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/trial"
	"github.com/holdpoint/holdpoint/ui/shell"
)

// Config is required in full.
type Config struct {
	Shell    *shell.Shell
	Calls    *call.Service
	Agents   *agent.Service
	Trials   *trial.Service
	Identity *identity.Service
	OAuth    *oauthclient.Service
}

// Handler shows, makes and ends connections.
type Handler struct {
	*shell.Shell

	calls    *call.Service
	agents   *agent.Service
	trials   *trial.Service
	identity *identity.Service
	oauth    *oauthclient.Service
}

// New makes the handler.
func New(cfg Config) *Handler {
	return &Handler{Shell: cfg.Shell, calls: cfg.Calls, agents: cfg.Agents, trials: cfg.Trials, identity: cfg.Identity, oauth: cfg.OAuth}
}
