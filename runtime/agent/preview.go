package agent

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// ProblemNotListed is the kind of a problem of [Service.Preview]: nobody asked the skill's server yet.
const ProblemNotListed = "not_listed"

// Preview is what a new conversation of an agent would be offered, by what is known of its skills: no server
// is asked. ErrNotFound.
func (s *Service) Preview(ctx context.Context, agentID uuid.UUID) (*Catalogue, []Problem, error) {
	self, skills, err := s.assignedSkills(ctx, agentID)
	if err != nil {
		return nil, nil, err
	}
	own, err := self.own()
	if err != nil {
		return nil, nil, err
	}
	offers := make([]offer, len(skills))
	for i, skill := range skills {
		if offers[i], err = s.known(ctx, skill); err != nil {
			return nil, nil, fmt.Errorf("preview catalogue of agent %s: %w", agentID, err)
		}
	}
	catalogue, problems := compose(offers, own)
	return catalogue, problems, nil
}

// known is what a skill's server offered when it was asked last.
func (s *Service) known(ctx context.Context, skill assignedSkill) (offer, error) {
	o := offer{assigned: skill}
	if skill.Health.DiscoveredAt == nil {
		o.problem = &Problem{Skill: skill.Name, Kind: ProblemNotListed, Error: "its server was not asked for its tools yet"}
		return o, nil
	}
	var err error
	if o.pins, err = s.discovery.Statuses(ctx, skill.ID); err != nil {
		return o, err
	}
	var pins []tool.Pin
	for _, status := range o.pins {
		if status.Known {
			pins = append(pins, status.Current)
		}
	}
	definitions, err := s.discovery.Definitions(ctx, pins)
	for _, pin := range pins {
		o.listing.Tools = append(o.listing.Tools, definitions[pin])
	}
	return o, err
}

// KeyCounts tells how many valid keys agents have; those that have none are left out.
func (s *Service) KeyCounts(ctx context.Context) (map[uuid.UUID]int, error) {
	rows, err := s.pool.Query(ctx, `SELECT agent_id, count(*) FROM agent_keys WHERE `+keyValid+` GROUP BY agent_id`)
	if err != nil {
		return nil, fmt.Errorf("count keys: %w", err)
	}
	counts := map[uuid.UUID]int{}
	var id uuid.UUID
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error { counts[id] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count keys: %w", err)
	}
	return counts, nil
}
