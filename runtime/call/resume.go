package call

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// resume lets a call go on that waited for a connection: to the reviewers, to its server, or, where it was
// approved before, to the check at dispatch. What is still not connected goes on waiting.
func (s *Service) resume(ctx context.Context, id uuid.UUID) error {
	c, err := s.load(ctx, id)
	if err != nil || c.Status != NeedsConnection {
		return err
	}
	ctx = c.trace.In(ctx)
	skill, server, err := s.Agents.Skill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return s.moveOn(ctx, c, denied(CodeSkillChanged, "the skill was removed").outcome, nil)
	}
	if err != nil {
		return err
	}
	if r := checkPrincipal(c, server); r != nil {
		return s.moveOn(ctx, c, r.outcome, nil)
	}
	var partial bool
	if err := s.Pool.QueryRow(ctx, `SELECT partial FROM call_connections WHERE call_id = $1`, id).Scan(&partial); err != nil {
		return err
	}
	if connect, err := s.missing(ctx, server.For(c.PrincipalID)); err != nil || holds(connect, partial) {
		return err
	}
	decided, err := approval.Get(ctx, s.Pool, id)
	switch {
	case err == nil && decided.Status == approval.Approved:
		return s.moveOn(ctx, c, outcome{status: Approved}, func(tx pgx.Tx) error { return approval.Renew(ctx, tx, id) })
	case !errors.Is(err, approval.ErrNotFound):
		return err
	}
	return s.resumeAdmitted(ctx, c, skill, server)
}

// resumeAdmitted takes a call on that nobody decided about yet, for the tool as its server offers it now.
func (s *Service) resumeAdmitted(ctx context.Context, c *Call, skill *agent.Skill, server tool.Server) error {
	_, err := s.Discovery.List(ctx, server.For(c.PrincipalID), skill.TrustNewTools)
	if failure, ok := errors.AsType[*tool.Failure](err); ok && failure.Connect != nil {
		return nil // it goes on waiting
	}
	assigned, err := s.Agents.Assigned(ctx, c.AgentID, c.SkillID, c.Tool)
	if err != nil {
		return err
	}
	if !assigned {
		return s.moveOn(ctx, c, denied(CodeAssignmentRevoked, "the agent may no longer use this tool").outcome, nil)
	}
	offered, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return err
	}
	a, err := s.admit(ctx, c, skill, server, offered)
	switch {
	case err != nil:
		return err
	case a.refusal != nil:
		return s.moveOn(ctx, c, a.refusal.outcome, nil)
	case a.verdict.Action == approval.Park:
		return s.parkResumed(ctx, c, skill, a.verdict)
	default:
		c.Gated = false
		return s.sendResumed(ctx, c, skill, a)
	}
}

// parkResumed puts a call before the reviewers.
func (s *Service) parkResumed(ctx context.Context, c *Call, skill *agent.Skill, verdict approval.Verdict) error {
	a, err := s.Agents.AgentByID(ctx, c.AgentID)
	if err != nil {
		return err
	}
	c.Gated, c.Agent, c.Skill = true, a.Name, skill.Name
	waits := parking{call: c, request: approvalRequest(c, a, skill, verdict), alone: s.alone(ctx, c)}
	return s.moveOn(ctx, c, outcome{status: Parked}, func(tx pgx.Tx) error {
		deadlines, err := s.parkedNow(ctx, tx, []parking{waits})
		if err != nil {
			return err
		}
		_, err = s.river.InsertManyTx(ctx, tx, []river.InsertManyParams{expireJob(c.ID, deadlines[c.ID])})
		return err
	})
}

// sendResumed claims an auto-approved call and sends it.
func (s *Service) sendResumed(ctx context.Context, c *Call, skill *agent.Skill, a *admission) error {
	if !s.flights.add(c.ID, s.pulse.currentRun()) {
		return nil
	}
	err := s.moveOn(ctx, c, outcome{status: Executing}, nil)
	if err != nil || c.Status != Executing {
		s.hurry()
		s.flights.release(c.ID)
		return err
	}
	c.claimedBy, c.awaited = s.Instance, true
	s.background.Go(func() { s.send(c, skill, a.server, a.definition) })
	return nil
}

// moveOn ends a call's wait for a connection, and takes it to the next status, or to its end. When another
// did so before, it does nothing, and c stays as it was.
func (s *Service) moveOn(ctx context.Context, c *Call, to outcome, also func(tx pgx.Tx) error) error {
	m := &move{event: onResume, id: c.ID, agentID: c.AgentID, outcome: to, data: map[string]any{"status": to.status}}
	if to.code != "" {
		m.data["code"] = to.code
	}
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		waiting, left, err := lockWait(ctx, tx, c.ID)
		if err != nil || !waiting || left <= 0 {
			return err
		}
		if err := s.moveInTx(ctx, tx, m); err != nil || !m.made {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE calls SET pin = $2, skill_revision = $3, gated = $4, request = $5 WHERE id = $1`,
			c.ID, c.Pin[:], c.SkillRevision, c.Gated, []byte(c.request))
		if err != nil || also == nil {
			return err
		}
		return also(tx)
	})
	if err != nil {
		return err
	}
	if m.made {
		c.Status, c.Message = to.status, to.message
		s.announceMoves(ctx, m)
	}
	return nil
}
