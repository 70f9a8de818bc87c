package call

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// resumeCall resumes a call that waits for a connection. It is parked, sent, or, if it had been approved, approved again. It does
// nothing if the connection is still missing.
func (s *Service) resumeCall(ctx context.Context, id uuid.UUID) error {
	c, err := s.loadCall(ctx, id)
	if err != nil || c.Status != NeedsConnection {
		return err
	}
	ctx = c.trace.In(ctx)
	skill, server, err := s.Agents.Skill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return s.endConnectionWait(ctx, c, newDenial(CodeSkillChanged, skillRemoved).outcome, nil)
	}
	if err != nil {
		return err
	}
	if r := checkPrincipal(c, server); r != nil {
		return s.endConnectionWait(ctx, c, r.outcome, nil)
	}
	var partial bool
	if err := s.Pool.QueryRow(ctx, `SELECT partial FROM call_connections WHERE call_id = $1`, id).Scan(&partial); err != nil {
		return err
	}
	if connect, err := s.checkConnection(ctx, server.For(c.PrincipalID)); err != nil || blocksCall(connect, partial) {
		return err
	}
	decided, err := approval.Get(ctx, s.Pool, id)
	switch {
	case err == nil && decided.Status == approval.Approved:
		return s.endConnectionWait(ctx, c, outcome{status: Approved}, func(tx pgx.Tx) error { return approval.Renew(ctx, tx, id) })
	case !errors.Is(err, approval.ErrNotFound):
		return err
	}
	return s.resumeAdmitted(ctx, c, skill, server)
}

// resumeAdmitted resumes a call that has no decision, with the present definition of its tool.
func (s *Service) resumeAdmitted(ctx context.Context, c *Call, skill *agent.Skill, server tool.Server) error {
	_, err := s.Discovery.List(ctx, server.For(c.PrincipalID), skill.TrustNewTools)
	if failure, ok := errors.AsType[*tool.Failure](err); ok && failure.Connect != nil {
		return nil // it continues to wait
	}
	assigned, err := s.Agents.Assigned(ctx, c.AgentID, c.SkillID, c.Tool)
	if err != nil {
		return err
	}
	if !assigned {
		return s.endConnectionWait(ctx, c, newDenial(CodeAssignmentRevoked, toolUnassigned).outcome, nil)
	}
	offered, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return err
	}
	by, err := s.Agents.AgentByID(ctx, c.AgentID)
	if err != nil {
		return err
	}
	c.Agent, c.Skill = by.Name, skill.Name
	a, err := s.admitCall(ctx, c, skill, server, offered)
	if err != nil {
		return err
	}
	if a.refusal == nil && (a.verdict.Action == approval.Allow || a.open != nil) {
		gated := c.Gated
		if err := s.sendResumed(ctx, c, a); !errors.Is(err, errNotAllowed) {
			return err
		}
		c.Gated = gated
		if err := s.adoptVerdict(ctx, c, a); err != nil {
			return err
		}
	}
	if a.refusal != nil {
		return s.endConnectionWait(ctx, c, a.refusal.outcome, nil)
	}
	for _, c.GrantID = range a.grants {
		if err := s.sendResumed(ctx, c, a); !errors.Is(err, errGrantGone) {
			return err
		}
	}
	c.GrantID = uuid.Nil
	return s.parkResumed(ctx, c, by, a)
}

// parkResumed parks a resumed call.
func (s *Service) parkResumed(ctx context.Context, c *Call, by *agent.Agent, a *admission) error {
	c.Gated = true
	waits := s.newParking(ctx, c, s.newApprovalRequest(ctx, c, by, a))
	return s.endConnectionWait(ctx, c, outcome{status: Parked}, func(tx pgx.Tx) error {
		_, err := s.insertApprovals(ctx, tx, []parking{waits})
		return err
	})
}

// sendResumed claims and sends a resumed call that needs no approval. It returns errGrantGone, or [errNotAllowed] if the verdict was open and does not
// allow the call.
func (s *Service) sendResumed(ctx context.Context, c *Call, a *admission) error {
	if !s.flights.add(c.ID, s.pulse.currentRun()) {
		return nil
	}
	c.Gated = false
	err := s.claimResumed(ctx, c, a.open)
	if err != nil || c.Status != Executing {
		s.triggerRecovery()
		s.flights.release(c.ID)
		return err
	}
	c.claimedBy, c.awaited = s.Instance, true
	s.background.Go(func() { s.sendCall(c, a.target) })
	return nil
}

// claimResumed ends a call's wait for a connection by claiming it, if its grant counts, or its open verdict allows that.
func (s *Service) claimResumed(ctx context.Context, c *Call, open *openVerdict) error {
	to := outcome{status: Executing}
	if open == nil {
		var take func(tx pgx.Tx) error
		if c.GrantID != uuid.Nil {
			take = func(tx pgx.Tx) error { return s.takeGrant(ctx, tx, c) }
		}
		return s.endConnectionWait(ctx, c, to, take)
	}
	leave, err := s.enterMemory(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return s.endWaitAfter(ctx, c, to, func(tx pgx.Tx) error {
		if err := lockMemory(ctx, tx, open); err != nil {
			return err
		}
		if err := open.judge(ctx, tx); err != nil {
			return err
		}
		if c.Rules = open.verdict.Applied; open.verdict.Action != approval.Allow {
			return errNotAllowed
		}
		return nil
	}, nil)
}

// endConnectionWait ends a call's wait for a connection with the next status, and runs also in the same transaction. If the wait has
// ended, it does nothing, and c keeps its status.
func (s *Service) endConnectionWait(ctx context.Context, c *Call, to outcome, also func(tx pgx.Tx) error) error {
	return s.endWaitAfter(ctx, c, to, nil, also)
}

// endWaitAfter is [Service.endConnectionWait] in a transaction that runs before first.
func (s *Service) endWaitAfter(ctx context.Context, c *Call, to outcome, before, also func(tx pgx.Tx) error) error {
	m := &move{event: onResume, id: c.ID, agentID: c.AgentID, outcome: to, data: map[string]any{"status": to.status}}
	if to.code != "" {
		m.data["code"] = to.code
	}
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if before != nil {
			if err := before(tx); err != nil {
				return err
			}
		}
		waiting, left, err := lockWait(ctx, tx, c.ID)
		if err != nil || !waiting || left <= 0 {
			return err
		}
		if err := s.moveInTx(ctx, tx, m); err != nil || !m.made {
			return err
		}
		err = tx.QueryRow(ctx, `UPDATE calls SET pin = $2, skill_revision = $3, gated = $4, request = $5, rules = $6, grant_id = $7 WHERE id = $1
			RETURNING attach_key, keyed_sum`, c.ID, c.Pin[:], c.SkillRevision, c.Gated, []byte(c.request), postgres.JSONOrNull(c.Rules), postgres.OrNull(c.GrantID)).Scan(&c.attachKey, &c.keyedSum)
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
