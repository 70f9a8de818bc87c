package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxParallelListings bounds how many skills are listed at the same time for one conversation.
const maxParallelListings = 32

// buildCatalog lists all skills of an agent in parallel. It returns the agent's revision, the catalog and the problems. A skill
// that cannot be listed is a problem, not an error.
func (s *Service) buildCatalog(ctx context.Context, agentID, principal uuid.UUID) (revision int64, c *Catalog, problems []Problem, err error) {
	set, err := s.agents.AssignedSkills(ctx, agentID)
	if err != nil {
		return 0, nil, nil, err
	}
	set.Skills = withoutGated(set.Skills)
	builtin, err := builtinEntries(set)
	if err != nil {
		return 0, nil, nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.listTimeout)
	defer cancel()
	ids := make([]uuid.UUID, len(set.Skills))
	for i, skill := range set.Skills {
		ids[i] = skill.ID
	}
	s.discovery.StartStatuses(ctx, ids)
	listings := make([]skillListing, len(set.Skills))
	slots := make(chan struct{}, maxParallelListings)
	var group sync.WaitGroup
	for i, skill := range set.Skills {
		group.Go(func() {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				listings[i] = s.listSkill(bounded, skill, principal)
			case <-bounded.Done():
				listings[i] = s.reportUnlisted(bounded, skill, bounded.Err())
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return 0, nil, nil, fmt.Errorf("list skills of agent %s: %w", agentID, err)
	}
	s.discovery.StartStatuses(ctx, ids) // listings that found changes dropped them
	for i := range listings {
		if l := &listings[i]; l.problem == nil {
			if l.pins, err = s.discovery.Statuses(ctx, l.skill.ID); err != nil {
				*l = s.reportUnlisted(ctx, l.skill, err)
			}
		}
	}
	c, problems = composeCatalog(listings, builtin)
	return set.Revision, c, problems, nil
}

// listSkill lists one skill. If an operator changes the skill meanwhile, it is listed once more with the new settings.
func (s *Service) listSkill(ctx context.Context, skill agent.AssignedSkill, principal uuid.UUID) skillListing {
	server, err := skill.Server()
	var listing tool.Listing
	if err == nil {
		listing, err = s.listTools(ctx, skill.Skill, server, principal)
	}
	if errors.Is(err, tool.ErrSuperseded) {
		if fresh, server, freshErr := s.agents.FreshSkill(ctx, skill.ID); freshErr == nil {
			skill.Skill = fresh
			listing, err = s.listTools(ctx, fresh, server, principal)
		}
	}
	if err != nil {
		return s.reportUnlisted(ctx, skill, err)
	}
	return skillListing{skill: skill, listing: listing}
}

// listTools lists the tools of a skill's server. It waits a third of the time if there are accepted definitions to offer meanwhile. After a
// server gave no answer, no conversation waits for it until it has answered a listing in the background.
func (s *Service) listTools(ctx context.Context, skill *agent.Skill, server tool.Server, principal uuid.UUID) (tool.Listing, error) {
	if server = server.For(principal); server.PerUser && server.Principal == uuid.Nil {
		return tool.Listing{}, errNoPrincipal
	}
	key := listingKey{skill.ID, server.Revision, server.Principal}
	if since, ok := s.unanswered.Peek(key); ok {
		listing, err := s.discovery.ListCached(ctx, server, skill.TrustNewTools)
		if errors.Is(err, tool.ErrNotListed) || errors.Is(err, context.DeadlineExceeded) {
			return listing, errUnanswered
		}
		if err != nil || listing.At.After(since) { // not of a listing from before
			s.unanswered.DropIf(func(other listingKey) bool { return other == key })
		}
		return listing, err
	}
	patience := s.listTimeout
	if accepted, err := s.discovery.HasAccepted(ctx, skill.ID); err == nil && accepted {
		patience /= 3
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	listing, err := s.discovery.List(bounded, server, skill.TrustNewTools)
	if errors.Is(err, context.DeadlineExceeded) {
		s.unanswered.Put(key, s.now())
		err = errUnanswered
	}
	return listing, err
}

// reportUnlisted describes a skill that could not be listed. Internal errors are logged and not shown to the agent. If only a
// connection is missing, or the server does not answer, the tools that were accepted last stay in the catalog.
func (s *Service) reportUnlisted(ctx context.Context, skill agent.AssignedSkill, err error) skillListing {
	var failure *tool.Failure
	problem := Problem{Skill: skill.Name, Kind: ProblemInternal, Error: "its tools could not be listed"}
	usesAccepted := false
	switch {
	case errors.As(err, &failure):
		problem = NewFailureProblem(skill.Name, failure)
		usesAccepted = problem.Kind == ProblemNeedsConnection
	case errors.Is(err, errNoPrincipal):
		problem.Kind, problem.Error, usesAccepted = ProblemNoPrincipal, errNoPrincipal.Error(), true
	case errors.Is(err, errUnanswered), errors.Is(err, context.DeadlineExceeded):
		problem.Kind, problem.Error, usesAccepted = string(tool.TransportFailure), errUnanswered.Error(), true
	}
	s.log.WarnContext(ctx, "skill is missing from a conversation",
		"skill", skill.Name, "skill_id", skill.ID, "kind", problem.Kind, "error", err)
	l := skillListing{skill: skill, problem: &problem}
	if !usesAccepted {
		return l
	}
	accepted, err := s.discovery.Accepted(ctx, skill.ID)
	if err != nil {
		s.log.WarnContext(ctx, "reading accepted definitions", "skill", skill.Name, "error", err)
	}
	l.listing.Tools = accepted
	return l
}

// hasRecovered reports whether a skill that could not be listed has been listed since. If that is unknown, the server is asked
// again in the background.
func (s *Service) hasRecovered(ctx context.Context, agentID, principal uuid.UUID, problems []Problem) (bool, error) {
	unlisted := map[string]bool{}
	for _, p := range problems {
		switch p.Kind {
		case ProblemCollision, ProblemTooManyTools, ProblemToolMissing, ProblemToolSkipped, ProblemNoPrincipal:
		default:
			unlisted[p.Skill] = true
		}
	}
	if len(unlisted) == 0 {
		return false, nil
	}
	set, err := s.agents.AssignedSkills(ctx, agentID)
	if err != nil {
		return false, err
	}
	recovered := false
	for _, skill := range set.Skills {
		if !unlisted[skill.Name] {
			continue
		}
		server, err := skill.Server()
		if err == nil {
			_, err = s.discovery.ListCached(ctx, server.For(principal), skill.TrustNewTools)
		}
		recovered = recovered || err == nil // go on: ListCached also starts the listings of the others
	}
	return recovered, nil
}
