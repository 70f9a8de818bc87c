package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/inbound"
)

// The stable codes of problems.
const (
	CodeUnauthenticated  = "unauthenticated"
	CodeForbidden        = "forbidden"
	CodeNotFound         = "not_found"
	CodeMethodNotAllowed = "method_not_allowed"
	CodeInvalidRequest   = "invalid_request"
	CodeNotAvailable     = "not_available"
	CodeDigestMismatch   = "digest_mismatch"
	CodeAlreadyDecided   = "already_decided" // a person approved, rejected or cancelled before
	CodeExpired          = "expired"         // the deadline passed
	CodeSelfApproval     = "self_approval"
	CodeOwnEdit          = "own_edit"
	CodeOutsideLimit     = "outside_limit"  // of the reviewer's role
	CodeChangeWaits      = "change_waits"   // for a second operator
	CodeVoted            = "voted"          // the person, or one who may be the same, has voted
	CodeNotAsked         = "not_asked"      // the policy of the call does not ask the person
	CodePolicyChanged    = "policy_changed" // the policy of the call is not the one that was shown
	CodeNotVerified      = "not_verified"   // a person who was invited, about a call of the person who invited them
	CodeStateConflict    = "state_conflict"
	CodeSearchTooBroad   = "search_too_broad"
	CodeNoGrants         = "no_grants" // calls like this one take no grants
	CodeOwnGrant         = "own_grant" // the second person must be another one
	CodeInternal         = "internal"
	CodeUnavailable      = "database_unavailable"

	CodeConversationEnded  = "conversation_ended"
	CodeConversationIdle   = "conversation_idle"   // no work to cancel
	CodeClientConversation = "client_conversation" // Holdpoint does not run it
	CodeNoModel            = "no_model"            // the agent has no model
	CodeReadOnly           = "read_only"           // the caller may read the conversation only
	CodeKeyReused          = "idempotency_key_reused"

	CodeConnectionNeeded    = "connection_needed"    // a person has to act before the skill can be connected
	CodeAuthorizationFailed = "authorization_failed" // on the way to the authorization server, or there
	CodeUpstreamFailed      = "upstream_failed"      // on the way to a skill's server, or there
)

// Problem is the body of every error: RFC 9457 with a stable code.
type Problem struct {
	Title  string         `json:"title" doc:"The HTTP status in words."`
	Status int            `json:"status" doc:"The HTTP status."`
	Detail string         `json:"detail" doc:"A message for people."`
	Code   string         `json:"code" doc:"A stable code for programs."`
	Errors []ProblemField `json:"errors,omitempty" doc:"The invalid fields."`

	// Of already_decided and expired.
	ApprovalStatus string    `json:"approval_status,omitempty" doc:"The current status of the approval."`
	Decision       *Decision `json:"decision,omitempty" doc:"The decision."`

	Change string `json:"change,omitempty" doc:"Of change_waits (202): the id of the change that waits for a second operator. What it changes is as before, except that a new skill is registered without what loosens."`

	headers http.Header
}

// ProblemField is an invalid field.
type ProblemField struct {
	Location string `json:"location" doc:"The field: body.spec.skills[1].url, query.status, path.id."`
	Message  string `json:"message" doc:"The expected value."`
}

// Error makes a Problem an error that a handler can return.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus returns the HTTP status for huma.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of RFC 9457 for huma.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders returns the headers of the response, for huma. It is nil for most problems.
func (p *Problem) GetHeaders() http.Header { return p.headers }

// Internal is the problem of a request that an internal error ended. While the database is unavailable, the client may try again.
func Internal(err error) *Problem {
	h := http.Header{}
	if status := inbound.FailureStatus(h, err); status != http.StatusInternalServerError {
		p := NewProblem(status, CodeUnavailable, "the database is not available at present: try again, after checking whether a change was made")
		p.headers = h
		return p
	}
	return NewProblem(http.StatusInternalServerError, CodeInternal, fault.InternalText)
}

// NewProblem makes a problem with a message for people.
func NewProblem(status int, code, format string, args ...any) *Problem {
	return &Problem{
		Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(format, args...),
	}
}

// NotFound is the problem of a path that names no object which the caller may see.
func NotFound(subject, name string) *Problem {
	return NewProblem(http.StatusNotFound, CodeNotFound, "there is no %s %q here", subject, name)
}

// InvalidField is the problem of a request with an invalid field.
func InvalidField(location, format string, args ...any) *Problem {
	message := fmt.Sprintf(format, args...)
	p := NewProblem(http.StatusUnprocessableEntity, CodeInvalidRequest, "%s: %s", location, message)
	p.Errors = []ProblemField{{Location: location, Message: message}}
	return p
}

// InvalidFields lists all invalid fields of a part of the request. The detail calls them as that part does.
func InvalidFields(part string, wrong *fault.InvalidError) *Problem {
	p := NewProblem(http.StatusUnprocessableEntity, CodeInvalidRequest, "%s", wrong)
	for _, f := range wrong.Fields {
		p.Errors = append(p.Errors, ProblemField{Location: part + "." + f.Name, Message: f.Expected})
	}
	return p
}

// CheckStorable refuses text that PostgreSQL cannot store.
func CheckStorable(location, text string) error {
	if strings.ContainsRune(text, 0) {
		return InvalidField(location, "must be text without NUL")
	}
	return nil
}

// InPart maps the invalid fields of a part of the request. Other errors are returned unchanged.
func InPart(part string, err error) error {
	if wrong, ok := errors.AsType[*fault.InvalidError](err); ok {
		return InvalidFields(part, wrong)
	}
	return err
}

// WithName names the missing object in a not-found error.
func WithName(err error, subject, name string) error {
	if errors.Is(err, fault.ErrNotFound) {
		return NotFound(subject, name)
	}
	return err
}

// Decision is the decision about an approval.
type Decision struct {
	By      *string   `json:"by" doc:"The person who decided; null if the approval expired."`
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome" enum:"approved,rejected,expired,cancelled"`
	Note    string    `json:"note" doc:"The note of an approval, or the reason for a rejection."`

	ByPerson   *PersonName `json:"by_person" doc:"The person's id, issuer, subject and name."`
	Credential *Credential `json:"credential" doc:"The credential of the person; null: unknown."`
	Address    *string     `json:"address" doc:"The network address of the person; null: unknown."`
	Seen       *Seen       `json:"seen" doc:"What the dashboard measured before the decision; null: not measured."`
}

// Seen is what a reviewer's browser reported with a decision.
type Seen struct {
	_          struct{} `nullable:"true"`
	Rows       int      `json:"rows" doc:"Arguments that were on the screen."`
	Of         int      `json:"of" doc:"All arguments."`
	Unusual    int      `json:"unusual" doc:"Arguments that differ from approved calls."`
	Seconds    float64  `json:"seconds" doc:"How long the call was on the screen."`
	SecondStep bool     `json:"second_step" doc:"Whether the reviewer confirmed in a second step."`
}

// Credential identifies the credential of a person or an agent.
type Credential struct {
	_    struct{} `nullable:"true"`
	Kind string   `json:"kind" enum:"personal_token,bootstrap_token,session,agent_key,access_token,invitation,sign_in_link"`
	ID   *string  `json:"id" doc:"The id of the token, key, session or invitation; of an access token its jti or its client."`
}

// NewCredential returns null for an unknown credential.
func NewCredential(via audit.Origin) *Credential {
	if via.Credential.Kind == "" {
		return nil
	}
	return &Credential{Kind: via.Credential.Kind, ID: OrNull(via.Credential.ID)}
}

// NewDecision returns null for a pending approval.
func NewDecision(a approval.Approval, names PersonNames) *Decision {
	if a.Status == approval.Pending {
		return nil
	}
	d := &Decision{At: a.Deadline.UTC(), Outcome: string(a.Status), Note: a.Note}
	if a.DecidedAt != nil {
		d.At = a.DecidedAt.UTC()
	}
	if a.DecidedBy != uuid.Nil {
		d.By, d.ByPerson = OrNull(names.NameOf(a.DecidedBy)), names.RefOf(a.DecidedBy)
		d.Credential, d.Address = NewCredential(a.DecidedVia), OrNull(a.DecidedVia.Address)
	}
	if s := a.Seen; s != nil {
		d.Seen = &Seen{Rows: s.Rows, Of: s.Of, Unusual: s.Unusual, Seconds: s.Shown.Seconds(), SecondStep: s.SecondStep}
	}
	return d
}

// Unauthenticated is the problem of a request without a valid credential.
func Unauthenticated(why string) *Problem {
	return NewProblem(http.StatusUnauthorized, CodeUnauthenticated, "%s", why)
}
