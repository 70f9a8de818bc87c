// Package guards owns the page about coding agents on machines whose built-in tools ask Holdpoint.
package guards

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Config is required in full.
type Config struct {
	Shell  *shell.Shell
	Calls  *call.Service
	Agents *agent.Service
	Guards *guarded.Service
}

// Handler shows guards and lets operators forget them.
type Handler struct {
	*shell.Shell

	calls  *call.Service
	agents *agent.Service
	guards *guarded.Service
}

// New makes the handler.
func New(cfg Config) *Handler {
	return &Handler{Shell: cfg.Shell, calls: cfg.Calls, agents: cfg.Agents, guards: cfg.Guards}
}

// ShowGuards lists all guards, those with an alert first.
func (h *Handler) ShowGuards(w http.ResponseWriter, r *http.Request) {
	found, err := h.guards.List(r.Context(), uuid.Nil)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	ids := make([]uuid.UUID, len(found))
	for i := range found {
		ids[i] = found[i].AgentID
	}
	names, err := h.agents.Names(r.Context(), ids)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	list := make([]Guard, len(found))
	for i := range found {
		list[i] = presentGuard(&found[i], names)
		if access.Has(identity.Operator) {
			list[i].Forget = present.GuardsURL + "/" + found[i].ID.String() + "/forget"
		}
	}
	h.Render(w, r, http.StatusOK, ListPage(h.Page(r, view.SectionAgents, text.GuardsTitle(), pulse), list))
}

func presentGuard(g *guarded.Guard, names map[uuid.UUID]string) Guard {
	shown := Guard{Host: g.Host, Machine: g.Machine, State: stateBadge(g.State)}
	for _, problem := range g.Problems {
		shown.Problems = append(shown.Problems, hostile.Fold(problem, hostile.Limits{}))
	}
	scope := text.GuardsScopeUser()
	if g.Scope == "machine" {
		scope = text.GuardsScopeMachine()
	}
	shown.Facts = []view.Fact{
		{Name: text.GuardsAgent(), Text: text.Literal(names[g.AgentID]), URL: present.AgentURL(g.AgentID)},
		{Name: text.GuardsSince(), Time: &g.StateAt},
		{Name: text.GuardsSeen(), Time: new(g.SeenAt())},
		{Name: text.GuardsScope(), Text: scope},
	}
	if g.AskedAt != nil {
		shown.Facts = append(shown.Facts, view.Fact{Name: text.GuardsAsked(), Time: g.AskedAt})
	}
	if g.WatchedAt != nil {
		shown.Facts = append(shown.Facts, view.Fact{Name: text.GuardsWatched(), Time: g.WatchedAt})
	}
	if g.BypassedAt != nil {
		shown.Bypassed = text.GuardsBypassed(int(g.Bypasses), view.Text(g.BypassTool), view.Clock(*g.BypassedAt))
	}
	for _, file := range g.Files {
		shown.Facts = append(shown.Facts, view.Fact{Name: text.GuardsFile(), Text: text.Literal(file), Code: true})
	}
	shown.Facts = append(shown.Facts, view.Fact{Name: text.GuardsVersion(), Text: text.Literal(g.Version)}, view.Fact{Name: text.GuardsRegistered(), Time: &g.RegisteredAt})
	return shown
}

func stateBadge(state guarded.State) view.Badge {
	switch state {
	case guarded.Holds:
		return view.Badge{Word: text.GuardsHolds(), Icon: "good", Level: view.Good}
	case guarded.Broken:
		return view.Badge{Word: text.GuardsBroken(), Icon: "failed", Level: view.Danger}
	case guarded.Silent:
		return view.Badge{Word: text.GuardsSilent(), Icon: "stale", Level: view.Danger}
	case guarded.Removed:
		return view.Badge{Word: text.GuardsRemoved(), Icon: "rejected", Level: view.Danger}
	case guarded.Unwatched:
	}
	return view.Badge{Word: text.GuardsUnwatched(), Icon: "unknown", Level: view.Warn}
}

// ForgetGuard deletes a guard.
func (h *Handler) ForgetGuard(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err == nil {
		err = h.guards.Forget(r.Context(), shell.Actor(r), id)
	} else {
		err = guarded.ErrNotFound
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, present.GuardsURL, shell.GuardForgotten)
}
