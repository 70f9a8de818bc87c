package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Offer is a skill as one agent has it on somebody's behalf, for what it has besides tools.
type Offer struct {
	Skill  *Skill
	Server tool.Server // as the principal reaches it, secrets included
	Prefix string      // of the names of its tools and prompts; "": none
	// Open: all its resources and prompts are the agent's, and not only what calls returned. They are where the skill is
	// auto-approved or says `resources: pass`, and the agent has all its tools.
	Open bool
	// Problem, when set, is why its server cannot be asked.
	Problem *Problem
}

// Offers returns the skills of an agent, in the order of their names: from memory, as Authenticate. ErrNotFound.
func (s *Service) Offers(ctx context.Context, agentID, principal uuid.UUID) ([]Offer, error) {
	assigned, err := s.assigned.Get(ctx, agentID, func(ctx context.Context) ([]assignedSkill, error) {
		_, assigned, err := s.assignedSkills(ctx, agentID)
		return assigned, err
	})
	if err != nil {
		return nil, err
	}
	offers := make([]Offer, 0, len(assigned))
	for _, a := range assigned {
		skill, server, err := s.Skill(ctx, a.ID)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("offers of agent %s: %w", agentID, err)
		}
		o := Offer{
			Skill: skill, Server: server.For(principal), Prefix: a.prefix,
			Open: a.only == nil && (skill.AutoApprove || skill.Resources == ResourcesPass),
		}
		if server.PerUser && principal == uuid.Nil {
			o.Problem = &Problem{Skill: skill.Name, Kind: ProblemNoPrincipal, Error: errNoPrincipal.Error()}
		}
		offers = append(offers, o)
	}
	return offers, nil
}

// ProblemOf tells why a skill's server could not be asked.
func ProblemOf(skill string, failure *tool.Failure) Problem {
	return Problem{Skill: skill, Kind: problemKind(failure), Error: plain(failure.Message)}
}
