package review

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

const (
	recordAge  = 30 * 24 * time.Hour
	likeWindow = 50 // calls side by side
)

// addContext adds the facts that a reviewer compares a pending call with, and the changes of an edit.
func (h *reader) addContext(ctx context.Context, access identity.Access, s *subject, v *Call) error {
	v.Viewers = s.viewers
	if s.call.ConversationID != uuid.Nil {
		v.ConversationURL = present.ConversationURL(s.call.ConversationID)
		titles, err := h.converse.Titles(ctx, []uuid.UUID{s.call.ConversationID})
		if err != nil {
			return err
		}
		v.ConversationTitle = titles[s.call.ConversationID]
	}
	if err := h.addTeamwork(ctx, access, s, v); err != nil {
		return err
	}
	if err := h.addConversation(ctx, s, v); err != nil {
		return err
	}
	if s.call.Submitted != nil && !s.edited {
		if diff, err := s.compareArguments(s.call.Submitted, s.call.Arguments); err == nil {
			v.Sent = &Changed{By: present.PersonName(s.approvalEditor(), s.names), Who: s.identifyPerson(s.approvalEditor()), At: s.editedAt(), Own: s.wrote, Waits: s.editWaits(), Diff: diff}
		}
	}
	if !s.isPending() {
		return nil
	}
	record, err := h.calls.ReadToolHistory(ctx, s.call.SkillID, s.call.Tool, recordAge)
	if err != nil {
		return err
	}
	v.Rule, v.Record = present.DescribeRule(s.approval.Rule), Record(record)
	v.Team, v.EscalateTo, v.Escalated = s.approval.Team, s.approval.EscalateTo, s.approval.EscalatedAt
	v.Actions.MayExtend = s.approval.MayExtend()
	someone, err := h.calls.HasReviewer(ctx, &s.call)
	if err != nil {
		return err
	}
	v.Alone = !someone
	if access.Has(identity.Reviewer) {
		if v.Like, err = h.calls.CountSimilar(ctx, s.approval, likeWindow); err != nil {
			return err
		}
	}
	return nil
}

// addConversation adds the message that led to a call, and the conversation that answers it.
func (h *reader) addConversation(ctx context.Context, s *subject, v *Call) error {
	led, err := h.readLed(ctx, &s.call)
	if err != nil {
		return err
	}
	if v.Led = led; led != nil {
		v.ConversationURL = led.URL
	}
	if !v.Sentence.Asked {
		return nil
	}
	answering, err := h.converse.Answering(ctx, &s.call)
	if errors.Is(err, converse.ErrNotFound) {
		return nil
	}
	v.AnswerURL = present.ConversationURL(answering)
	return err
}

// compareArguments returns the differences between two sets of arguments of the call's tool.
func (s *subject) compareArguments(before, after []byte) (hostile.Diff, error) {
	limits := hostile.Folded()
	limits.Secrets = s.secrets
	diff, err := hostile.ReadDiff(before, after, limits)
	if diff.Unwieldy {
		err = nil
	}
	return diff, err
}

func presentSentence(c *call.Call, names map[uuid.UUID]string) Sentence {
	return Sentence{
		Agent: c.Agent, Form: sentenceForm(c.Status), Skill: c.Skill, Tool: c.Tool, Principal: present.PersonName(c.PrincipalID, names),
		AgentID: present.ShortID(c.AgentID), SkillID: present.ShortID(c.SkillID), PrincipalID: present.ShortID(c.PrincipalID), Asked: converse.IsAsk(c),
	}
}

// readLed returns the message and the reason that led to a call, or nil if they are not known.
func (h *reader) readLed(ctx context.Context, c *call.Call) (*Led, error) {
	said, err := h.converse.Context(ctx, c.ID)
	if errors.Is(err, converse.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := &Led{URL: present.EntryURL(said.ConversationID, said.Seq), At: said.MessageAt}
	if said.Reason != "" {
		reason := hostile.Fold(said.Reason, present.Beside())
		v.Reason = &reason
	}
	if m := said.Message; m != nil {
		names, err := h.Names(ctx, m.By)
		if err != nil {
			return nil, err
		}
		text := hostile.Fold(m.Text, present.Beside())
		v.By, v.Said = present.PersonName(m.By, names), &text
	}
	return v, nil
}
