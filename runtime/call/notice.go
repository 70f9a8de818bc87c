package call

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
)

// AttentionKind is the reason why people are notified of an approval.
type AttentionKind string

// The kinds of attention.
const (
	Waits     AttentionKind = "waits"     // the approval is new
	Escalated AttentionKind = "escalated" // a step of its escalation is taken
	Alone     AttentionKind = "alone"     // it is new, and no reviewer may decide it
	Asked     AttentionKind = "asked"     // a question of the call's server waits for a decision
	Planned   AttentionKind = "planned"   // a plan waits for a decision; its id is that of the approval
	Settled   AttentionKind = "settled"   // it is no longer pending
)

// Attention is a notice to people about an approval.
type Attention struct {
	Kind     AttentionKind
	Approval approval.Approval
	Agent    string // its name; empty if Settled
	Skill    string // its name; empty if Settled
	Deadline time.Time
	// Of Escalated: the number of the step, from 1, and who is asked.
	Step   int
	Teams  []string
	People []uuid.UUID
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
