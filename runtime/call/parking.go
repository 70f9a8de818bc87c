package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// parking is a call that is about to wait for a decision. It is complete before a transaction takes a connection, since a
// transaction must not wait for a second one.
type parking struct {
	call    *Call
	request *approval.Request
	lack    Lack
}

func (p *parking) newAttention(kind AttentionKind, deadline time.Time) Attention {
	r := p.request
	return newAttention(kind, p.call, &approval.Approval{
		CallID: r.CallID, AgentID: r.AgentID, PrincipalID: r.PrincipalID, SkillID: r.SkillID, Tool: r.Tool,
		Status: approval.Pending, Rule: r.Rule, Team: r.Team, EscalateTo: r.EscalateTo, Escalation: r.Escalation, Policies: r.Policies, Deadline: deadline,
		CreatedAt: deadline.Add(-r.Timeout), AskedAt: deadline.Add(-r.Timeout),
	})
}

// newParking returns a call that is about to wait. Without an answer, somebody may decide it: it is parked in any case.
func (s *Service) newParking(ctx context.Context, c *Call, r *approval.Request) parking {
	lack, err := s.FindLack(ctx, &approval.Approval{
		CallID: r.CallID, AgentID: r.AgentID, PrincipalID: r.PrincipalID, SkillID: r.SkillID, Team: r.Team, EscalateTo: r.EscalateTo, Policies: r.Policies,
	})
	if err != nil {
		s.Logger.Warn("searching for reviewers", "call", c.ID, "error", err)
	}
	return parking{call: c, request: r, lack: lack}
}

// insertApprovals stores pending approvals, notifies people, and schedules escalations. It returns the deadlines by call.
func (s *Service) insertApprovals(ctx context.Context, tx pgx.Tx, parkings []parking) (map[uuid.UUID]time.Time, error) {
	requests := make([]approval.Request, len(parkings))
	for i := range parkings {
		requests[i] = *parkings[i].request
	}
	deadlines, err := approval.Insert(ctx, tx, requests)
	if err != nil {
		return nil, err
	}
	var waits, alone []Attention
	var events []audit.Event
	for i := range parkings {
		p := &parkings[i]
		deadline := deadlines[p.request.CallID]
		if p.lack.IsAny() {
			alone = append(alone, p.newAttention(p.lack.kind(), deadline))
			events = append(events, p.lack.auditEvent(p.request.CallID))
		}
		waits = append(waits, p.newAttention(Waits, deadline))
	}
	if err := s.scheduleEscalations(ctx, tx, waits...); err != nil {
		return nil, err
	}
	if err := audit.Write(ctx, tx, events...); err != nil {
		return nil, err
	}
	return deadlines, s.notifyPeople(ctx, tx, append(alone, waits...)...)
}

const (
	// expireInterval is the pause between two searches for overdue calls. Whoever waits for a call expires it at its deadline.
	expireInterval = time.Second
	expireSoon     = 10 * time.Millisecond // the pause if there may be more
	expireBatch    = 200                   // calls of a transaction
	expireWorkers  = 8
)

// keepExpiring expires the calls and plans that nothing else expires.
func (s *Service) keepExpiring() {
	for wait := expireInterval; pause.For(s.running, wait) == nil; {
		more, err := s.expireOverdue(s.running)
		if err != nil && s.running.Err() == nil {
			s.Logger.Warn("expiring calls and plans; trying again", "error", err)
		}
		if wait = expireInterval; more {
			wait = expireSoon
		}
	}
}

// expireOverdue expires calls and plans whose deadline has passed, and reports whether there may be more. One that fails does not stop the others.
func (s *Service) expireOverdue(ctx context.Context) (more bool, err error) {
	parked, err := s.expireTogether(ctx)
	switch {
	case err == nil:
		more, parked = len(parked) == expireBatch, nil
	case len(parked) == 0:
		return false, err
	}
	waiting, err := readIDs(ctx, s.Pool, `SELECT call_id FROM call_connections WHERE ended_at IS NULL AND deadline <= (SELECT holdpoint_now()) LIMIT $1`, expireBatch)
	if err != nil {
		return false, fmt.Errorf("find overdue calls: %w", err)
	}
	plans, err := s.Agents.ExpirePlans(ctx, expireBatch, s.notifyOfEnd)
	overdue := slices.Concat(parked, waiting)
	errs := make([]error, len(overdue), len(overdue)+1)
	var group errgroup.Group
	group.SetLimit(expireWorkers)
	for i, id := range overdue {
		group.Go(func() error {
			errs[i] = s.Expire(ctx, id)
			return nil
		})
	}
	_ = group.Wait() // errs has the errors
	return more || len(overdue) >= expireBatch || plans == expireBatch, errors.Join(append(errs, err)...)
}

// expireTogether expires overdue approvals with their calls, in one transaction, and returns the ids of these. It leaves those to others that
// they have locked.
func (s *Service) expireTogether(ctx context.Context) (ids []uuid.UUID, err error) {
	s.warmReviewers(ctx)
	var expired []*move
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) (err error) {
		expired, ids = nil, nil
		overdue, err := approval.LockOverdue(ctx, tx, expireBatch)
		if err != nil || len(overdue) == 0 {
			return err
		}
		outcomes := map[judges]outcome{}
		for i := range overdue {
			a := &overdue[i]
			ids = append(ids, a.CallID)
			who := judgesOf(a)
			o, known := outcomes[who]
			if !known {
				o = s.expiryOutcome(ctx, a)
				outcomes[who] = o
			}
			expired = append(expired, newSettleMove(a, o, audit.System(), "", nil))
		}
		err = s.moveInTx(ctx, tx, expired...)
		failpoint.Hit(failpoint.ExpireBeforeCommit)
		return err
	})
	if err != nil {
		return ids, fmt.Errorf("expire overdue calls: %w", err)
	}
	if len(expired) > 0 {
		failpoint.Hit(failpoint.ExpireAfterCommit)
		s.announceMoves(ctx, expired...)
	}
	return ids, nil
}

// expireArgs is a job of earlier versions that expires a call at its deadline.
type expireArgs struct {
	CallID uuid.UUID `json:"call_id"`
}

func (expireArgs) Kind() string { return "call_expire" }

type expireWorker struct {
	river.WorkerDefaults[expireArgs]
	service *Service
}

// Work reads the deadline again, since it may have been extended.
func (w *expireWorker) Work(ctx context.Context, job *river.Job[expireArgs]) error {
	left, err := w.service.expireApproval(ctx, job.Args.CallID)
	if err != nil {
		return err
	}
	if left > 0 {
		return river.JobSnooze(left)
	}
	return nil
}

// Extend extends the deadline of a parked call, at most [approval.MaxExtensions] times.
// Errors: approval.ErrNotFound, approval.ErrSelfApproval, *identity.LimitError, approval.ErrExtended, *approval.ConflictError.
func (s *Service) Extend(ctx context.Context, id, by uuid.UUID) (Waiting, error) {
	var expired *move
	var extended approval.Approval
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, now, err := approval.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if a.Status == approval.Pending && !a.Deadline.After(now) {
			expired = newSettleMove(&a, s.expiryOutcome(ctx, &a), audit.System(), "", nil)
			return s.moveInTx(ctx, tx, expired)
		}
		if err := s.checkConflictOfInterest(ctx, tx, &a, by); err != nil {
			return err
		}
		if extended, err = approval.Extend(ctx, tx, a); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(by), Action: audit.ApprovalExtended, Subject: id,
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
	s.hub.wake(id, nil) // its waiters read the new deadline
	return s.withCall(ctx, extended)
}
