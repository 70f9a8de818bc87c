package call

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Status is the state of a call.
type Status string

// The statuses of a call. transition.go has the moves between them.
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

// MaxToolName bounds the characters of a tool's name in a query.
const MaxToolName = 256

// AllStatuses returns all statuses, in the order of a call's life.
func AllStatuses() []Status {
	return []Status{
		NeedsConnection, Parked, Approved, Executing, Succeeded, Failed, Unknown, Rejected, Expired, Cancelled, Denied, Invalid,
	}
}

// Final reports whether the status never changes again.
func (s Status) Final() bool {
	switch s {
	case NeedsConnection, Parked, Approved, Executing:
		return false
	case Succeeded, Failed, Rejected, Expired, Cancelled, Denied, Invalid, Unknown:
		return true
	}
	return false
}

// The stable codes that say why a call ended.
const (
	CodeInvalidArguments  = "invalid_arguments"
	CodeTooComplex        = "too_complex" // of invalid calls: checking the arguments would take too long
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
	CodeNotSendable       = "not_sendable"       // the skill's settings do not make a request; an operator has to correct them
	CodeFileChanged       = "file_changed"       // an attached file was removed from storage or changed
	CodeTaskCancelled     = "task_cancelled"     // of failed calls: the server canceled its task
	CodeNoReviewer        = "no_reviewer"        // of expired calls: no reviewer could have decided
	CodePersonBlocked     = "person_blocked"     // the principal, the reviewer or the editor was blocked later
	CodeCredentialRevoked = "credential_revoked" //nolint:gosec // G101: of the agent or of the reviewer
	CodeReviewerRemoved   = "reviewer_removed"   // the person who approved is no longer a reviewer
	CodeRuleDenied        = "rule_denied"        // an operator's rule denies it
	CodeGrantRevoked      = "grant_revoked"      // the grant that let it pass was revoked before it was sent
	// CodeApprovalLapsed is the code of calls that were approved and not sent in time.
	CodeApprovalLapsed = "approval_lapsed"
)

// Call is one tools/call with its outcome.
type Call struct {
	ID             uuid.UUID
	Status         Status
	Code           string           // see the codes above; for failed calls, the failure's kind
	Failure        tool.FailureKind // failed calls only
	Effect         tool.Effect      // failed and unknown calls
	Message        string           // about the end, for people and models
	AgentID        uuid.UUID
	Agent          string
	PrincipalID    uuid.UUID // uuid.Nil: none
	ConversationID uuid.UUID
	SkillID        uuid.UUID
	Skill          string
	SkillRevision  int64
	Tool           string // the name that the skill uses
	ExposedName    string // the name that the agent uses
	Pin            tool.Pin
	Arguments      json.RawMessage // as they were or will be sent
	Submitted      json.RawMessage // the agent's arguments, if a reviewer edited them; else nil
	Result         json.RawMessage // a JSON-RPC result, or the error object of a jsonrpc_error, byte for byte
	Files          []file.Attached // attached by the agent, including those that a reviewer removed
	Gated          bool
	GateOnly       bool           // its caller executes it after Holdpoint released it; see gate.go
	Host           string         // of a gate-only call: the program that executes it; empty: not known
	Rules          []rule.Applied // operators' rules that matched when it was judged, or failed
	GrantID        uuid.UUID      // of the grant that let it pass; uuid.Nil: none
	CreatedAt      time.Time
	FinishedAt     *time.Time
	DeliveredAt    *time.Time
	Late           json.RawMessage // an outcome that arrived after the call became unknown
	Resolution     *Resolution     // of an unknown outcome
	Measures       *Measures       // nil: it was not sent

	// ContentDeletedAt is when arguments, edits, result and questions were deleted by age, or because a person was erased. Arguments are {}
	// then. Nil: they were not.
	ContentDeletedAt *time.Time

	// Partial means that this call comes from a list, which omits large arguments and results.
	Partial bool

	request   json.RawMessage   // see [Call.Outgoing]; lists omit it
	sum       [sha256.Size]byte // of the arguments, if Partial
	claimedBy uuid.UUID         // the instance that sends the call
	sentAt    time.Time         // by this process; zero: not sent by it
	attachKey []byte            // see [attachKey]; only of calls that this process records or sends
	keyedSum  []byte            // see [keyedSum]; likewise
	caller    Caller
	advance   *advance        // see [Submission]; nil: none
	unfrozen  json.RawMessage // the agent's arguments, before attachments became URLs; nil: no attachments, or omitted in a list
	hasFiles  bool            // whether it has files; Files may not be read yet
	trace     telemetry.Pending
	began     time.Time // when it was submitted, by this process's clock, or by the database's if it was read
	awaited   bool      // another process may wait for the call
	took      uuid.UUID // the grant of which it has taken a use; uuid.Nil: none, or not read
	granted   time.Time // when the grant was last read and stood, by this process's clock
}

// withoutResult returns the call as it was sent.
func (c *Call) withoutResult() Call {
	sent := *c
	sent.Result, sent.Late, sent.Measures, sent.advance = nil, nil, nil, nil
	return sent
}

// AgentArguments returns the arguments as the agent wrote them.
func (c *Call) AgentArguments() json.RawMessage {
	if c.unfrozen != nil {
		return c.unfrozen
	}
	if c.Submitted != nil {
		return c.Submitted
	}
	return c.Arguments
}

// ArgumentsDigest returns the SHA-256 of the arguments, also of a [Call.Partial] call.
func (c *Call) ArgumentsDigest() [sha256.Size]byte {
	if c.Partial {
		return c.sum
	}
	return sha256.Sum256(c.Arguments)
}

// Resolution is an operator's finding about an unknown outcome.
type Resolution struct {
	Outcome string    `json:"outcome"` // succeeded or failed
	Note    string    `json:"note"`
	By      uuid.UUID `json:"by"`
	At      time.Time `json:"at"`
}

// Submission is a request to make a call.
type Submission struct {
	// ID is the id of the call. A call that is submitted again with the same ID is not sent again, and attaches to no other
	// call. uuid.Nil: a new id.
	ID             uuid.UUID
	Agent          *agent.Agent
	PrincipalID    uuid.UUID // uuid.Nil: none
	ConversationID uuid.UUID
	Entry          *catalog.Entry
	Arguments      json.RawMessage // from [CleanArguments]
	Made           json.RawMessage // the client's arguments, if Arguments differ from them; else nil
	IdempotencyKey string          // empty: none
	Caller         Caller
	// Advance has answers to questions of the server that the client gives in advance, by the question's key. Only auto-approved
	// calls use them, because a reviewer would not see them.
	Advance map[string]json.RawMessage
	Awaited bool // another process may wait for the call
	// Gate is set for calls of skills with the transport gate; see [Service.Gate].
	Gate *GateRequest
}

// Ticket identifies a submitted call.
type Ticket struct {
	ID       uuid.UUID
	Status   Status    // at the time of submission
	Deadline time.Time // of the approval or the wait for a connection; else zero
	Attached bool      // the ticket is of an earlier call that this one repeats
	Gated    bool
	Alone    bool // the call is parked, and no reviewer may decide it

	ReleasedUntil time.Time // of a gate-only call that needed no approval
}

// Viewer is the reader of a call. An agent sees its own calls for the same principal. Reviewers and operators see all.
type Viewer struct {
	AgentID     uuid.UUID // uuid.Nil: a reviewer or an operator
	PrincipalID uuid.UUID
}

// Decision is a reviewer's decision.
type Decision struct {
	CallID  uuid.UUID
	Approve bool
	Digest  string    // of the approval that the reviewer saw
	Note    string    // note of an approval, reason of a rejection
	By      uuid.UUID // the person
	// Arguments replace the waiting arguments if Approve is set; nil: no edit. Where edits need a second reviewer, the edit waits for
	// one. The agent's own arguments discard an edit that waits.
	Arguments json.RawMessage
	Seen      *approval.Seen // the dashboard's measurements; nil: not measured
	// Undo holds an approved call back, so that the reviewer can take the approval back; see [Service.Undo]. An edited call is sent at once.
	Undo bool
	// BreakGlass approves alone, though the policies of the call ask for others. They have to allow that, and Note has the reason.
	BreakGlass bool
}

// undoWindow is how long a reviewer who wants it can take an approval back.
const undoWindow = 5 * time.Second

// undoTime returns how long the approved call is not claimed.
func (d *Decision) undoTime() time.Duration {
	if d.Undo && d.Arguments == nil {
		return undoWindow
	}
	return 0
}

// Errors of this package.
var (
	ErrNotFound = fault.NotFound("call not found")
	// ErrEdit means that a reviewer's arguments are not valid; see [EditError].
	ErrEdit = errors.New("edited arguments are not valid")
	// ErrState means that the status of the call does not allow the operation.
	ErrState = errors.New("call state does not allow this")
)

// Waiting is a gated call with its approval.
type Waiting struct {
	Call     Call
	Approval approval.Approval
}
