package call

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
)

// QueueFilter selects approvals.
type QueueFilter struct {
	Status approval.Status // empty: all
	Before uuid.UUID       // only older ones: the cursor
	Limit  int             // at most 200; zero: 50
}

// Approvals returns approvals with their calls, newest first, and the cursor of the next page.
func (s *Service) Approvals(ctx context.Context, f QueueFilter) ([]Waiting, uuid.UUID, error) {
	limit := clampLimit(f.Limit)
	approvals, err := approval.List(ctx, s.Pool, approval.Filter{Status: f.Status, Before: f.Before, Limit: limit + 1})
	if err != nil {
		return nil, uuid.Nil, err
	}
	var next uuid.UUID
	if len(approvals) > limit {
		approvals, next = approvals[:limit], approvals[limit-1].CallID
	}
	waiting, err := s.withCalls(ctx, listColumns, approvals)
	return waiting, next, err
}

// Queue returns pending approvals with their calls by deadline, what the reader's teams are asked about first, and the
// place where the next page begins (its zero value: there is none).
func (s *Service) Queue(ctx context.Context, f approval.QueueFilter) ([]Waiting, approval.Position, error) {
	limit := f.Limit
	f.Limit++
	approvals, err := approval.Queue(ctx, s.Pool, f)
	if err != nil {
		return nil, approval.Position{}, err
	}
	var next approval.Position
	if len(approvals) > limit {
		approvals = approvals[:limit]
		next = approval.PositionOf(&approvals[limit-1], f.Teams)
	}
	waiting, err := s.withCalls(ctx, listColumns, approvals)
	return waiting, next, err
}

// QueueCounts counts what a filter selects of the queue.
func (s *Service) QueueCounts(ctx context.Context, f approval.QueueFilter) (approval.Counts, error) {
	return approval.Count(ctx, s.Pool, f)
}

// Like returns up to limit parked calls that differ from one in their arguments only, itself among them.
func (s *Service) Like(ctx context.Context, a *approval.Approval, limit int) ([]Waiting, error) {
	approvals, err := approval.Like(ctx, s.Pool, a, limit)
	if err != nil {
		return nil, err
	}
	return s.withCalls(ctx, listColumns, approvals)
}

// Record counts what was decided about the calls of a tool within an age.
func (s *Service) Record(ctx context.Context, skill uuid.UUID, tool string, age time.Duration) (approval.Record, error) {
	return approval.RecordOf(ctx, s.Pool, skill, tool, age)
}

// LastApproved is the last approved call like one that waits, or approval.ErrNotFound.
func (s *Service) LastApproved(ctx context.Context, a *approval.Approval) (Waiting, error) {
	found, err := approval.LastApproved(ctx, s.Pool, a)
	if err != nil {
		return Waiting{}, err
	}
	waiting, err := s.withCalls(ctx, columns, []approval.Approval{found})
	if err != nil {
		return Waiting{}, err
	}
	return waiting[0], nil
}

// Pulse changes when the queue does; it is cheap to ask.
func (s *Service) Pulse(ctx context.Context) (approval.Pulse, error) {
	return approval.ReadPulse(ctx, s.Pool)
}

// Approval returns one approval with its call, or approval.ErrNotFound. One that is
// overdue is expired first.
func (s *Service) Approval(ctx context.Context, callID uuid.UUID) (Waiting, error) {
	if err := s.Expire(ctx, callID); err != nil {
		return Waiting{}, err
	}
	found, err := approval.Get(ctx, s.Pool, callID)
	if err != nil {
		return Waiting{}, err
	}
	waiting, err := s.withCalls(ctx, columns, []approval.Approval{found})
	if err != nil {
		return Waiting{}, err
	}
	return waiting[0], nil
}

// withCalls joins approvals with their calls, in their order.
func (s *Service) withCalls(ctx context.Context, columns string, approvals []approval.Approval) ([]Waiting, error) {
	ids := make([]uuid.UUID, len(approvals))
	for i := range approvals {
		ids[i] = approvals[i].CallID
	}
	calls, err := s.query(ctx, `SELECT `+columns+` FROM calls WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read calls of approvals: %w", err)
	}
	if err := s.name(ctx, calls); err != nil {
		return nil, err
	}
	byID := make(map[uuid.UUID]Call, len(calls))
	for i := range calls {
		byID[calls[i].ID] = calls[i]
	}
	waiting := make([]Waiting, 0, len(approvals))
	for _, a := range approvals {
		c, ok := byID[a.CallID]
		if !ok {
			return nil, fmt.Errorf("approval %s has no call", a.CallID)
		}
		waiting = append(waiting, Waiting{Call: c, Approval: a})
	}
	return waiting, nil
}

// Facet is one way to narrow the queue: an agent or a skill, by name, with how many calls of it wait.
type Facet struct {
	Name  string
	ID    uuid.UUID
	Count int
}

// Facets are the agents, skills and teams whose calls wait.
type Facets struct {
	Agents, Skills []Facet
	Teams          []Facet // without ids
}

// QueueFacets are what the queue can be narrowed by.
func (s *Service) QueueFacets(ctx context.Context) (Facets, error) {
	found, err := approval.Facets(ctx, s.Pool)
	if err != nil {
		return Facets{}, err
	}
	ids := make([]uuid.UUID, 0, 2*len(found))
	for _, f := range found {
		ids = append(ids, f.AgentID, f.SkillID)
	}
	names, err := s.Agents.Names(ctx, ids)
	if err != nil {
		return Facets{}, err
	}
	var facets Facets
	for _, f := range found {
		facets.Agents = addFacet(facets.Agents, Facet{names[f.AgentID], f.AgentID, f.Count})
		facets.Skills = addFacet(facets.Skills, Facet{names[f.SkillID], f.SkillID, f.Count})
		if f.Team != "" {
			facets.Teams = addFacet(facets.Teams, Facet{f.Team, uuid.Nil, f.Count})
		}
	}
	return facets, nil
}

func addFacet(list []Facet, f Facet) []Facet {
	for i := range list {
		if list[i].ID == f.ID && list[i].Name == f.Name {
			list[i].Count += f.Count
			return list
		}
	}
	return append(list, f)
}
