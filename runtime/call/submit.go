package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Submit validates, judges and records a call. When it returns, an auto-approved call is being sent, and a gated one is parked or
// attached to an earlier one. Invalid arguments and denials are not errors: the ticket's status is final then. After an error nothing
// was recorded and nothing is sent, unless the database committed without an answer.
func (s *Service) Submit(ctx context.Context, sub Submission) (Ticket, error) {
	skill, server, err := s.Agents.Skill(ctx, sub.Entry.SkillID)
	if err != nil {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	}
	if (sub.Gate != nil) != (server.Transport == tool.Gate) {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, errWrongDoor)
	}
	c, err := newCall(&sub, skill)
	if err != nil {
		return Ticket{}, err
	}
	s.beginTrace(ctx, c)
	a, err := s.admitCall(ctx, c, skill, server, sub.Entry.Tool)
	if err != nil {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	}
	var ticket Ticket
	for settled := false; !settled; {
		settled = true
		switch {
		case a.refusal != nil:
			ticket, err = s.recordRefusal(ctx, c, &sub, a.refusal.outcome)
		case a.connect != nil && !a.connect.Partial:
			ticket, err = s.submitUnconnected(ctx, c, &sub, a)
		case len(a.grants) > 0:
			ticket, err = s.submitGranted(ctx, c, &sub, a)
		case a.verdict.Action == approval.Park && a.open == nil:
			ticket, err = s.submitParked(ctx, c, &sub, a)
		default:
			ticket, err = s.submitDirect(ctx, c, &sub, a)
			if errors.Is(err, errNotAllowed) {
				err = s.adoptVerdict(ctx, c, a)
				settled = err != nil
			}
		}
	}
	if err == nil {
		s.metrics.countSubmission(&sub, &ticket)
	}
	return ticket, err
}

// errWrongDoor means that a call came in the way of calls that Holdpoint sends, and its skill is of the other kind, or the other way round.
var errWrongDoor = errors.New("the skill has another kind of calls")

// newCall makes a call of the definition that the agent was offered. [Service.admitCall] replaces it by the present one.
func newCall(sub *Submission, skill *agent.Skill) (*Call, error) {
	id := sub.ID
	if id == uuid.Nil {
		var err error
		if id, err = uuid.NewV7(); err != nil {
			return nil, fmt.Errorf("make call id: %w", err)
		}
	}
	c := &Call{
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
	}
	if sub.Gate != nil {
		if err := c.setGate(sub.Gate, skill); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// recordRefusal records a call that is refused, unless it repeats a call that was admitted earlier.
func (s *Service) recordRefusal(ctx context.Context, c *Call, sub *Submission, o outcome) (Ticket, error) {
	if before, err := s.findRepeated(ctx, sub); err != nil || before.Attached {
		return before, err
	}
	c.Status, c.Code, c.Message = o.status, o.code, o.message
	c.Arguments, c.Files = c.AgentArguments(), nil // the agent's arguments, without the URLs of files
	item := &intakeItem{call: c, move: newSubmitMove(ctx, c, sub, withRules(c, map[string]any{"code": o.code}))}
	if item.begin = beginGated(sub, item, nil); item.begin == nil {
		c.request = nil
	}
	s.recordCall(s.direct, item)
	if item.err == nil {
		s.recordEnd(ctx, c)
	}
	return item.ticket, item.err
}

// submitParked records a call that waits for a decision.
func (s *Service) submitParked(ctx context.Context, c *Call, sub *Submission, a *admission) (Ticket, error) {
	c.Status, c.Gated = Parked, true
	waits := s.newParking(ctx, c, s.newApprovalRequest(ctx, c, sub.Agent, a))
	item := &intakeItem{
		call:      c,
		attachKey: attachKey(sub),
		keyedSum:  keyedSum(sub),
		parking:   &waits,
		move:      newSubmitMove(ctx, c, sub, withRules(c, map[string]any{"rule": a.verdict.Rule})),

		pendingLimit: sub.Agent.Limits.PendingCalls(),
	}
	item.begin = beginGated(sub, item, a.skill)
	s.recordCall(s.gated, item)
	item.ticket.Alone = item.err == nil && item.ticket.Status == Parked && item.parking.lacksReviewer
	return item.ticket, item.err
}

// newApprovalRequest makes the approval of a call. The skill's team takes precedence over the agent's, because it knows the effect
// of the call.
func (s *Service) newApprovalRequest(ctx context.Context, c *Call, by *agent.Agent, a *admission) *approval.Request {
	skill := a.skill
	timeout, validity := policy.Clocks(a.policies, skill.ApprovalTimeout, skill.ApprovalValidity)
	r := &approval.Request{
		CallID: c.ID, AgentID: c.AgentID, PrincipalID: c.PrincipalID, SkillID: c.SkillID, Tool: c.Tool, Destructive: agent.ClaimsDestructive(a.definition),
		Unusual: s.countUnusual(ctx, c),
		Digest:  c.buildEnvelope().Digest(), Rule: a.verdict.Rule, Timeout: timeout, Validity: validity, Policies: a.policies,
		Team: cmp.Or(skill.Team, by.Team),
	}
	if r.EscalateTo, r.Escalation = skill.EscalateTo, skill.Escalation; r.EscalateTo == "" && len(r.Escalation) == 0 {
		r.EscalateTo, r.Escalation = by.EscalateTo, by.Escalation
	}
	return r
}

// submitDirect records a call that needs no approval as claimed, and sends it in the background. It returns errGrantGone, or [errNotAllowed] if the
// verdict was open and does not allow the call. Then it has recorded nothing.
func (s *Service) submitDirect(ctx context.Context, c *Call, sub *Submission, a *admission) (Ticket, error) {
	c.Status, c.claimedBy = Executing, s.Instance
	item, batch := &intakeItem{call: c, open: a.open, move: newSubmitMove(ctx, c, sub, withRules(c, nil))}, s.direct
	switch {
	case a.open != nil:
		batch = s.counted
	case c.GrantID != uuid.Nil || c.GateOnly: // it takes a use, or is released, in the same transaction
		batch = s.gated
	}
	if item.begin = beginGated(sub, item, a.skill); c.GateOnly {
		c.claimedBy = uuid.Nil
	}
	if c.awaited = sub.IdempotencyKey != ""; c.awaited {
		item.attachKey, item.keyedSum = attachKey(sub), keyedSum(sub)
	}
	c.awaited = c.awaited || sub.Awaited
	if len(sub.Advance) > 0 && c.GrantID == uuid.Nil {
		c.advance = &advance{answers: maps.Clone(sub.Advance)}
	}
	if !s.flights.add(c.ID, s.pulse.currentRun()) { // an earlier submission with the same id is in flight
		return Ticket{ID: c.ID, Status: Executing, Attached: true}, nil
	}
	if c.GateOnly {
		s.flights.remember(c) // before the commit: a database that loses it must know that the caller may have executed the call
	}
	s.recordCall(batch, item)
	if a.open != nil && item.err == nil && a.open.verdict.Action != approval.Allow {
		s.flights.forgetRefused(c.ID)
		c.claimedBy = uuid.Nil
		return Ticket{}, errNotAllowed
	}
	if item.err != nil || item.ticket.Attached || item.ticket.Status != Executing {
		s.flights.forgetRefused(c.ID) // it repeats an earlier call, or another process took the claim
		return item.ticket, item.err
	}
	if c.GateOnly {
		s.flights.release(c.ID)
		return item.ticket, nil
	}
	s.background.Go(func() { s.sendCall(c, a.target) })
	return item.ticket, nil
}

// newSubmitMove makes the move that records a call with its first status.
func newSubmitMove(ctx context.Context, c *Call, sub *Submission, data map[string]any) *move {
	actor := audit.Agent(sub.Agent.ID)
	if sub.PrincipalID != uuid.Nil {
		actor = audit.Person(sub.PrincipalID)
	}
	return &move{
		event: onSubmit, id: c.ID, agentID: c.AgentID, outcome: outcome{status: c.Status},
		actor: actor, data: data, origin: audit.OriginOf(ctx, actor),
	}
}

// buildEnvelope returns the envelope of the call, whose digest a decision carries.
func (c *Call) buildEnvelope() approval.Envelope {
	e := approval.Envelope{
		ApprovalID:    c.ID,
		AgentID:       c.AgentID,
		PrincipalID:   c.PrincipalID,
		SkillID:       c.SkillID,
		SkillRevision: c.SkillRevision,
		Tool:          c.Tool,
		Pin:           c.Pin,
		Arguments:     c.Arguments,
		Request:       c.request,
	}
	for i := range c.Files {
		e.FileHashes = append(e.FileHashes, c.Files[i].SHA256[:])
	}
	return e
}
