package call

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Status is where a call stands.
type Status string

// The statuses of a call; see docs/design.md for the moves between them.
const (
	NeedsConnection Status = "needs_connection"
	Parked          Status = "parked"
	Approved        Status = "approved"
	Executing       Status = "executing"
	Succeeded       Status = "succeeded"
	Failed          Status = "failed"
	Rejected        Status = "rejected"
	Expired         Status = "expired"
	Cancelled       Status = "cancelled"
	Denied          Status = "denied"
	Invalid         Status = "invalid"
	Unknown         Status = "unknown"
)

// Final reports whether the call has reached its end.
func (s Status) Final() bool {
	switch s {
	case NeedsConnection, Parked, Approved, Executing:
		return false
	case Succeeded, Failed, Rejected, Expired, Cancelled, Denied, Invalid, Unknown:
		return true
	}
	return false
}

// The stable codes that say why a call ended as it did.
const (
	CodeInvalidArguments  = "invalid_arguments"
	CodeTooComplex        = "too_complex" // of invalid calls: the arguments cannot be checked within bounds
	CodeRejected          = "rejected"
	CodeExpired           = "expired"
	CodeCancelled         = "cancelled"
	CodeOutcomeUnknown    = "outcome_unknown"
	CodeDefinitionChanged = "definition_changed"
	CodeAssignmentRevoked = "assignment_revoked"
	CodeSkillChanged      = "skill_changed"
	CodeToolDisabled      = "tool_disabled"
	CodeEnvelopeChanged   = "envelope_changed"
	CodeNoPrincipal       = "no_principal"
	CodeNotSendable       = "not_sendable"       // the skill's settings make no request; an operator has to mend them
	CodeFileChanged       = "file_changed"       // an attached file is gone from storage, or is another
	CodeTaskCancelled     = "task_cancelled"     // of failed calls: the server cancelled the task that it had answered with
	CodeNoReviewer        = "no_reviewer"        // of expired calls: there was nobody who might have decided
	CodePersonBlocked     = "person_blocked"     // the principal, the reviewer or the editor was blocked since
	CodeCredentialRevoked = "credential_revoked" //nolint:gosec // G101: of the agent or of the reviewer
	CodeReviewerRemoved   = "reviewer_removed"   // the person who approved is no reviewer any more
	// CodeApprovalLapsed is of expired calls that were approved and not sent in time.
	CodeApprovalLapsed = "approval_lapsed"
)

// Call is one tools/call and everything that happened to it.
type Call struct {
	ID             uuid.UUID
	Status         Status
	Code           string           // see the codes above; for failed calls, the failure's kind
	Failure        tool.FailureKind // failed calls only
	Effect         tool.Effect      // failed and unknown calls
	Message        string           // plain words about the end, for people and models
	AgentID        uuid.UUID
	Agent          string
	PrincipalID    uuid.UUID // uuid.Nil: none
	ConversationID uuid.UUID
	SkillID        uuid.UUID
	Skill          string
	SkillRevision  int64
	Tool           string // the skill's own name
	ExposedName    string // as the agent calls it
	Pin            tool.Pin
	Arguments      json.RawMessage // as they were, or will be, sent
	Submitted      json.RawMessage // as the agent gave them, when a reviewer edited them; else nil
	Result         json.RawMessage // as it came: a JSON-RPC result, or the error object of a jsonrpc_error
	Files          []file.Attached // attached when it was made, whatever of them a reviewer dropped
	Gated          bool
	CreatedAt      time.Time
	FinishedAt     *time.Time
	DeliveredAt    *time.Time
	Late           json.RawMessage // evidence: an outcome that came after the call became unknown
	Resolution     *Resolution     // of an unknown outcome
	Measures       *Measures       // nil: nothing was measured, or it was not sent

	// Partial: arguments or result are too large for a list and were left out of this one.
	Partial bool

	request   json.RawMessage   // see [Call.Outgoing]; nil also when it was left out of a list
	sum       [sha256.Size]byte // of the arguments, when Partial
	claimedBy uuid.UUID         // the instance that sends it
	caller    Caller
	advance   *advance        // see [Submission]; nil: none
	unfrozen  json.RawMessage // as the agent gave them, before its attachments became URLs; nil: it has none, or they were left out of a list
	hasFiles  bool            // Files are, or have yet to be, read
	trace     telemetry.Pending
	began     time.Time // when it was submitted: by this process's clock, or, when it was read, the database's
	awaited   bool      // others may wait for it in another process, however short it takes
}

// Made are the arguments as the agent gave them.
func (c *Call) Made() json.RawMessage {
	if c.unfrozen != nil {
		return c.unfrozen
	}
	if c.Submitted != nil {
		return c.Submitted
	}
	return c.Arguments
}

// ArgumentsDigest is the SHA-256 of the argument bytes, also of those that were left out.
func (c *Call) ArgumentsDigest() [sha256.Size]byte {
	if c.Partial {
		return c.sum
	}
	return sha256.Sum256(c.Arguments)
}

// Resolution is what an operator found out about an unknown outcome.
type Resolution struct {
	Outcome string    `json:"outcome"` // succeeded or failed
	Note    string    `json:"note"`
	By      uuid.UUID `json:"by"`
	At      time.Time `json:"at"`
}

// Submission is a call as it comes in.
type Submission struct {
	// ID, when set, is the call's: one that is submitted again with it is the same call, and is not sent again. Such a call attaches
	// to no other.
	ID             uuid.UUID
	Agent          *agent.Agent
	PrincipalID    uuid.UUID // uuid.Nil: none
	ConversationID uuid.UUID
	Entry          *catalog.Entry
	Arguments      json.RawMessage // from [CleanArguments]
	Made           json.RawMessage // the arguments as the client gave them, where those are others; nil: they are not
	IdempotencyKey string          // empty: none
	Caller         Caller
	// Advance are answers to what the call's server may ask, by its key, that the client gives beforehand. They
	// are of use to calls that nobody decides about only: a reviewer would not know of them.
	Advance map[string]json.RawMessage
	Awaited bool // others may wait for it in another process, however short it takes
}

// Ticket is what a submitter gets: enough to wait, to come back and to speak
// about the call.
type Ticket struct {
	ID       uuid.UUID
	Status   Status    // at the time of submission
	Deadline time.Time // of the approval, or of the wait for a connection; else zero
	Attached bool      // the call had been made before, and this is it
	Gated    bool
	Alone    bool // it is parked, and there is nobody who may decide about it
}

// Viewer is who asks for a call. A call is visible to its own agent with the
// same principal, and to people whose role says so.
type Viewer struct {
	AgentID     uuid.UUID // uuid.Nil: a person who looks as reviewer or operator
	PrincipalID uuid.UUID
}

// Decision is what a reviewer said.
type Decision struct {
	CallID  uuid.UUID
	Approve bool
	Digest  string    // as it was shown with the approval
	Note    string    // note of an approval, reason of a rejection
	By      uuid.UUID // the person
	// Arguments, of an approval, are sent instead of those that wait; nil: those are. Where edits need a second reviewer, they wait for
	// one. The agent's own arguments instead of those of an edit that waits discard it.
	Arguments json.RawMessage
}

// Errors of this package.
var (
	ErrNotFound = errors.New("call not found")
	// ErrEdit: the arguments that a reviewer gave are not what the tool takes; see [EditError].
	ErrEdit = errors.New("edited arguments are not valid")
	// ErrState: the call is not in a state that allows this.
	ErrState = errors.New("call state does not allow this")
)

// Waiting is a gated call with its approval: what a reviewer decides, or decided, about.
// The people in it are ids; package identity knows their names.
type Waiting struct {
	Call     Call
	Approval approval.Approval
}
