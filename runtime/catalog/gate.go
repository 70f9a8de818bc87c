package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// withoutGated returns the skills whose calls Holdpoint sends. Conversations do not offer the others: their callers execute the calls.
func withoutGated(skills []agent.AssignedSkill) []agent.AssignedSkill {
	isGated := func(a agent.AssignedSkill) bool { return a.Transport == tool.Gate }
	if !slices.ContainsFunc(skills, isGated) {
		return skills
	}
	return slices.DeleteFunc(slices.Clone(skills), isGated)
}

// FindGated returns the entry of a tool whose calls the caller executes itself: one of a skill of the agent with the transport gate. A tool
// that the skill does not have is registered. Without a name, it is the agent's only skill for gateways: one without a host. Errors: agent.ErrNotFound, tool.ErrToolName, tool.ErrTooManyTools.
func (s *Service) FindGated(ctx context.Context, agentID uuid.UUID, skillName, toolName string) (*Entry, error) {
	assigned, err := s.assignedSkills(ctx, agentID)
	if err != nil {
		return nil, err
	}
	fits := func(a agent.AssignedSkill) bool {
		return a.Transport == tool.Gate && (a.Name == skillName || skillName == "" && a.Host == "")
	}
	i := slices.IndexFunc(assigned, fits)
	if i < 0 || skillName == "" && slices.ContainsFunc(assigned[i+1:], fits) || !assigned[i].AllowsTool(toolName) {
		return nil, fmt.Errorf("tool %q of skill %q: %w", toolName, skillName, agent.ErrNotFound)
	}
	skill, server, err := s.agents.Skill(ctx, assigned[i].ID)
	if err == nil {
		_, err = s.discovery.List(ctx, server, skill.TrustNewTools) // the host's built-in tools come first
	}
	if errors.Is(err, tool.ErrSuperseded) {
		if skill, server, err = s.agents.FreshSkill(ctx, assigned[i].ID); err == nil {
			_, err = s.discovery.List(ctx, server, skill.TrustNewTools)
		}
	}
	if err != nil {
		return nil, err
	}
	status, err := s.discovery.Status(ctx, skill.ID, toolName)
	if err == nil && !status.Known {
		if err = s.discovery.Register(ctx, server, skill.TrustNewTools, agentID, toolName); err == nil {
			status, err = s.discovery.Status(ctx, skill.ID, toolName)
		}
	}
	if err != nil {
		return nil, err
	}
	definition, err := s.discovery.Definition(ctx, status.Current)
	return &Entry{tool.ExposedName(assigned[i].Prefix, toolName), skill.ID, skill.Name, skill.Revision, definition}, err
}
