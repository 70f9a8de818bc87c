package operate

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

type guardHandlers struct {
	*rest.Directory

	guards *guarded.Service
}

// Guard is a coding agent on a machine whose built-in tools ask Holdpoint.
type Guard struct {
	ID           uuid.UUID  `json:"id" format:"uuid"`
	Agent        string     `json:"agent"`
	Host         string     `json:"host" doc:"The coding agent, such as claude-code."`
	Machine      string     `json:"machine" doc:"The machine's name, as it says."`
	Scope        string     `json:"scope" enum:"machine,user" doc:"machine: settings that users of the machine cannot change; user: those of one user."`
	State        string     `json:"state" enum:"unwatched,holds,broken,silent,removed" doc:"unwatched: nothing reports about it; holds: the last report found the hook; broken: it did not; silent: the reports ended; removed: a command removed it."`
	StateAt      time.Time  `json:"state_at" doc:"Since when."`
	Problems     []string   `json:"problems" nullable:"false" doc:"Why it does not hold."`
	Files        []string   `json:"files" nullable:"false" doc:"The files of settings that have the hook."`
	Version      string     `json:"version" doc:"Of Holdpoint on the machine."`
	RegisteredAt time.Time  `json:"registered_at"`
	SeenAt       time.Time  `json:"seen_at" doc:"The last question of the hook or report of the watcher."`
	AskedAt      *time.Time `json:"asked_at" doc:"The last question of the hook, to a quarter of a minute."`
	WatchedAt    *time.Time `json:"watched_at" doc:"The last report of the watcher."`
	Bypasses     int64      `json:"bypasses" doc:"Calls that the coding agent ran without a release."`
	BypassedAt   *time.Time `json:"bypassed_at" doc:"The last of them."`
	BypassTool   *string    `json:"bypass_tool" doc:"The tool of the last of them."`
}

type listGuardsInput struct {
	Agent string `query:"agent" doc:"Only guards of this agent."`
}

// listGuards has no pages: there are few guards.
func (h *guardHandlers) listGuards(ctx context.Context, input *listGuardsInput) (*rest.ListOutput[Guard], error) {
	agentID := uuid.Nil
	if input.Agent != "" {
		if err := rest.CheckStorable("query.agent", input.Agent); err != nil {
			return nil, err
		}
		var err error
		if agentID, err = h.FindAgentID(ctx, input.Agent); err != nil {
			return nil, err
		}
	}
	guards, err := h.guards.List(ctx, agentID)
	if err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(guards))
	for i := range guards {
		ids[i] = guards[i].AgentID
	}
	names, err := h.Agents.Names(ctx, ids)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(guards, "", func(g guarded.Guard) Guard {
		return Guard{
			ID: g.ID, Agent: names[g.AgentID], Host: g.Host, Machine: g.Machine, Scope: g.Scope, State: string(g.State), StateAt: g.StateAt.UTC(),
			Problems: g.Problems, Files: g.Files, Version: g.Version, RegisteredAt: g.RegisteredAt.UTC(), SeenAt: g.SeenAt().UTC(),
			AskedAt: rest.UTCOrNull(g.AskedAt), WatchedAt: rest.UTCOrNull(g.WatchedAt),
			Bypasses: g.Bypasses, BypassedAt: rest.UTCOrNull(g.BypassedAt), BypassTool: rest.OrNull(g.BypassTool),
		}
	}), nil
}

func (h *guardHandlers) forgetGuard(ctx context.Context, input *rest.ByID) (*rest.None, error) {
	id, err := rest.ParseID("guard", input.ID)
	if err != nil {
		return nil, err
	}
	return nil, h.guards.Forget(ctx, rest.CallerOf(ctx).Actor(), id)
}
