package call

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// AttentionKind says why people are to look at an approval.
type AttentionKind string

// The reasons to look.
const (
	Waits     AttentionKind = "waits"     // it began to wait
	Escalated AttentionKind = "escalated" // another team is asked
	Alone     AttentionKind = "alone"     // it waits, and nobody there is may decide about it
	Asked     AttentionKind = "asked"     // its call is on its way, and a question of the call's server waits for a decision
	Settled   AttentionKind = "settled"   // it waits no more
)

// Attention is what people are told of an approval.
type Attention struct {
	Kind     AttentionKind
	Approval approval.Approval
	Agent    string // its name, but for Settled
	Skill    string // likewise
	Deadline time.Time
}

// attend hands reasons to look to whoever tells people.
func (s *Service) attend(ctx context.Context, tx pgx.Tx, list ...Attention) error {
	if s.Attend == nil || len(list) == 0 {
		return nil
	}
	if err := s.Attend(ctx, tx, list); err != nil {
		return fmt.Errorf("tell people of approvals: %w", err)
	}
	return nil
}

// waitsNoMore is what whoever tells people hears of an approval that waits no more.
func waitsNoMore(a approval.Approval) Attention {
	return Attention{Kind: Settled, Approval: a, Deadline: a.Deadline}
}

// parking is a call that begins to wait for a decision, with what is known of it before a transaction holds a
// connection: nothing in one may wait for another.
type parking struct {
	call    *Call
	request *approval.Request
	alone   bool // there is nobody who may decide
}

func (p *parking) attention(kind AttentionKind, deadline time.Time) Attention {
	r := p.request
	return Attention{
		Kind: kind, Agent: p.call.Agent, Skill: p.call.Skill, Deadline: deadline,
		Approval: approval.Approval{
			CallID: r.CallID, AgentID: r.AgentID, PrincipalID: r.PrincipalID, SkillID: r.SkillID, Tool: r.Tool,
			Status: approval.Pending, Rule: r.Rule, Team: r.Team, EscalateTo: r.EscalateTo, Deadline: deadline,
		},
	}
}

// alone reports whether there is nobody who may decide about a call. Not knowing it does not keep a call from being parked.
func (s *Service) alone(ctx context.Context, c *Call) bool {
	someone, err := s.reviewable(ctx, c.PrincipalID, c.AgentID)
	if err != nil {
		s.Logger.Warn("looking for reviewers", "call", c.ID, "error", err)
	}
	return err == nil && !someone
}

// parkedNow stores approvals that begin to wait, tells people of them, and has a second team asked at half of the deadline.
func (s *Service) parkedNow(ctx context.Context, tx pgx.Tx, parkings []parking) (map[uuid.UUID]time.Time, error) {
	requests := make([]approval.Request, len(parkings))
	for i := range parkings {
		requests[i] = *parkings[i].request
	}
	deadlines, err := approval.Insert(ctx, tx, requests)
	if err != nil {
		return nil, err
	}
	var jobs []river.InsertManyParams
	var waits, alone []Attention
	var events []audit.Event
	for i := range parkings {
		p := &parkings[i]
		deadline := deadlines[p.request.CallID]
		if p.request.EscalateTo != "" {
			jobs = append(jobs, river.InsertManyParams{
				Args: escalateArgs{CallID: p.request.CallID}, InsertOpts: &river.InsertOpts{ScheduledAt: deadline.Add(-p.request.Timeout / 2)},
			})
		}
		if p.alone {
			alone = append(alone, p.attention(Alone, deadline))
			events = append(events, audit.Event{Actor: audit.System(), Action: "approval.no_reviewer", Subject: p.request.CallID})
		}
		waits = append(waits, p.attention(Waits, deadline))
	}
	if len(jobs) > 0 {
		if _, err := s.river.InsertManyTx(ctx, tx, jobs); err != nil {
			return nil, fmt.Errorf("insert escalation jobs: %w", err)
		}
	}
	if err := audit.Write(ctx, tx, events...); err != nil {
		return nil, err
	}
	return deadlines, s.attend(ctx, tx, append(alone, waits...)...)
}

// reviewable reports whether there is anybody who may decide about a call made on behalf of principal by an agent.
func (s *Service) reviewable(ctx context.Context, principal, agentID uuid.UUID) (bool, error) {
	if s.Reviewable == nil {
		return true, nil
	}
	if s.AllowSelfApproval {
		principal, agentID = uuid.Nil, uuid.Nil
	}
	someone, err := s.Reviewable(ctx, principal, agentID)
	if err != nil {
		return false, fmt.Errorf("look for reviewers: %w", err)
	}
	return someone, nil
}

// Reviewed reports whether anybody may decide about a parked call.
func (s *Service) Reviewed(ctx context.Context, c *Call) (bool, error) {
	return s.reviewable(ctx, c.PrincipalID, c.AgentID)
}

// Extend gives a parked call more time, on a reviewer's word, as often as [approval.MaxExtensions] says.
// Errors: approval.ErrNotFound, approval.ErrSelfApproval, approval.ErrExtended, *approval.ConflictError.
func (s *Service) Extend(ctx context.Context, id, by uuid.UUID) (Waiting, error) {
	var expired *move
	var extended approval.Approval
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, now, err := approval.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if a.Status == approval.Pending && !a.Deadline.After(now) {
			expired, err = s.settle(ctx, tx, a, s.expiry(ctx, a.PrincipalID), audit.System(), "")
			return err
		}
		if err := s.notOwn(ctx, tx, a, by); err != nil {
			return err
		}
		if extended, err = approval.Extend(ctx, tx, a); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(by), Action: "approval.extended", Subject: id,
			Data: map[string]any{"deadline": extended.Deadline.UTC()},
		})
	})
	if err == nil && expired != nil {
		s.announceMoves(ctx, expired)
		err = &approval.ConflictError{Approval: *expired.settled}
	}
	if err != nil {
		return Waiting{}, fmt.Errorf("extend approval %s: %w", id, err)
	}
	s.hub.wake(id, nil) // the deadline is another
	waiting, err := s.withCalls(ctx, columns, []approval.Approval{extended})
	if err != nil {
		return Waiting{}, err
	}
	return waiting[0], nil
}

// escalateArgs is the job that has a second team asked about an approval.
type escalateArgs struct {
	CallID uuid.UUID `json:"call_id"`
}

func (escalateArgs) Kind() string { return "call_escalate" }

type escalateWorker struct {
	river.WorkerDefaults[escalateArgs]
	service *Service
}

func (w *escalateWorker) Work(ctx context.Context, job *river.Job[escalateArgs]) error {
	s := w.service
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, asked, err := approval.Escalate(ctx, tx, job.Args.CallID)
		if err != nil || !asked {
			return err
		}
		event := audit.Event{Actor: audit.System(), Action: "approval.escalated", Subject: a.CallID, Data: map[string]any{"team": a.EscalateTo}}
		if err := audit.Write(ctx, tx, event); err != nil {
			return err
		}
		names, err := agent.Names(ctx, tx, []uuid.UUID{a.AgentID, a.SkillID})
		if err != nil {
			return err
		}
		return s.attend(ctx, tx, Attention{
			Kind: Escalated, Approval: a, Agent: names[a.AgentID], Skill: names[a.SkillID], Deadline: a.Deadline,
		})
	})
	if err != nil {
		return fmt.Errorf("escalate call %s: %w", job.Args.CallID, err)
	}
	return nil
}
