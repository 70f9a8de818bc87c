package call

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// AttentionKind is the reason why people are notified of an approval.
type AttentionKind string

// The kinds of attention.
const (
	Waits      AttentionKind = "waits"       // the approval is new
	Escalated  AttentionKind = "escalated"   // a step of its escalation is taken
	Alone      AttentionKind = "alone"       // it is new, and no reviewer may decide it
	Unmeetable AttentionKind = "unmeetable"  // it is new, and the present reviewers cannot meet its policies
	Asked      AttentionKind = "asked"       // a question of the call's server waits for a decision
	BrokeGlass AttentionKind = "broke_glass" // one person approved it alone, and another has to review that
	Planned    AttentionKind = "planned"     // a plan waits for a decision; its id is that of the approval
	Settled    AttentionKind = "settled"     // it is no longer pending, or was reviewed
)

// Attention is a notice to people about an approval.
type Attention struct {
	Kind     AttentionKind
	Approval approval.Approval
	Agent    string    // its name; empty if Settled
	Skill    string    // its name; empty if Settled
	Deadline time.Time // zero: none
	Step     int       // of Escalated, from 1
	Asked    approval.Audience
	By       uuid.UUID // of BrokeGlass, who approved
	GateOnly bool      // Holdpoint does not execute the call
}

// newAttention builds the notice for a call that waits, to all who are asked first.
func newAttention(kind AttentionKind, c *Call, a *approval.Approval) Attention {
	n := Attention{Kind: kind, Approval: *a, Agent: c.Agent, Skill: c.Skill, Deadline: a.Deadline, Asked: a.FirstAudience(), GateOnly: c.GateOnly}
	n.Asked.Everyone = n.Asked.Everyone || kind == Alone || kind == Unmeetable
	return n
}

// nameAttention is [newAttention] where the names of the agent and the skill are not known.
func nameAttention(ctx context.Context, db postgres.Querier, kind AttentionKind, a *approval.Approval) (Attention, error) {
	names, err := agent.Names(ctx, db, []uuid.UUID{a.AgentID, a.SkillID})
	if err != nil {
		return Attention{}, err
	}
	gateOnly, err := isGateOnly(ctx, db, a.CallID)
	return newAttention(kind, &Call{Agent: names[a.AgentID], Skill: names[a.SkillID], GateOnly: gateOnly}, a), err
}

func isGateOnly(ctx context.Context, db postgres.Querier, id uuid.UUID) (bool, error) {
	found, err := readIDs(ctx, db, `SELECT id FROM calls WHERE id = $1 AND gate_host IS NOT NULL`, id)
	if err != nil {
		return false, fmt.Errorf("find out who executes call %s: %w", id, err)
	}
	return len(found) > 0, nil
}

// notifyPeople hands notices to the service that sends them, in tx.
func (s *Service) notifyPeople(ctx context.Context, tx pgx.Tx, list ...Attention) error {
	if s.Attend == nil || len(list) == 0 {
		return nil
	}
	if err := s.Attend(ctx, tx, list); err != nil {
		return fmt.Errorf("notify people of approvals: %w", err)
	}
	return nil
}

// newSettledAttention builds the notice for an approval that has ended.
func newSettledAttention(a approval.Approval) Attention {
	return Attention{Kind: Settled, Approval: a, Deadline: a.Deadline}
}

// HappeningKind is the kind of a callback about a call.
type HappeningKind string

// The kinds of happenings.
const (
	HappenedParked   HappeningKind = "call.parked"   // the call waits for a decision
	HappenedDecided  HappeningKind = "call.decided"  // it was approved, rejected, expired or cancelled
	HappenedFinished HappeningKind = "call.finished" // it has ended
)

// Happening is a change of a call that callbacks report.
type Happening struct {
	CallID  uuid.UUID
	AgentID uuid.UUID // uuid.Nil: not known here
	Kind    HappeningKind
}

// CallFacts is SQL that reads, in the transaction of a [Happening], the facts about calls that callbacks may contain. Its
// columns are id, agent_id, conversation_id, tool (the name that the agent uses), status and code.
const CallFacts = `SELECT id, agent_id, conversation_id, exposed_name AS tool, status, code FROM calls`

// Publish adds to a batch the statements that store callbacks for happenings. They come after the statements that move the
// calls, and apply only to happenings for which a condition holds then: SQL about this package's tables, in which e.subject_id
// is the call's id.
type Publish func(batch *pgx.Batch, condition string, list []Happening) error
