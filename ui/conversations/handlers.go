// Package conversations owns the pages about agents' conversations: the list, the calls of a conversation, and the transcript and forms of
// those that Holdpoint runs itself.
package conversations

import (
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/ui/shell"
)

// Config has the dependencies of the handlers. All are required.
type Config struct {
	Shell    *shell.Shell
	Calls    *call.Service
	History  *history.Service
	Agents   *agent.Service
	Catalog  *catalog.Service
	Converse *converse.Service
	Identity *identity.Service
}

// Handlers answer requests about conversations.
type Handlers struct {
	List  *Handler
	Talks *TalkHandler
}

// New returns the handlers.
func New(cfg Config) *Handlers {
	read := &reader{
		Shell: cfg.Shell, calls: cfg.Calls, history: cfg.History, agents: cfg.Agents, catalog: cfg.Catalog, converse: cfg.Converse,
		facts: &shell.CallFactsReader{Shell: cfg.Shell},
	}
	talks := &TalkHandler{Shell: cfg.Shell, reader: read, calls: cfg.Calls, history: cfg.History, agents: cfg.Agents, converse: cfg.Converse}
	return &Handlers{
		List: &Handler{
			Shell: cfg.Shell, reader: read, talks: talks, calls: cfg.Calls, history: cfg.History, agents: cfg.Agents, catalog: cfg.Catalog, identity: cfg.Identity,
			suggest: &shell.Suggester{Agents: cfg.Agents, Identity: cfg.Identity},
		},
		Talks: talks,
	}
}

// reader reads and presents conversations and their calls.
type reader struct {
	*shell.Shell

	calls    *call.Service
	history  *history.Service
	agents   *agent.Service
	catalog  *catalog.Service
	converse *converse.Service
	facts    *shell.CallFactsReader
}

// Handler lists conversations and shows one.
type Handler struct {
	*shell.Shell

	reader   *reader
	talks    *TalkHandler
	calls    *call.Service
	history  *history.Service
	agents   *agent.Service
	catalog  *catalog.Service
	identity *identity.Service
	suggest  *shell.Suggester
}

// TalkHandler shows the conversations that Holdpoint runs itself, and accepts messages for them.
type TalkHandler struct {
	*shell.Shell

	reader   *reader
	calls    *call.Service
	history  *history.Service
	agents   *agent.Service
	converse *converse.Service
}
