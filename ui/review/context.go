package review

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

const (
	recordAge  = 30 * 24 * time.Hour
	likeWindow = 50 // calls side by side
)

// surroundings are the facts that a reviewer compares a call with.
type surroundings struct {
	titles  map[uuid.UUID]string // of its conversation
	choices view.QueueChoices    // of the reader, for a call that is decided or has their vote
	unvoted bool                 // a call is pending on which the reader, who voted on this one, has not voted
	history approval.ToolHistory // these are for a pending one
	like    int                  // pending calls that differ only in their arguments
	newest  uuid.UUID            // see [call.QueueNewest]
}

// completeShown completes a call that is shown, and reads its surroundings in the same round trip.
func (h *reader) completeShown(ctx context.Context, s *subject) (*surroundings, error) {
	found, batch := &surroundings{titles: map[uuid.UUID]string{}}, &pgx.Batch{}
	if s.call.ConversationID != uuid.Nil {
		converse.QueueTitles(batch, []uuid.UUID{s.call.ConversationID}, found.titles)
	}
	switch {
	case s.isPending():
		approval.QueueToolHistory(batch, s.call.SkillID, s.call.Tool, recordAge, &found.history)
		approval.QueueSimilarCount(batch, s.approval, likeWindow, &found.like)
		call.QueueNewest(batch, &s.call, &found.newest)
	case s.leadsOn():
		h.queueChoices(batch, s.access.Person.ID, &found.choices)
	}
	if s.ownVote() != nil {
		h.queueChoices(batch, s.access.Person.ID, &found.choices)
		approval.QueueUnvoted(batch, s.access.Person.ID, &found.unvoted)
	}
	return found, h.completeSubject(ctx, s, batch)
}

// addContext adds what a reviewer compares a pending call with, and the changes of an edit.
func (h *reader) addContext(ctx context.Context, s *subject, known *surroundings, v *Call) error {
	v.Viewers = s.viewers
	if s.call.ConversationID != uuid.Nil {
		v.ConversationURL = present.ConversationURL(s.call.ConversationID)
		v.ConversationTitle = known.titles[s.call.ConversationID]
	}
	if err := h.addGrant(ctx, s, v); err != nil {
		return err
	}
	s.addTeamwork(ctx, known, v)
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
	v.Rule, v.Record = present.DescribeRule(s.approval.Rule), Record(known.history)
	v.Team = s.approval.Team
	for _, step := range s.approval.Plan() {
		v.Escalation = append(v.Escalation, Step{Who: present.StepNames(step.EscalationStep), At: step.At, Taken: step.Taken})
	}
	v.Actions.MayExtend = s.approval.MayExtend()
	lack, err := h.calls.FindLack(ctx, s.approval)
	if err != nil {
		return err
	}
	v.Alone = lack.Nobody
	for i := range lack.Shortages {
		v.Shortages = append(v.Shortages, present.DescribeShortage(&lack.Shortages[i]))
	}
	if s.access.Has(identity.Reviewer) {
		v.Like = known.like
	}
	return nil
}

// addGrant adds the grant that let a call pass, and whether the reader can make one from it.
func (h *reader) addGrant(ctx context.Context, s *subject, v *Call) error {
	if s.call.GrantID != uuid.Nil {
		v.GrantURL = present.GrantURL(s.call.GrantID)
		g, err := h.agents.GetGrant(ctx, s.call.GrantID)
		if err == nil && g.PlanID != uuid.Nil {
			v.GrantURL, v.PlanURL = "", present.PlanURL(g.PlanID)
		} else if err != nil && !errors.Is(err, agent.ErrNotFound) {
			return err
		}
	}
	if s.own || s.invited || s.limit != nil || s.editWaits() {
		return nil //nolint:nilerr // the page says why the reader may not decide
	}
	err := h.calls.CheckGrantable(ctx, &s.call)
	if errors.Is(err, call.ErrNoGrants) {
		return nil
	}
	v.LikeGrantURL = v.URL + "/grant"
	return err
}

// addConversation adds the message that led to a call, and the conversation that answers it.
func (h *reader) addConversation(ctx context.Context, s *subject, v *Call) error {
	if v.Led = s.presentLed(); v.Led != nil {
		v.ConversationURL = v.Led.URL
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

// presentLed presents the message and the reason that led to a call, or returns nil if they are not known.
func (s *subject) presentLed() *Led {
	said := s.led
	if said == nil {
		return nil
	}
	v := &Led{URL: present.EntryURL(said.ConversationID, said.Seq), At: said.MessageAt}
	if said.Reason != "" {
		reason := hostile.Fold(said.Reason, present.Beside())
		v.Reason = &reason
	}
	if m := said.Message; m != nil {
		text := hostile.Fold(m.Text, present.Beside())
		v.By, v.Said = present.PersonName(m.By, s.names), &text
	}
	return v
}
