package call

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
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

// recordIf adds to a batch all that tells of what became of calls: the audit events, and what they mean to callbacks. agents are
// the calls' own, event by event; nil: they are not known here.
func (s *Service) recordIf(batch *pgx.Batch, condition string, agents []uuid.UUID, events ...audit.Event) error {
	if err := audit.QueueIf(batch, condition, events...); err != nil {
		return err
	}
	if s.Publish == nil {
		return nil
	}
	var list []Happening
	for i := range events {
		h := Happening{CallID: events[i].Subject}
		if agents != nil {
			h.AgentID = agents[i]
		}
		for _, h.Kind = range happened(&events[i]) {
			list = append(list, h)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return s.Publish(batch, condition, list)
}

// record is recordIf for transactions that are under way.
func (s *Service) record(ctx context.Context, tx pgx.Tx, agents []uuid.UUID, events ...audit.Event) error {
	if len(events) == 0 {
		return nil
	}
	for i := range events {
		events[i].SetOrigin(ctx)
	}
	batch := &pgx.Batch{}
	if err := s.recordIf(batch, "true", agents, events...); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("record %s: %w", events[0].Action, err)
	}
	return nil
}

// happened is what an audit event means to callbacks. Nothing: they are not told of it.
func happened(e *audit.Event) []HappeningKind {
	noun, verb, _ := strings.Cut(e.Action, ".")
	status := Status(verb)
	if e.Action == actionConnected { // which goes on with the status that it says
		status, _ = e.Data["status"].(Status)
	}
	switch {
	case noun == "approval" && status == Approved:
		return []HappeningKind{HappenedDecided}
	case noun == "approval" && (status == Rejected || status == Expired || status == Cancelled):
		return []HappeningKind{HappenedDecided, HappenedFinished}
	case noun != "call":
		return nil
	case status == Parked:
		return []HappeningKind{HappenedParked}
	}
	switch status {
	case Succeeded, Failed, Expired, Cancelled, Denied, Invalid, Unknown:
		return []HappeningKind{HappenedFinished}
	default:
		return nil
	}
}

// actionConnected is the event of a call whose wait for a connection is over.
const actionConnected = "call.connected"

func agentsOf(items []*intakeItem) []uuid.UUID {
	ids := make([]uuid.UUID, len(items))
	for i, item := range items {
		ids[i] = item.call.AgentID
	}
	return ids
}
