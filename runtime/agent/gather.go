package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// assignedSkill is a skill as one agent has it.
type assignedSkill struct {
	*skillRow
	only   []string // nil: all its tools
	prefix string
	// principal is on whose behalf the agent has it; uuid.Nil: nobody's.
	principal uuid.UUID
}

func (a assignedSkill) allows(toolName string) bool {
	return a.only == nil || slices.Contains(a.only, toolName)
}

func scanAssignedSkill(row pgx.CollectableRow) (assignedSkill, error) {
	a := assignedSkill{skillRow: &skillRow{}}
	var prefix *string
	err := row.Scan(append(a.targets(), &a.only, &prefix)...)
	a.complete()
	a.prefix = a.Name
	if prefix != nil {
		a.prefix = *prefix
	}
	return a, err
}

// assignedSkills reads an agent's revision and then its skills, by name: what
// changes between the two has a later revision than the one returned. ErrNotFound.
func (s *Service) assignedSkills(ctx context.Context, agentID uuid.UUID) (self self, skills []assignedSkill, err error) {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT revision, model IS NOT NULL FROM agents WHERE id = $1 AND deleted_at IS NULL`, agentID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&self.revision, &self.speaks) })
	batch.Queue(`SELECT `+skillColumns+`, x.tools, x.prefix FROM assignments x JOIN skills s ON s.id = x.skill_id
		WHERE x.agent_id = $1 AND s.deleted_at IS NULL ORDER BY s.name COLLATE "C"`, agentID).
		Query(func(rows pgx.Rows) (err error) {
			skills, err = pgx.CollectRows(rows, scanAssignedSkill)
			return err
		})
	err = s.pool.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return self, nil, fmt.Errorf("read skills of agent %s: %w", agentID, err)
	}
	return self, skills, nil
}

// self is what matters of the agent itself to its catalogues.
type self struct {
	revision int64
	speaks   bool // it has a model, and can be asked
}

// own are the tools that the agent has of its own.
func (s self) own() ([]Entry, error) {
	if !s.speaks {
		return nil, nil
	}
	entry, err := askEntry()
	return []Entry{entry}, err
}

// maxSideBySide bounds the skills that are listed at once for one conversation.
const maxSideBySide = 32

// gather asks the servers of all skills that an agent has, side by side, and returns
// the agent's revision, the catalogue and what is missing from it.
func (s *Service) gather(ctx context.Context, agentID, principal uuid.UUID) (int64, *Catalogue, []Problem, error) {
	self, skills, err := s.assignedSkills(ctx, agentID)
	if err != nil {
		return 0, nil, nil, err
	}
	own, err := self.own()
	if err != nil {
		return 0, nil, nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.listTimeout)
	defer cancel()
	offers := make([]offer, len(skills))
	for i := range skills {
		skills[i].principal = principal
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, maxSideBySide)
	for i := range skills {
		group.Go(func() {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				offers[i] = s.offer(bounded, skills[i])
			case <-bounded.Done():
				offers[i] = s.unlisted(bounded, skills[i], bounded.Err())
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return 0, nil, nil, fmt.Errorf("list skills of agent %s: %w", agentID, err)
	}
	catalogue, problems := compose(offers, own)
	return self.revision, catalogue, problems, nil
}

// offer lists one skill's tools.
func (s *Service) offer(ctx context.Context, skill assignedSkill) offer {
	listing, err := s.list(ctx, skill)
	if errors.Is(err, tool.ErrSuperseded) {
		// An operator changed it just now: once more, as it is now.
		if row, fresh := oneSkill(ctx, s.pool, `s.id = $1`, skill.ID); fresh == nil {
			skill.skillRow = row
			listing, err = s.list(ctx, skill)
		}
	}
	var pins map[string]tool.PinStatus
	if err == nil {
		pins, err = s.discovery.Statuses(ctx, skill.ID)
	}
	if err != nil {
		return s.unlisted(ctx, skill, err)
	}
	return offer{assigned: skill, listing: listing, pins: pins}
}

func (s *Service) list(ctx context.Context, skill assignedSkill) (tool.Listing, error) {
	server, err := skill.server(s.box)
	if err != nil {
		return tool.Listing{}, err
	}
	if server = server.For(skill.principal); server.PerUser && server.Principal == uuid.Nil {
		return tool.Listing{}, errNoPrincipal
	}
	return s.discovery.List(ctx, server, skill.TrustNewTools)
}

// errNoPrincipal: each person has a connection of their own to the skill, and nobody is acted for.
var errNoPrincipal = errors.New("each person has a connection of their own to this skill, and the agent acts on nobody's behalf")

// problemKind is the kind of problem that a failure is.
func problemKind(failure *tool.Failure) string {
	if failure.Connect != nil {
		return ProblemNeedsConnection
	}
	return string(failure.Kind)
}

// ProblemInternal is the kind of a problem on our own side.
const ProblemInternal = "internal"

// unlisted tells why a skill's tools are missing. What is wrong on our own side goes
// to the log, and not to the agent.
func (s *Service) unlisted(ctx context.Context, skill assignedSkill, err error) offer {
	var failure *tool.Failure
	problem := Problem{Skill: skill.Name, Kind: ProblemInternal, Error: "its tools could not be listed"}
	switch {
	case errors.As(err, &failure):
		problem.Kind, problem.Error = problemKind(failure), plain(failure.Message)
	case errors.Is(err, errNoPrincipal):
		problem.Kind, problem.Error = ProblemNoPrincipal, errNoPrincipal.Error()
	case errors.Is(err, context.DeadlineExceeded):
		problem.Kind = string(tool.TransportFailure)
		problem.Error = fmt.Sprintf("no answer to tools/list within %s", s.listTimeout)
	}
	s.log.WarnContext(ctx, "skill is missing from a conversation",
		"skill", skill.Name, "skill_id", skill.ID, "kind", problem.Kind, "error", err)
	o := offer{assigned: skill, problem: &problem}
	if problem.Kind != ProblemNeedsConnection && problem.Kind != ProblemNoPrincipal {
		return o
	}
	accepted, err := s.discovery.Accepted(ctx, skill.ID)
	if err != nil {
		s.log.WarnContext(ctx, "reading accepted definitions", "skill", skill.Name, "error", err)
	}
	o.listing.Tools = accepted
	return o
}

// recovered reports whether a skill that could not be listed has been listed since. Where that is not known,
// the server is asked again in the background, which costs the caller nothing.
func (s *Service) recovered(ctx context.Context, agentID, principal uuid.UUID, problems []Problem) (bool, error) {
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
	_, skills, err := s.assignedSkills(ctx, agentID)
	if err != nil {
		return false, err
	}
	found := false
	for _, skill := range skills {
		if !unlisted[skill.Name] {
			continue
		}
		if server, err := skill.server(s.box); err == nil && s.discovery.Fresh(ctx, server.For(principal), skill.TrustNewTools) {
			found = true
		}
	}
	return found, nil
}
