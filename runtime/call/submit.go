package call

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Submit takes a call in: validates its arguments, judges it, and records it.
// An auto-approved call is on its way when Submit returns; a gated one is parked, or
// attached to an earlier one. Invalid arguments and denials are outcomes (the
// ticket's status is final), not errors. An error means: nothing was recorded and
// nothing is sent, unless the database failed to say so.
func (s *Service) Submit(ctx context.Context, sub Submission) (Ticket, error) {
	return s.takeIn(&sub, func() (Ticket, error) { return s.submitOnce(ctx, &sub) })
}

// takeIn submits a call, again if the call that it would attach to ends at the same moment, and counts it.
func (s *Service) takeIn(sub *Submission, submit func() (Ticket, error)) (Ticket, error) {
	for attempt := 1; ; attempt++ {
		ticket, err := submit()
		if !errors.Is(err, errAttachedGone) || attempt == attachAttempts {
			if err == nil {
				s.metrics.took(sub, &ticket)
			}
			return ticket, err
		}
	}
}

func (s *Service) submitOnce(ctx context.Context, sub *Submission) (Ticket, error) {
	skill, server, err := s.Agents.Skill(ctx, sub.Entry.SkillID)
	if err != nil {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	}
	c, err := newCall(sub, skill)
	if err != nil {
		return Ticket{}, err
	}
	s.begin(ctx, c)
	a, err := s.admit(ctx, c, skill, server, sub.Entry.Tool)
	switch {
	case err != nil:
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	case a.refusal != nil:
		return s.refuse(ctx, c, sub, a.refusal.outcome)
	case a.connect != nil && !a.connect.Partial:
		return s.submitUnconnected(ctx, c, sub, skill, a)
	case a.verdict.Action == approval.Park:
		return s.submitParked(ctx, c, sub, skill, a.verdict)
	default:
		return s.submitDirect(ctx, c, sub, skill, a)
	}
}

// newCall makes a call of the tool as the agent was offered it. [Service.admit] takes the present definition.
func newCall(sub *Submission, skill *agent.Skill) (*Call, error) {
	id := sub.ID
	if id == uuid.Nil {
		var err error
		if id, err = uuid.NewV7(); err != nil {
			return nil, fmt.Errorf("make call id: %w", err)
		}
	}
	return &Call{
		ID:             id,
		AgentID:        sub.Agent.ID,
		Agent:          sub.Agent.Name,
		PrincipalID:    sub.PrincipalID,
		ConversationID: sub.ConversationID,
		SkillID:        skill.ID,
		Skill:          skill.Name,
		SkillRevision:  skill.Revision,
		Tool:           sub.Entry.Tool.Name,
		ExposedName:    sub.Entry.Name,
		Pin:            sub.Entry.Tool.Pin(),
		Arguments:      sub.Arguments,
		caller:         sub.Caller,
	}, nil
}

// refuse records a call that ends where it began, unless it repeats one that was let through before.
func (s *Service) refuse(ctx context.Context, c *Call, sub *Submission, o outcome) (Ticket, error) {
	if before, err := s.repeated(ctx, sub); err != nil || before.Attached {
		return before, err
	}
	c.Status, c.Code, c.Message = o.status, o.code, o.message
	c.Arguments, c.Files, c.request = c.Made(), nil, nil // nothing of it is kept for a server
	item := &intakeItem{call: c, move: submission(ctx, c, sub, map[string]any{"code": o.code})}
	s.recordCall(s.direct, item)
	if item.err == nil {
		s.told(ctx, c)
	}
	return item.ticket, item.err
}

func (s *Service) submitParked(ctx context.Context, c *Call, sub *Submission, skill *agent.Skill, verdict approval.Verdict) (Ticket, error) {
	c.Status, c.Gated = Parked, true
	item := &intakeItem{
		call:      c,
		attachKey: attachKey(sub),
		keyed:     s.keyed(sub),
		parking:   &parking{call: c, request: approvalRequest(c, sub.Agent, skill, verdict), alone: s.alone(ctx, c)},
		move:      submission(ctx, c, sub, map[string]any{"rule": verdict.Rule}),

		pendingLimit: sub.Agent.Limits.PendingCalls(),
	}
	s.recordCall(s.gated, item)
	item.ticket.Alone = item.err == nil && item.ticket.Status == Parked && item.parking.alone
	return item.ticket, item.err
}

// approvalRequest asks for a decision about a call. A skill's team comes before its agent's: who knows
// what a call would do is nearer to it than who made it.
func approvalRequest(c *Call, a *agent.Agent, skill *agent.Skill, verdict approval.Verdict) *approval.Request {
	r := &approval.Request{
		CallID: c.ID, AgentID: c.AgentID, PrincipalID: c.PrincipalID, SkillID: c.SkillID, Tool: c.Tool,
		Digest: c.envelope().Digest(), Rule: verdict.Rule, Timeout: skill.ApprovalTimeout, Validity: skill.ApprovalValidity,
		Team: skill.Team, EscalateTo: skill.EscalateTo,
	}
	if r.Team == "" {
		r.Team = a.Team
	}
	if r.EscalateTo == "" {
		r.EscalateTo = a.EscalateTo
	}
	return r
}

// submitDirect records an auto-approved call as claimed, and sends it. From
// here on the call goes its way whatever becomes of the submitter.
func (s *Service) submitDirect(ctx context.Context, c *Call, sub *Submission, skill *agent.Skill, a *admission) (Ticket, error) {
	c.Status, c.claimedBy = Executing, s.Instance
	item := &intakeItem{call: c, move: submission(ctx, c, sub, nil)}
	if c.awaited = sub.IdempotencyKey != ""; c.awaited {
		item.attachKey, item.keyed = attachKey(sub), s.keyed(sub)
	}
	c.awaited, c.advance = c.awaited || sub.Awaited, newAdvance(sub.Advance)
	if !s.flights.add(c.ID, s.pulse.currentRun()) { // it was submitted before, to this process, and is on its way
		return Ticket{ID: c.ID, Status: Executing, Attached: true}, nil
	}
	s.recordCall(s.direct, item)
	if item.err != nil || item.ticket.Attached || item.ticket.Status != Executing {
		s.flights.release(c.ID) // not ours to send: made before, or the claim was taken away meanwhile
		return item.ticket, item.err
	}
	s.background.Go(func() { s.send(c, skill, a.server, a.definition) })
	return item.ticket, nil
}

// submission is the move by which a call comes in, with its first status.
func submission(ctx context.Context, c *Call, sub *Submission, data map[string]any) *move {
	actor := audit.Agent(sub.Agent.ID)
	if sub.PrincipalID != uuid.Nil {
		actor = audit.Person(sub.PrincipalID)
	}
	return &move{
		event: onSubmit, id: c.ID, agentID: c.AgentID, outcome: outcome{status: c.Status},
		actor: actor, data: data, origin: audit.OriginOf(ctx, actor),
	}
}

// envelope is what a decision about the call is about.
func (c *Call) envelope() approval.Envelope {
	return approval.Envelope{
		ApprovalID:    c.ID,
		AgentID:       c.AgentID,
		PrincipalID:   c.PrincipalID,
		SkillID:       c.SkillID,
		SkillRevision: c.SkillRevision,
		Tool:          c.Tool,
		Pin:           c.Pin,
		Arguments:     c.Arguments,
		FileHashes:    fileHashes(c.Files),
		Request:       c.request,
	}
}

func listProblems(problems []tool.Problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
