package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// escalationArgs is the job that takes the steps of an approval's escalation. It comes again for each step.
type escalationArgs struct {
	CallID uuid.UUID `json:"call_id"`
}

func (escalationArgs) Kind() string { return "call_escalation" }

type escalationWorker struct {
	river.WorkerDefaults[escalationArgs]
	service *Service
}

// Work reads the times again, since the deadline may have been extended.
func (w *escalationWorker) Work(ctx context.Context, job *river.Job[escalationArgs]) error {
	return w.service.escalate(ctx, job.Args.CallID)
}

// escalateArgs is a job of earlier versions, which knew one step.
type escalateArgs struct {
	CallID uuid.UUID `json:"call_id"`
}

func (escalateArgs) Kind() string { return "call_escalate" }

type escalateWorker struct {
	river.WorkerDefaults[escalateArgs]
	service *Service
}

func (w *escalateWorker) Work(ctx context.Context, job *river.Job[escalateArgs]) error {
	return w.service.escalate(ctx, job.Args.CallID)
}

// scheduleEscalations inserts a job for each approval that has a step to come.
func (s *Service) scheduleEscalations(ctx context.Context, tx pgx.Tx, waits ...Attention) error {
	var jobs []river.InsertManyParams
	for i := range waits {
		if at, more := waits[i].Approval.NextStep(); more {
			jobs = append(jobs, river.InsertManyParams{
				Args: escalationArgs{CallID: waits[i].Approval.CallID}, InsertOpts: &river.InsertOpts{ScheduledAt: at},
			})
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	if _, err := s.river.InsertManyTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("insert escalation jobs: %w", err)
	}
	return nil
}

// escalate takes the steps of a call's escalation that are due. Each is taken once, because that is recorded under the lock of the approval's
// row. It snoozes the job until the next step.
func (s *Service) escalate(ctx context.Context, id uuid.UUID) error {
	var wait time.Duration
	var more bool
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, now, err := approval.Lock(ctx, tx, id)
		if errors.Is(err, approval.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if steps := a.DueSteps(now); len(steps) > 0 {
			if a, err = s.takeSteps(ctx, tx, a, steps, now); err != nil {
				return err
			}
		}
		var at time.Time
		at, more = a.NextStep()
		more = more && a.Status == approval.Pending
		wait = max(at.Sub(now), time.Millisecond)
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("escalate call %s: %w", id, err)
	case more:
		return river.JobSnooze(wait)
	}
	return nil
}

// takeSteps asks the teams and people of steps about a pending approval.
func (s *Service) takeSteps(ctx context.Context, tx pgx.Tx, a approval.Approval, steps []approval.EscalationStep, now time.Time) (approval.Approval, error) {
	var named []string
	for _, step := range steps {
		named = append(named, step.People...)
	}
	people, err := identity.FindNamed(ctx, tx, named)
	if err != nil {
		return a, err
	}
	names, err := agent.Names(ctx, tx, []uuid.UUID{a.AgentID, a.SkillID})
	if err != nil {
		return a, err
	}
	taken := len(a.EscalatedTimes)
	var asked []uuid.UUID
	for _, step := range steps {
		for _, name := range step.People {
			asked = append(asked, people[name]...)
		}
	}
	if a, err = approval.TakeSteps(ctx, tx, a, steps, asked, now); err != nil {
		return a, err
	}
	gateOnly, err := isGateOnly(ctx, tx, a.CallID)
	if err != nil {
		return a, err
	}
	events, notices := make([]audit.Event, len(steps)), make([]Attention, len(steps))
	for i, step := range steps {
		data := map[string]any{"step": taken + i + 1}
		if len(step.Teams) == 1 && len(step.People) == 0 {
			data["team"] = step.Teams[0]
		} else {
			data["teams"], data["people"] = step.Teams, step.People
		}
		events[i] = audit.Event{Actor: audit.System(), Action: audit.ApprovalEscalated, Subject: a.CallID, Data: data}
		notices[i] = Attention{
			Kind: Escalated, Approval: a, Agent: names[a.AgentID], Skill: names[a.SkillID], Deadline: a.Deadline, Step: taken + i + 1,
			Asked: approval.Audience{Teams: step.Teams, Whole: true}, GateOnly: gateOnly,
		}
		for _, name := range step.People {
			notices[i].Asked.People = append(notices[i].Asked.People, people[name]...)
		}
	}
	if err := audit.Write(ctx, tx, events...); err != nil {
		return a, err
	}
	return a, s.notifyPeople(ctx, tx, notices...)
}
