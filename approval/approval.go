// Package approval owns the confirmation queue: requests to decide about
// parked calls, their deadlines and decisions, and the rule that says which calls need
// one. It knows nothing of how a call is made; package call moves the call in
// the same transaction.
package approval

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
)

// Status is where an approval stands. Every other status than pending is final.
type Status string

// The statuses of an approval.
const (
	Pending   Status = "pending"
	Approved  Status = "approved"
	Rejected  Status = "rejected"
	Expired   Status = "expired"
	Cancelled Status = "cancelled"
)

// Approval is the request to a reviewer to decide about one parked call.
// Its id is the call's.
type Approval struct {
	CallID      uuid.UUID
	AgentID     uuid.UUID
	PrincipalID uuid.UUID // uuid.Nil: none
	SkillID     uuid.UUID
	Tool        string
	Status      Status
	Digest      Digest
	// Original is the digest of the call as it was made, when a reviewer edited its arguments; else it is zero.
	Original    Digest
	EditedBy    uuid.UUID  // who proposed the edit that waits for, or got, a second reviewer; uuid.Nil: there is none
	EditedAt    *time.Time // when
	Rule        Rule       // why the call was parked: one of [ParkingRules]
	Team        string     // whose queue it is in first; empty: everybody's
	EscalateTo  string     // the team that is asked at half of the deadline; empty: none
	EscalatedAt *time.Time
	CreatedAt   time.Time
	Deadline    time.Time
	Extended    time.Duration // what reviewers added to the deadline
	DecidedAt   *time.Time
	DecidedBy   uuid.UUID // the person; uuid.Nil when nobody decided
	DecidedVia  audit.Origin
	Note        string // the reviewer's note or reason
	// ApprovedUntil is when an approval lapses if its call was not sent. Nil: it is not approved.
	ApprovedUntil *time.Time

	editEnvelope Digest // of the edit that waits; see [AcceptEdit]
}

// Edited reports whether a reviewer gave the call other arguments than it was made with.
func (a *Approval) Edited() bool { return a.Original != Digest{} }

// Errors of this package.
var (
	ErrNotFound = errors.New("approval not found")
	// ErrDigestMismatch: the decision was about something else than what waits.
	ErrDigestMismatch = errors.New("digest mismatch")
	// ErrSelfApproval: the decider is the call's principal.
	ErrSelfApproval = errors.New("a person does not decide their own call")
	// ErrOwnEdit: the reviewer who edited the arguments may not approve the edit.
	ErrOwnEdit = errors.New("another reviewer has to approve this edit")
	// ErrInvitedApproval: an unverified decider was invited by the call's principal, or by a person who made a key of its agent.
	ErrInvitedApproval = errors.New("an unverified person does not decide calls of the person who invited them")
	// ErrExtended: the deadline was moved as far as it may be.
	ErrExtended = errors.New("the deadline was extended as far as it may be")
)

// ConflictError tells a late decision what was decided before.
type ConflictError struct {
	Approval Approval
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("approval %s was %s before", e.Approval.CallID, e.Approval.Status)
}
