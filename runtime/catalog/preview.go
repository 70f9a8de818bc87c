package catalog

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Preview returns the catalog that a new conversation of an agent would have. It uses the last known definitions and asks no
// server. It returns [agent.ErrNotFound] if there is no such agent.
func (s *Service) Preview(ctx context.Context, agentID uuid.UUID) (*Catalog, []Problem, error) {
	set, err := s.agents.AssignedSkills(ctx, agentID)
	if err != nil {
		return nil, nil, err
	}
	set.Skills = withoutGated(set.Skills)
	builtin, err := builtinEntries(set)
	if err != nil {
		return nil, nil, err
	}
	listings := make([]skillListing, len(set.Skills))
	for i, skill := range set.Skills {
		if listings[i], err = s.readLastListing(ctx, skill); err != nil {
			return nil, nil, fmt.Errorf("preview catalog of agent %s: %w", agentID, err)
		}
	}
	c, problems := composeCatalog(listings, builtin)
	return c, problems, nil
}

// readLastListing reads the tools that a skill's server offered last.
func (s *Service) readLastListing(ctx context.Context, skill agent.AssignedSkill) (skillListing, error) {
	l := skillListing{skill: skill}
	if skill.Health.DiscoveredAt == nil {
		problem := newProblem(skill.Name, ProblemNotListed, "its server was not asked for its tools yet")
		l.problem = &problem
		return l, nil
	}
	var err error
	if l.pins, err = s.discovery.Statuses(ctx, skill.ID); err != nil {
		return l, err
	}
	var pins []tool.Pin
	for _, status := range l.pins {
		if status.Known {
			pins = append(pins, status.Current)
		}
	}
	definitions, err := s.discovery.Definitions(ctx, pins)
	for _, pin := range pins {
		l.listing.Tools = append(l.listing.Tools, definitions[pin])
	}
	return l, err
}
