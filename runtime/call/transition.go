package call

//go:generate go test -run ^TestTransitions$ . -update

import (
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// event is the cause of a change of status.
type event string

// The events. Each has one [transition].
const (
	onSubmit     event = "submit"     // a call is recorded
	onApprove    event = "approve"    // a reviewer approves it
	onUndo       event = "undo"       // the reviewer takes the approval back before the call may be claimed
	onAskAgain   event = "ask_again"  // a rule that did not apply before its approval applies now
	onSettle     event = "settle"     // a reviewer rejects it, its agent cancels it, or its deadline passes
	onResume     event = "resume"     // its skill is connected
	onAbandon    event = "abandon"    // the wait for a connection is cancelled, or its deadline passes
	onClaim      event = "claim"      // an instance is about to send it
	onRelease    event = "release"    // its caller, which executes it, may do so
	onRefuse     event = "refuse"     // it differs from the approved call, or it cannot be sent after its claim
	onLapse      event = "lapse"      // its approval lapsed
	onCancel     event = "cancel"     // it is canceled after its approval
	onSuspend    event = "suspend"    // its server refused to execute it until the skill is connected
	onGiveBack   event = "give_back"  // its instance claimed it and did not send it
	onFinish     event = "finish"     // its instance knows the outcome
	onComplete   event = "complete"   // a carried call has its result, or the caller of a released call reported the outcome
	onUnreported event = "unreported" // the caller of a released call did not report the outcome
	onRecall     event = "recall"     // its instance sent it, and the database lost the approval
	onForget     event = "forget"     // its instance sent it, and the database lost that its skill was connected
	onLose       event = "lose"       // its instance is gone, or the database lost its outcome
)

// claimant is the instance whose claim an executing call must have for a transition.
type claimant int

const (
	anyInstance  claimant = iota
	thisInstance          // the instance that makes the move
	noInstance            // of carried and released calls
)

// transition is one row of the state machine of calls.
type transition struct {
	event    event
	from     []Status // empty: the call is new
	to       []Status
	claim    claimant
	when     string // further SQL condition for the call; empty: none
	noun     string // of the audit event's action
	verb     string // empty: the new status
	announce bool   // whether the waiters of the call in every process are woken

	update, updateOne string // its statements for many calls and for one; see [transition.buildUpdate]
}

// transitions is the state machine of calls. docs/design.md shows it.
func transitions() []transition {
	sent := []Status{Approved, Executing}
	isPending := approval.HasStatus("calls.id", "'{"+string(approval.Pending)+"}'")
	return []transition{
		{event: onSubmit, to: []Status{NeedsConnection, Parked, Executing, Denied, Invalid}, noun: "call"},
		{event: onApprove, from: []Status{Parked}, to: []Status{Approved}, when: isPending, noun: "approval"},
		{event: onUndo, from: []Status{Approved}, to: []Status{Parked}, noun: "approval", verb: "undone"},
		{event: onAskAgain, from: []Status{Approved}, to: []Status{Parked}, noun: "approval", verb: "asked_again", announce: true},
		{event: onSettle, from: []Status{Parked}, to: []Status{Rejected, Expired, Cancelled}, when: isPending, noun: "approval", announce: true},
		{
			event: onResume, from: []Status{NeedsConnection}, to: []Status{Parked, Approved, Executing, Denied, Invalid},
			noun: "call", verb: "connected", announce: true,
		},
		{event: onAbandon, from: []Status{NeedsConnection}, to: []Status{Expired, Cancelled}, noun: "call", announce: true},
		{event: onClaim, from: []Status{Approved}, to: []Status{Executing}, when: "calls.gate_host IS NULL AND NOT " + approval.Unclaimable("calls.id"), noun: "call"},
		{
			event: onRelease, from: []Status{Approved}, to: []Status{Executing},
			when: "calls.gate_host IS NOT NULL AND NOT " + approval.Unclaimable("calls.id"), noun: "call", verb: "released", announce: true,
		},
		{event: onRefuse, from: sent, to: []Status{Denied, Failed, Invalid}, claim: thisInstance, noun: "call", announce: true},
		{
			event: onLapse, from: sent, to: []Status{Expired}, claim: thisInstance, when: approval.Lapsed("calls.id"),
			noun: "call", announce: true,
		},
		{event: onCancel, from: []Status{Approved}, to: []Status{Cancelled}, noun: "call", announce: true},
		{event: onSuspend, from: sent, to: []Status{NeedsConnection}, claim: thisInstance, noun: "call", announce: true},
		{
			event: onGiveBack, from: []Status{Executing}, to: []Status{Approved}, claim: thisInstance,
			noun: "call", verb: "given_back", announce: true,
		},
		{
			event: onFinish, from: []Status{Executing}, to: []Status{Succeeded, Failed, Unknown, Expired, Denied}, claim: thisInstance,
			noun: "call", announce: true,
		},
		{event: onComplete, from: []Status{Executing}, to: []Status{Succeeded, Failed}, claim: noInstance, noun: "call", announce: true},
		{event: onUnreported, from: []Status{Executing}, to: []Status{Unknown}, claim: noInstance, noun: "call", announce: true},
		{event: onRecall, from: []Status{Parked}, to: []Status{Unknown}, noun: "call", announce: true},
		{event: onForget, from: []Status{NeedsConnection}, to: []Status{Unknown}, noun: "call", announce: true},
		{event: onLose, from: sent, to: []Status{Unknown}, noun: "call", announce: true},
	}
}

// newTransitions returns the rows by event.
func newTransitions() map[event]*transition {
	rows := map[event]*transition{}
	for _, t := range transitions() {
		t.update = t.buildUpdate()
		t.updateOne = postgres.ForOneRow(t.update)
		rows[t.event] = &t
	}
	return rows
}

// auditAction returns the action of the audit event of a move to a status.
func (t *transition) auditAction(to Status) audit.Action {
	switch {
	case t.verb != "":
		return audit.Action(t.noun + "." + t.verb)
	case t.event == onSubmit && to == Executing:
		return audit.CallAllowed
	default:
		return audit.Action(t.noun + "." + string(to))
	}
}

// happeningKinds returns the callbacks of a move to a status.
func (t *transition) happeningKinds(to Status) []HappeningKind {
	var list []HappeningKind
	if to == Parked {
		list = append(list, HappenedParked)
	}
	if slices.Contains(t.from, Parked) {
		list = append(list, HappenedDecided)
	}
	if to.Final() {
		list = append(list, HappenedFinished)
	}
	return list
}

// endsWait reports whether the call waited for a connection until the move.
func (t *transition) endsWait() bool { return slices.Contains(t.from, NeedsConnection) }

// buildUpdate returns the SQL that moves calls. Its arguments are those of [Service.moveColumns], and it returns the ids of the calls that moved.
func (t *transition) buildUpdate() string {
	statuses := make([]string, len(t.from))
	for i, from := range t.from {
		statuses[i] = "calls.status = '" + string(from) + "'"
		if from != Executing {
			continue
		}
		switch t.claim {
		case thisInstance:
			statuses[i] += " AND calls.claimed_by = $1"
		case noInstance:
			statuses[i] += " AND calls.claimed_by IS NULL"
		case anyInstance:
		}
	}
	sql := moveSQL + "(" + strings.Join(statuses, " OR ") + ")"
	if t.when != "" {
		sql += " AND " + t.when
	}
	return sql + " RETURNING calls.id"
}

// moveSQL moves the calls of $2 to the statuses of $3. $1 is this instance.
const moveSQL = `UPDATE calls SET status = m.status, code = m.code, failure = m.failure, effect = m.effect, message = m.message,
		result = m.result, measured = m.measured::bigint[], error_line = m.error_line,
		claimed_by = CASE m.status WHEN 'executing' THEN $1::uuid WHEN 'approved' THEN NULL WHEN 'needs_connection' THEN NULL ELSE calls.claimed_by END,
		claimed_at = CASE m.status WHEN 'executing' THEN holdpoint_now() WHEN 'approved' THEN NULL WHEN 'needs_connection' THEN NULL
			WHEN 'unknown' THEN coalesce(calls.claimed_at, holdpoint_now()) ELSE calls.claimed_at END,
		finished_at = CASE WHEN m.final THEN holdpoint_now() END
	FROM unnest((SELECT $2::uuid[]), $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::text[], $10::text[], $11::boolean[])
		AS m(id, status, code, failure, effect, message, result, measured, error_line, final)
	WHERE calls.id = m.id AND `
