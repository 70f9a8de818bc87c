package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Offer is a skill that an agent may ask for resources and prompts on a principal's behalf.
type Offer struct {
	Skill  *agent.Skill
	Server tool.Server // as the principal reaches it, secrets included
	Prefix string      // of the names of its tools and prompts; "": none
	// Open is true if the agent may use all resources and prompts of the skill, and not only those that calls returned. The
	// skill is then auto-approved or has `resources: pass`, and all its tools are assigned.
	Open bool
	// Problem says why the server cannot be asked. Nil: it can.
	Problem *Problem
}

// assignedSkills returns the skills of an agent, from the cache if possible.
func (s *Service) assignedSkills(ctx context.Context, agentID uuid.UUID) ([]agent.AssignedSkill, error) {
	return s.skills.Get(ctx, agentID, func(ctx context.Context) ([]agent.AssignedSkill, error) {
		set, err := s.agents.AssignedSkills(ctx, agentID)
		return set.Skills, err
	})
}

// Offers returns the skills of an agent by name, from the cache if possible. It returns [agent.ErrNotFound] if there is no such
// agent.
func (s *Service) Offers(ctx context.Context, agentID, principal uuid.UUID) ([]Offer, error) {
	assigned, err := s.assignedSkills(ctx, agentID)
	if err != nil {
		return nil, err
	}
	offers := make([]Offer, 0, len(assigned))
	for _, a := range withoutGated(assigned) {
		skill, server, err := s.agents.Skill(ctx, a.ID)
		if errors.Is(err, agent.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("offers of agent %s: %w", agentID, err)
		}
		o := Offer{
			Skill: skill, Server: server.For(principal), Prefix: a.Prefix,
			Open: a.AllowedTools == nil && (skill.AutoApprove || skill.Resources == agent.ResourcesPass),
		}
		if server.PerUser && principal == uuid.Nil {
			o.Problem = &Problem{Skill: skill.Name, Kind: ProblemNoPrincipal, Error: errNoPrincipal.Error()}
		}
		offers = append(offers, o)
	}
	return offers, nil
}
