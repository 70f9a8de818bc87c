// Package approval owns the approval queue (table approvals): requests to decide on parked calls, their deadlines,
// decisions and edits, the digests that decisions are bound to, and the verdict that says which calls need an approval.
//
// It does not own calls. Package call makes and sends them, and moves a call in the same transaction as its approval.
// Functions that change an approval therefore take the caller's transaction.
//
// All deadlines go by the database's clock, holdpoint_now().
package approval

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
)

// Status is the state of an approval. Every status but pending is final.
type Status string

// The statuses of an approval.
const (
	Pending   Status = "pending"
	Approved  Status = "approved"
	Rejected  Status = "rejected"
	Expired   Status = "expired"
	Cancelled Status = "cancelled"
)

// Approval is a request to decide on one parked call. Its id is the call's.
type Approval struct {
	CallID      uuid.UUID
	AgentID     uuid.UUID
	PrincipalID uuid.UUID // uuid.Nil: none
	SkillID     uuid.UUID
	Tool        string
	Status      Status
	Digest      Digest
	// Original is the digest of the call as its agent made it, if a reviewer edited the arguments; otherwise zero.
	Original    Digest
	EditedBy    uuid.UUID  // who proposed the edit that needs, or got, a second reviewer; uuid.Nil: no such edit
	EditedAt    *time.Time // when the edit was proposed
	Rule        Rule       // why the call is parked: one of [ParkingRules]
	Team        string     // the team that is asked first; empty: none
	EscalateTo  string     // the team that is also asked when half of the time is over, if there is no Escalation; empty: none
	EscalatedAt *time.Time // when the first step was taken
	Escalation  []EscalationStep
	// EscalatedTimes are those of the steps that were taken. AskedTeams and AskedPeople were asked by them.
	EscalatedTimes []time.Time
	AskedTeams     []string
	AskedPeople    []uuid.UUID
	CreatedAt      time.Time
	AskedAt        time.Time // when people were asked: CreatedAt, or later if they were asked again
	Deadline       time.Time
	Extended       time.Duration // the time that reviewers added to the deadline
	DecidedAt      *time.Time
	DecidedBy      uuid.UUID // uuid.Nil: no person decided
	DecidedVia     audit.Origin
	Note           string // the reviewer's note or reason
	// ApprovedUntil is when the approval lapses if its call has not been sent. Nil: it is not approved.
	ApprovedUntil *time.Time
	UndoUntil     *time.Time // when an approved call may be claimed; nil: at once
	Seen          *Seen      // nil: not measured
	Destructive   bool       // as the tool's server claimed when the call was made
	Unusual       int        // arguments that differed from those of approved calls when the call was parked or the edit proposed
	HeldBy        uuid.UUID  // the reviewer who claimed it or was assigned; uuid.Nil: none
	HeldAt        *time.Time // when
	AssignedBy    uuid.UUID  // uuid.Nil: HeldBy claimed it
	Comments      int        // their number; see [QueueComments]
	// Policies have to be met, as they were when the call was parked, or a change of one was noticed. Empty: one reviewer decides.
	Policies []policy.Policy
	// BrokeGlass: one person approved alone, with a reason, though the policies ask for others.
	BrokeGlass  bool
	GlassReview *GlassReview // nil: nobody reviewed that

	editEnvelope Digest // the envelope of the proposed edit; see [AcceptEdit]
}

// GlassReview is the later review of an approval that one person gave alone.
type GlassReview struct {
	By   uuid.UUID
	At   time.Time
	Note string
}

// Edited reports whether a reviewer changed the call's arguments.
func (a *Approval) Edited() bool { return a.Original != Digest{} }

// Errors of this package.
var (
	ErrNotFound = fault.NotFound("approval not found")
	// ErrDigestMismatch: the decision's digest is not the digest of the pending call.
	ErrDigestMismatch = errors.New("digest mismatch")
	// ErrSelfApproval: the reviewer is the call's principal.
	ErrSelfApproval = errors.New("a person does not decide their own call")
	// ErrOwnEdit: the reviewer who edited the arguments may not approve the edit.
	ErrOwnEdit = errors.New("another reviewer has to approve this edit")
	// ErrInvitedApproval: the reviewer is unverified and was invited by the call's principal, or by a person who made a key of
	// its agent.
	ErrInvitedApproval = errors.New("an unverified person does not decide calls of the person who invited them")
	// ErrExtended: the deadline was extended [MaxExtensions] times.
	ErrExtended = errors.New("the deadline was extended as far as it may be")
	// ErrComments: the approval has [MaxComments] comments.
	ErrComments = errors.New("the call has as many comments as it may have")
)

// ConflictError is the answer to a decision that came too late. Approval holds the earlier decision.
type ConflictError struct {
	Approval Approval
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("approval %s was %s before", e.Approval.CallID, e.Approval.Status)
}
