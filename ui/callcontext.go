package ui

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

const (
	recordAge  = 30 * 24 * time.Hour
	likeWindow = 50 // calls side by side
)

// context adds what a reviewer compares a waiting call with, and what an edit changed.
func (u *UI) context(ctx context.Context, access identity.Access, s *subject, v *view.Call) error {
	v.Viewers = s.viewers
	if s.call.ConversationID != uuid.Nil {
		v.ConversationURL = conversationURL(s.call.ConversationID)
	}
	if err := u.talked(ctx, s, v); err != nil {
		return err
	}
	if s.call.Submitted != nil && !s.edited {
		if diff, err := s.compare(s.call.Submitted, s.call.Arguments); err == nil {
			v.Sent = &view.Changed{By: personName(s.approvalEditor(), s.names), Who: s.who(s.approvalEditor()), At: s.editedAt(), Own: s.wrote, Waits: s.editWaits(), Diff: diff}
		}
	}
	if s.approval == nil || s.approval.Status != approval.Pending {
		return nil
	}
	record, err := u.cfg.Calls.Record(ctx, s.call.SkillID, s.call.Tool, recordAge)
	if err != nil {
		return err
	}
	v.Rule, v.Record = ruleWords(s.approval.Rule), view.Record(record)
	v.Team, v.EscalateTo, v.Escalated = s.approval.Team, s.approval.EscalateTo, s.approval.EscalatedAt
	v.Actions.MayExtend = s.approval.MayExtend()
	if v.Alone, err = u.alone(ctx, s); err != nil {
		return err
	}
	if access.Has(identity.Reviewer) {
		like, err := u.cfg.Calls.Like(ctx, s.approval, likeWindow)
		if err != nil {
			return err
		}
		v.Like = len(like)
	}
	return u.since(ctx, s, v)
}

// talked adds what is known of the words around a call: those that led to it, and the conversation that answers it.
func (u *UI) talked(ctx context.Context, s *subject, v *view.Call) error {
	led, err := u.ledTo(ctx, &s.call)
	if err != nil {
		return err
	}
	if v.Led = led; led != nil {
		v.ConversationURL = led.URL
	}
	if !v.Sentence.Asked {
		return nil
	}
	answering, err := u.cfg.Converse.Answering(ctx, &s.call)
	if errors.Is(err, converse.ErrNotFound) {
		return nil
	}
	v.AnswerURL = conversationURL(answering)
	return err
}

func (u *UI) alone(ctx context.Context, s *subject) (bool, error) {
	someone, err := u.cfg.Calls.Reviewed(ctx, &s.call)
	return !someone, err
}

// since says what differs from the last approved call like it.
func (u *UI) since(ctx context.Context, s *subject, v *view.Call) error {
	last, err := u.cfg.Calls.LastApproved(ctx, s.approval)
	if errors.Is(err, approval.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := u.names(ctx, last.Approval.DecidedBy)
	if err != nil {
		return err
	}
	since := view.Since{
		URL: callURL(last.Call.ID), Decision: *presentDecision(last.Approval, names), Agent: last.Call.Agent,
		SameAgent: last.Call.AgentID == s.call.AgentID, SameTool: last.Call.Pin == s.call.Pin,
	}
	if since.Diff, err = s.compare(last.Call.Arguments, s.call.Arguments); err == nil {
		v.Since = &since
	}
	return nil
}

// compare says what differs between arguments of the call's tool, or that they are too many to say it.
func (s *subject) compare(before, after []byte) (hostile.Diff, error) {
	limits := hostile.Folded()
	limits.Secrets = s.secrets()
	diff, err := hostile.ReadDiff(before, after, limits)
	if diff.Unwieldy {
		err = nil
	}
	return diff, err
}

func sentence(c *call.Call, names map[uuid.UUID]string) view.Sentence {
	return view.Sentence{
		Agent: c.Agent, Verb: verb(c.Status), Skill: c.Skill, Tool: c.Tool, Principal: personName(c.PrincipalID, names),
		AgentID: shortID(c.AgentID), SkillID: shortID(c.SkillID), PrincipalID: shortID(c.PrincipalID), Asked: converse.IsAsk(c),
	}
}
