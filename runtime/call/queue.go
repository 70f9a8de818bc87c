package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// QueueFilter selects approvals.
type QueueFilter struct {
	Status approval.Status // empty: all
	Before uuid.UUID       // only older ones: the cursor
	Limit  int             // at most 200; zero: 50
}

// ListApprovals returns approvals with their calls, newest first, and the cursor of the next page (uuid.Nil: none).
func (s *Service) ListApprovals(ctx context.Context, f QueueFilter) ([]Waiting, uuid.UUID, error) {
	limit := clampLimit(f.Limit)
	approvals, err := approval.List(ctx, s.Pool, approval.Filter{Status: f.Status, Before: f.Before, Limit: limit + 1})
	if err != nil {
		return nil, uuid.Nil, err
	}
	var next uuid.UUID
	if len(approvals) > limit {
		approvals, next = approvals[:limit], approvals[limit-1].CallID
	}
	waiting, err := s.withCalls(ctx, approvals)
	return waiting, next, err
}

// FindPosition returns the position that an approval has, or had while it was pending, in the queue that the filter orders.
func (s *Service) FindPosition(ctx context.Context, f approval.QueueFilter, a *approval.Approval) (approval.Position, error) {
	err := s.addKinds(ctx, &f, approval.Kind{SkillID: a.SkillID, Tool: a.Tool, Destructive: a.Destructive})
	return f.PositionOf(a), err
}

// addKinds sets the kinds of a filter if its order needs them: those of pending approvals and others.
func (s *Service) addKinds(ctx context.Context, f *approval.QueueFilter, others ...approval.Kind) (err error) {
	if f.ByTool || f.Order == approval.ByRisk {
		f.Kinds, err = s.rankKinds(ctx, others...)
	}
	return err
}

// ListQueue returns pending approvals with their calls in the filter's order, those of the reader's teams first, and the position of the
// next page (zero: none).
func (s *Service) ListQueue(ctx context.Context, f approval.QueueFilter) ([]Waiting, approval.Position, error) {
	limit := f.Limit
	f.Limit++
	if err := s.addKinds(ctx, &f); err != nil {
		return nil, approval.Position{}, err
	}
	approvals, err := approval.Queue(ctx, s.Pool, f)
	if err != nil {
		return nil, approval.Position{}, err
	}
	var next approval.Position
	if len(approvals) > limit {
		approvals = approvals[:limit]
		next = f.PositionOf(&approvals[limit-1])
	}
	waiting, err := s.withCalls(ctx, approvals)
	return waiting, next, err
}

// rankKinds returns the tools of pending approvals, and others after them, with their names and with ranks by their present risk.
func (s *Service) rankKinds(ctx context.Context, others ...approval.Kind) ([]approval.Kind, error) {
	kinds, err := approval.ListKinds(ctx, s.Pool)
	if err != nil {
		return nil, err
	}
	kinds = append(kinds, others...)
	skills := make([]uuid.UUID, len(kinds))
	for i := range kinds {
		skills[i] = kinds[i].SkillID
	}
	names, err := s.Agents.Names(ctx, skills)
	if err != nil {
		return nil, err
	}
	for i := range kinds {
		k := &kinds[i]
		k.Name = names[k.SkillID] + ": " + k.Tool
		risk, err := s.Agents.RiskOfClaim(ctx, k.SkillID, k.Tool, k.Destructive)
		if err != nil {
			return nil, err
		}
		k.Rank = slices.Index([]agent.Risk{agent.RiskMarked, agent.RiskDestructive, agent.RiskStandard}, risk)
	}
	return kinds, nil
}

// AsksPeople reports whether a pending approval asks people, and not only teams.
func (s *Service) AsksPeople(ctx context.Context) (bool, error) {
	return approval.AsksPeople(ctx, s.Pool)
}

// CountQueue counts the pending approvals that a filter selects.
func (s *Service) CountQueue(ctx context.Context, f approval.QueueFilter) (approval.Counts, error) {
	return approval.Count(ctx, s.Pool, f)
}

// ListSimilar returns up to limit parked calls that differ from one only in their arguments, including that one.
func (s *Service) ListSimilar(ctx context.Context, a *approval.Approval, limit int) ([]Waiting, error) {
	approvals, err := approval.ListSimilar(ctx, s.Pool, a, limit)
	if err != nil {
		return nil, err
	}
	return s.withCalls(ctx, approvals)
}

// ReadPulse returns a value that changes when the queue changes. It is cheap.
func (s *Service) ReadPulse(ctx context.Context) (approval.Pulse, error) {
	pulse, err := approval.ReadPulse(ctx, s.Pool)
	if err != nil {
		return pulse, err
	}
	plans, err := s.Agents.ListPendingPlans(ctx)
	pulse.Plans = len(plans)
	return pulse, err
}

// ReadVoteState returns a text that changes with what the queue shows about votes. See [approval.ReadVoteState].
func (s *Service) ReadVoteState(ctx context.Context) (string, error) {
	return approval.ReadVoteState(ctx, s.Pool)
}

// ListUnreviewed returns approvals that one person gave alone and that nobody has reviewed, with their calls, the newest first.
func (s *Service) ListUnreviewed(ctx context.Context, limit int) ([]Waiting, error) {
	approvals, err := approval.ListUnreviewed(ctx, s.Pool, limit)
	if err != nil {
		return nil, err
	}
	return s.withCalls(ctx, approvals)
}

// GetApproval returns an approval with its call, or approval.ErrNotFound. It expires an overdue one first, and locks nothing otherwise.
func (s *Service) GetApproval(ctx context.Context, callID uuid.UUID) (Waiting, error) {
	found, err := s.readApproval(ctx, callID)
	if err != nil {
		return Waiting{}, err
	}
	isDue, err := s.isOverdue(ctx, &found.Call, &found.Approval)
	if err == nil && isDue {
		if err = s.Expire(ctx, callID); err == nil {
			found, err = s.readApproval(ctx, callID)
		}
	}
	if err != nil {
		return Waiting{}, err
	}
	calls := []Call{found.Call}
	err = s.readFiles(ctx, calls)
	found.Call = calls[0]
	return found, err
}

// Reviewed is a call with all that reviewers see of it.
type Reviewed struct {
	Call      Call
	Approval  *approval.Approval // nil: none was needed
	Questions []AskedQuestion    // of the call's server, in their order
	Comments  []approval.Comment // oldest first
	Pending   bool               // a call is pending, this one or another
	Now       time.Time          // by the database's clock
}

// GetReviewed returns a call with its approval, or ErrNotFound. It expires an overdue one first. All is read in one round trip, also what
// queue adds to it.
func (s *Service) GetReviewed(ctx context.Context, id uuid.UUID, queue func(*pgx.Batch)) (Reviewed, error) {
	found, err := s.readReviewed(ctx, id, queue)
	if err != nil {
		return found, err
	}
	isDue, err := s.isOverdue(ctx, &found.Call, found.Approval)
	if err == nil && isDue {
		if err = s.Expire(ctx, id); err == nil {
			found, err = s.readReviewed(ctx, id, queue)
		}
	}
	if err != nil {
		return found, err
	}
	calls := []Call{found.Call}
	err = s.readFiles(ctx, calls)
	found.Call = calls[0]
	return found, err
}

func (s *Service) readReviewed(ctx context.Context, id uuid.UUID, queue func(*pgx.Batch)) (found Reviewed, err error) {
	batch := &pgx.Batch{}
	queueCall(batch, id, &found.Call)
	approval.QueueFind(batch, id, &found.Approval)
	QueueQuestions(batch, id, &found.Questions)
	approval.QueueComments(batch, id, &found.Comments)
	approval.QueuePending(batch, &found.Pending)
	postgres.QueueOne(batch, &found.Now, "read the time", pgx.RowTo[time.Time], `SELECT holdpoint_now()`)
	queue(batch)
	err = s.Pool.SendBatch(ctx, batch).Close()
	if err == nil && found.Call.ID == uuid.Nil {
		err = ErrNotFound
	}
	return found, err
}

// readApproval reads an approval and its call, without files, in one round trip.
func (s *Service) readApproval(ctx context.Context, callID uuid.UUID) (found Waiting, err error) {
	batch := &pgx.Batch{}
	approval.QueueGet(batch, callID, &found.Approval)
	queueCall(batch, callID, &found.Call)
	err = s.Pool.SendBatch(ctx, batch).Close()
	if err == nil && found.Call.ID == uuid.Nil {
		err = fmt.Errorf("approval %s: %w", callID, errNoCall)
	}
	return found, err
}

// isOverdue reports whether the deadline of a call that waits for people has passed, but its expiry is not recorded yet.
func (s *Service) isOverdue(ctx context.Context, c *Call, a *approval.Approval) (bool, error) {
	if c.Status != NeedsConnection {
		return a != nil && a.Status == approval.Expired && a.DecidedAt == nil, nil
	}
	left, err := s.timeLeft(ctx, c.ID, c.Status)
	if errors.Is(err, approval.ErrNotFound) { // it waits no longer
		return false, nil
	}
	return left <= 0, err
}

var errNoCall = errors.New("no such call")

// withCall returns an approval with its call.
func (s *Service) withCall(ctx context.Context, a approval.Approval) (Waiting, error) {
	var c Call
	batch := &pgx.Batch{}
	queueCall(batch, a.CallID, &c)
	err := s.Pool.SendBatch(ctx, batch).Close()
	if err == nil && c.ID == uuid.Nil {
		err = errNoCall
	}
	calls := []Call{c}
	if err == nil {
		err = s.readFiles(ctx, calls)
	}
	if err != nil {
		return Waiting{}, fmt.Errorf("read call of approval %s: %w", a.CallID, err)
	}
	return Waiting{Call: calls[0], Approval: a}, nil
}

// withCalls returns approvals with their calls, in the same order.
func (s *Service) withCalls(ctx context.Context, approvals []approval.Approval) ([]Waiting, error) {
	ids := make([]uuid.UUID, len(approvals))
	for i := range approvals {
		ids[i] = approvals[i].CallID
	}
	byID, err := s.readByID(ctx, listColumns, ids, s.fillNames)
	if err != nil {
		return nil, fmt.Errorf("read calls of approvals: %w", err)
	}
	waiting := make([]Waiting, 0, len(approvals))
	for _, a := range approvals {
		c, ok := byID[a.CallID]
		if !ok {
			return nil, fmt.Errorf("approval %s: %w", a.CallID, errNoCall)
		}
		waiting = append(waiting, Waiting{Call: c, Approval: a})
	}
	return waiting, nil
}

// Facet is an agent, a skill or a team with the number of its waiting calls.
type Facet struct {
	Name  string
	ID    uuid.UUID
	Count int
}

// Facets are the agents, skills and teams with waiting calls.
type Facets struct {
	Agents, Skills []Facet
	Teams          []Facet // without ids
}

// ListFacets returns the values by which the queue can be filtered.
func (s *Service) ListFacets(ctx context.Context) (Facets, error) {
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
