package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// RefusedSkills lists the skills of transport stdio that a policy refuses, by name.
func RefusedSkills(ctx context.Context, db postgres.Querier, policy tool.StdioPolicy) ([]tool.RefusedSkill, error) {
	rows, _ := db.Query(ctx, `SELECT s.name, s.settings FROM skills s
		WHERE s.deleted_at IS NULL AND s.transport = $1 ORDER BY s.name`, string(tool.Stdio))
	var refused []tool.RefusedSkill
	var name string
	var settings skillSettings
	_, err := pgx.ForEachRow(rows, []any{&name, &settings}, func() error {
		skill := tool.RefusedSkill{Name: name}
		var reasons []string
		for _, refusal := range policy.Check(settings.Command, settings.RunAs, settings.Paths, settings.EnvNames) {
			reasons = append(reasons, refusal.Error())
			if refusal.Flag != "" {
				skill.Flags = append(skill.Flags, refusal.Flag)
			}
		}
		if len(reasons) > 0 {
			skill.Reason = strings.Join(reasons, "; ")
			refused = append(refused, skill)
		}
		settings = skillSettings{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list skills that run programs: %w", err)
	}
	return refused, nil
}
