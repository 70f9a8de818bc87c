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
	for attempt := 1; ; attempt++ {
		ticket, err := s.submitOnce(ctx, &sub)
		if !errors.Is(err, errAttachedGone) || attempt == attachAttempts {
			if err == nil {
				s.metrics.took(&sub, &ticket)
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
	definition, verdict, err := s.judge(ctx, sub, skill)
	if err != nil {
		return Ticket{}, fmt.Errorf("judge %s: %w", sub.Entry.Name, err)
	}
	c, err := newCall(sub, skill, definition)
	if err != nil {
		return Ticket{}, err
	}
	s.begin(ctx, c)
	if err := s.freeze(ctx, c, definition); err != nil {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	}
	schemas, err := s.schemas.get(definition)
	if err != nil {
		return Ticket{}, fmt.Errorf("judge %s: %w", sub.Entry.Name, err)
	}
	if r, err := s.validate(ctx, c, schemas); err != nil {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	} else if r != nil {
		return s.refuse(ctx, c, sub, r.status, r.code, r.message)
	}
	if server.PerUser && sub.PrincipalID == uuid.Nil {
		return s.refuse(ctx, c, sub, Denied, CodeNoPrincipal, noPrincipal)
	}
	server = server.For(sub.PrincipalID)
	if r, err := s.draw(ctx, c, skill, server, definition); err != nil {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	} else if r != nil {
		return s.refuse(ctx, c, sub, r.status, r.code, r.message)
	}
	if connect, err := s.missing(ctx, server); err != nil {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	} else if connect != nil && !connect.Partial && verdict.Action != approval.Deny {
		return s.submitUnconnected(ctx, c, sub, skill, connect, verdict)
	}
	switch verdict.Action {
	case approval.Park:
		return s.submitParked(ctx, c, sub, skill, verdict)
	case approval.Allow:
		return s.submitDirect(ctx, c, sub, skill, server, definition)
	default:
		code, message := denial(verdict.Rule)
		return s.refuse(ctx, c, sub, Denied, code, message)
	}
}

const noPrincipal = "each person has a connection of their own to this skill, and the agent acts on nobody's behalf"

// judge finds the tool's present definition, which a call is always about, and
// the verdict. An error means that the call must not be sent.
func (s *Service) judge(ctx context.Context, sub *Submission, skill *agent.Skill) (tool.Definition, approval.Verdict, error) {
	pins, err := s.Discovery.Status(ctx, skill.ID, sub.Entry.Tool.Name)
	if err != nil {
		return tool.Definition{}, approval.Verdict{}, err
	}
	settings := skill.Tools[sub.Entry.Tool.Name]
	verdict := approval.Judge(approval.Question{
		AutoApprove: skill.AutoApprove,
		HighRisk:    settings.Risk != "",
		Disabled:    settings.Disabled(),
		Known:       pins.Known,
		Refused:     pins.IsRefused(),
		Accepted:    pins.Known && pins.Current == pins.Accepted,
		EverSeen:    !pins.Accepted.IsZero(),
	})
	definition := sub.Entry.Tool
	if pins.Known && pins.Current != definition.Pin() {
		if definition, err = s.Discovery.Definition(ctx, pins.Current); err != nil {
			return tool.Definition{}, approval.Verdict{}, err
		}
	}
	return definition, verdict, nil
}

func newCall(sub *Submission, skill *agent.Skill, definition tool.Definition) (*Call, error) {
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
		Tool:           definition.Name,
		ExposedName:    sub.Entry.Name,
		Pin:            definition.Pin(),
		Arguments:      sub.Arguments,
		caller:         sub.Caller,
	}, nil
}

// refuse records a call that ends where it began, unless it repeats one that was let through before.
func (s *Service) refuse(ctx context.Context, c *Call, sub *Submission, status Status, code, message string) (Ticket, error) {
	if before, err := s.repeated(ctx, sub); err != nil || before.Attached {
		return before, err
	}
	c.Status, c.Code, c.Message = status, code, message
	c.Arguments, c.Files, c.request = c.Made(), nil, nil // nothing of it is kept for a server
	item := &intakeItem{call: c, move: submission(ctx, c, sub, map[string]any{"code": code})}
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
func (s *Service) submitDirect(ctx context.Context, c *Call, sub *Submission, skill *agent.Skill, server tool.Server, definition tool.Definition) (Ticket, error) {
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
	s.background.Go(func() { s.send(c, skill, server, definition) })
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

func denial(rule string) (code, message string) {
	switch rule {
	case approval.RuleToolGone:
		return CodeDefinitionChanged, "the skill server no longer offers this tool"
	case approval.RuleRefused:
		return CodeDefinitionChanged, definitionRefused
	}
	return CodeToolDisabled, "an operator switched this tool off"
}

const definitionRefused = "an operator refused the tool's present definition"

func listProblems(problems []tool.Problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
