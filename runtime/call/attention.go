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
)

// AttentionKind says why people are to look at an approval.
type AttentionKind string

// The reasons to look.
const (
	Waits     AttentionKind = "waits"     // it began to wait
	Escalated AttentionKind = "escalated" // another team is asked
	Alone     AttentionKind = "alone"     // it waits, and nobody there is may decide about it
	Settled   AttentionKind = "settled"   // it waits no more
)

// Attention is what people are told of an approval.
type Attention struct {
	Kind     AttentionKind
	Approval approval.Approval
	Agent    string
	Skill    string
	Deadline time.Time
}

// attend hands a reason to look to whoever tells people.
func (s *Service) attend(ctx context.Context, tx pgx.Tx, kind AttentionKind, approvals ...approval.Approval) error {
	if s.Attend == nil || len(approvals) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, 0, 2*len(approvals))
	for i := range approvals {
		ids = append(ids, approvals[i].AgentID, approvals[i].SkillID)
	}
	var names map[uuid.UUID]string
	if kind != Settled { // whose transactions are many at once: they read nothing outside of themselves
		var err error
		if names, err = s.Agents.Names(ctx, ids); err != nil {
			return err
		}
	}
	list := make([]Attention, len(approvals))
	for i, a := range approvals {
		list[i] = Attention{Kind: kind, Approval: a, Agent: names[a.AgentID], Skill: names[a.SkillID], Deadline: a.Deadline}
	}
	if err := s.Attend(ctx, tx, list); err != nil {
		return fmt.Errorf("tell people of approvals: %w", err)
	}
	return nil
}

// parkedNow tells people of approvals that begin to wait, and has a second team asked at half of the deadline.
func (s *Service) parkedNow(ctx context.Context, tx pgx.Tx, requests []approval.Request, deadlines map[uuid.UUID]time.Time) error {
	var jobs []river.InsertManyParams
	var waits, alone []approval.Approval
	for i := range requests {
		r := &requests[i]
		a := approval.Approval{
			CallID: r.CallID, AgentID: r.AgentID, PrincipalID: r.PrincipalID, SkillID: r.SkillID, Tool: r.Tool,
			Status: approval.Pending, Rule: r.Rule, Team: r.Team, EscalateTo: r.EscalateTo, Deadline: deadlines[r.CallID],
		}
		if r.EscalateTo != "" {
			jobs = append(jobs, river.InsertManyParams{
				Args: escalateArgs{CallID: r.CallID}, InsertOpts: &river.InsertOpts{ScheduledAt: a.Deadline.Add(-r.Timeout / 2)},
			})
		}
		if someone, err := s.reviewable(ctx, r.PrincipalID); err != nil {
			return err
		} else if !someone {
			alone = append(alone, a)
		}
		waits = append(waits, a)
	}
	if len(jobs) > 0 {
		if _, err := s.river.InsertManyTx(ctx, tx, jobs); err != nil {
			return fmt.Errorf("insert escalation jobs: %w", err)
		}
	}
	events := make([]audit.Event, len(alone))
	for i := range alone {
		events[i] = audit.Event{Actor: audit.System(), Action: "approval.no_reviewer", Subject: alone[i].CallID}
	}
	if err := audit.Write(ctx, tx, events...); err != nil {
		return err
	}
	if err := s.attend(ctx, tx, Alone, alone...); err != nil {
		return err
	}
	return s.attend(ctx, tx, Waits, waits...)
}

// reviewable reports whether there is anybody who may decide about a call made on behalf of principal.
func (s *Service) reviewable(ctx context.Context, principal uuid.UUID) (bool, error) {
	if s.Reviewable == nil {
		return true, nil
	}
	if s.AllowSelfApproval {
		principal = uuid.Nil
	}
	someone, err := s.Reviewable(ctx, principal)
	if err != nil {
		return false, fmt.Errorf("look for reviewers: %w", err)
	}
	return someone, nil
}

// Reviewed reports whether anybody may decide about a parked call.
func (s *Service) Reviewed(ctx context.Context, c *Call) (bool, error) {
	return s.reviewable(ctx, c.PrincipalID)
}

// Extend gives a parked call more time, on a reviewer's word, as often as [approval.MaxExtensions] says.
// Errors: approval.ErrNotFound, approval.ErrSelfApproval, approval.ErrExtended, *approval.ConflictError.
func (s *Service) Extend(ctx context.Context, id, by uuid.UUID) (Waiting, error) {
	var conflict error
	var extended approval.Approval
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, now, err := approval.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if a.Status == approval.Pending && !a.Deadline.After(now) {
			settled, err := s.end(ctx, tx, a, s.expiry(ctx, a.PrincipalID), audit.System(), "")
			conflict = &approval.ConflictError{Approval: settled}
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
	s.hub.wake(id, nil) // whoever waits looks at the deadline again
	if err == nil {
		err = conflict
	}
	if err != nil {
		return Waiting{}, fmt.Errorf("extend approval %s: %w", id, err)
	}
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
		return s.attend(ctx, tx, Escalated, a)
	})
	if err != nil {
		return fmt.Errorf("escalate call %s: %w", job.Args.CallID, err)
	}
	return nil
}
