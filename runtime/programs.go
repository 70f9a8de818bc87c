package runtime

import (
	"context"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// RefusedSkills lists the registered skills that may not run their programs under a policy, by name. No secret is read.
func RefusedSkills(ctx context.Context, db *postgres.DB, policy tool.StdioPolicy) ([]tool.RefusedSkill, error) {
	return agent.RefusedSkills(ctx, db.Pool(), policy)
}

// logRefusedSkills says at the start which skills may not run their programs, and which flags allow them.
func (rt *Runtime) logRefusedSkills(ctx context.Context) {
	refused, err := RefusedSkills(ctx, rt.DB, rt.Stdio)
	if err != nil {
		rt.Logger.Warn("list skills that may not run their programs", "error", err)
	}
	for _, skill := range refused {
		rt.Logger.Warn("skill is refused: its program may not be run", "skill", skill.Name, "reason", skill.Reason, "flags", skill.Flags)
	}
}
