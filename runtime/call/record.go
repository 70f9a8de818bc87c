package call

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// HappeningKind is what became of a call, for those that an operator had told of it.
type HappeningKind string

// The kinds of happenings.
const (
	HappenedParked   HappeningKind = "call.parked"   // it waits for a decision
	HappenedDecided  HappeningKind = "call.decided"  // it waits no more: approved, rejected, expired, cancelled
	HappenedFinished HappeningKind = "call.finished" // it reached its end
)

// Happening is what became of one call.
type Happening struct {
	CallID  uuid.UUID
	AgentID uuid.UUID // uuid.Nil: not known here
	Kind    HappeningKind
}

// CallFacts is SQL that reads, in the transaction of a [Happening], what may be told of calls. Its columns are id,
// agent_id, conversation_id, tool (as the agent calls it), status and code.
const CallFacts = `SELECT id, agent_id, conversation_id, exposed_name AS tool, status, code FROM calls`

// Publish adds to a batch what has others told of happenings, once it is committed. Its statements come after those that move the
// calls, and do something only for happenings for which a condition holds then: SQL about this package's tables, in
// which e.subject_id is the call's id.
type Publish func(batch *pgx.Batch, condition string, list []Happening) error
