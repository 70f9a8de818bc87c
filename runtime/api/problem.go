package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/call"
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
	CodeAlreadyDecided   = "already_decided" // somebody approved, rejected or cancelled before
	CodeExpired          = "expired"         // the deadline decided
	CodeSelfApproval     = "self_approval"
	CodeOwnEdit          = "own_edit"
	CodeNotVerified      = "not_verified" // a person who was invited, about a call of the person who invited them
	CodeStateConflict    = "state_conflict"
	CodeSearchTooBroad   = "search_too_broad"
	CodeInternal         = "internal"

	CodeConversationEnded  = "conversation_ended"
	CodeConversationIdle   = "conversation_idle"   // there is nothing to cancel
	CodeClientConversation = "client_conversation" // Holdpoint does not run it
	CodeNoModel            = "no_model"            // the agent has none to converse with
	CodeReadOnly           = "read_only"           // the caller may look at the conversation, and not speak in it
	CodeKeyReused          = "idempotency_key_reused"

	CodeConnectionNeeded    = "connection_needed"    // somebody has to do something before the skill can be connected
	CodeAuthorizationFailed = "authorization_failed" // on the way to the authorization server, or there
	CodeUpstreamFailed      = "upstream_failed"      // on the way to a skill's server, or there
)

// Problem is the body of every error: RFC 9457 with a stable code.
type Problem struct {
	Title  string         `json:"title" doc:"The HTTP status in words."`
	Status int            `json:"status" doc:"The HTTP status."`
	Detail string         `json:"detail" doc:"What went wrong, for people."`
	Code   string         `json:"code" doc:"What went wrong, for programs; it does not change."`
	Errors []ProblemField `json:"errors,omitempty" doc:"Each field that is wrong, and what was expected."`

	// Of already_decided and expired.
	ApprovalStatus string    `json:"approval_status,omitempty" doc:"What the approval is now."`
	Decision       *Decision `json:"decision,omitempty" doc:"Who decided, what and when."`
}

// ProblemField is one field that is wrong.
type ProblemField struct {
	Location string `json:"location" doc:"Where: body.spec.skills[1].url, query.status, path.id."`
	Message  string `json:"message" doc:"What was expected."`
}

// Error makes a Problem an error that a handler returns.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus is the HTTP status, for huma.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of RFC 9457, for huma.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

func problem(status int, code, format string, args ...any) *Problem {
	return &Problem{
		Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(format, args...),
	}
}

func notFound(subject, name string) *Problem {
	return problem(http.StatusNotFound, CodeNotFound, "there is no %s %q here", subject, name)
}

// invalid is a request with a field that is not as expected.
func invalid(location, format string, args ...any) *Problem {
	message := fmt.Sprintf(format, args...)
	p := problem(http.StatusUnprocessableEntity, CodeInvalidRequest, "%s: %s", location, message)
	p.Errors = []ProblemField{{Location: location, Message: message}}
	return p
}

// storable refuses text that PostgreSQL cannot keep.
func storable(location, text string) error {
	if strings.ContainsRune(text, 0) {
		return invalid(location, "expected text without NUL")
	}
	return nil
}

// translate turns what the domain returned into what a client is told.
// Whatever is not meant for clients is logged and told as an internal error.
func (a *API) translate(ctx context.Context, operation string, err error) *Problem {
	var told *Problem
	var conflict *approval.ConflictError
	switch {
	case errors.As(err, &told):
		return told
	case errors.As(err, &conflict):
		return a.conflict(ctx, conflict.Approval)
	case errors.Is(err, approval.ErrDigestMismatch):
		return problem(http.StatusConflict, CodeDigestMismatch,
			"the digest is not that of the approval as it is now; fetch it again and look at what it says")
	case errors.Is(err, approval.ErrSelfApproval):
		return problem(http.StatusForbidden, CodeSelfApproval, "the call was made on your behalf: somebody else decides it")
	case errors.Is(err, approval.ErrOwnEdit):
		return problem(http.StatusForbidden, CodeOwnEdit, "you edited these arguments, or nobody verified that you and the editor are two people: another reviewer approves them, or you approve those of the agent")
	case errors.Is(err, approval.ErrInvitedApproval):
		return problem(http.StatusForbidden, CodeNotVerified, "your identity is not verified: only the person who invited you vouches for it. The call is on behalf of that person, or that person made "+
			"a key of the agent: another reviewer decides it. Keys that another operator made, or people of an identity provider, have no such limit")
	case errors.Is(err, call.ErrSearchTooBroad):
		return problem(http.StatusUnprocessableEntity, CodeSearchTooBroad, "the search takes too long: narrow it, by time for example")
	case errors.Is(err, call.ErrState):
		return problem(http.StatusConflict, CodeStateConflict, "the call is past the point where this is possible")
	case isNotFound(err):
		return problem(http.StatusNotFound, CodeNotFound, "there is no such thing here")
	}
	for _, of := range []func(error) *Problem{registryProblem, connectionProblem, notifyProblem, callbackProblem, invitationProblem, memberProblem, fileProblem, converseProblem} {
		if p := of(err); p != nil {
			return p
		}
	}
	a.log.ErrorContext(ctx, "answer request", "operation", operation, "err", err)
	return problem(http.StatusInternalServerError, CodeInternal, "something went wrong here; the server's log says what")
}

// conflict tells a late decision what was decided before.
func (a *API) conflict(ctx context.Context, decided approval.Approval) *Problem {
	p := problem(http.StatusConflict, CodeAlreadyDecided, "the approval was %s before", decided.Status)
	if decided.Status == approval.Expired {
		p.Code, p.Detail = CodeExpired, "the approval's deadline passed before anybody decided"
	}
	p.ApprovalStatus = string(decided.Status)
	names, err := a.people(ctx, decided.DecidedBy)
	if err != nil {
		a.log.WarnContext(ctx, "name the decider", "approval", decided.CallID, "err", err)
	}
	p.Decision = newDecision(decided, names)
	return p
}

// Decision says how an approval was decided.
type Decision struct {
	By      *string   `json:"by" doc:"The person who decided; null when the deadline did."`
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome" enum:"approved,rejected,expired,cancelled"`
	Note    string    `json:"note" doc:"The note of an approval, the reason of a rejection."`

	ByPerson   *PersonName `json:"by_person" doc:"Who that is: an id, an issuer and a subject beside the name."`
	Credential *Credential `json:"credential" doc:"What they authenticated with; null: not known."`
	Address    *string     `json:"address" doc:"The address that they decided from; null: not known."`
}

// Credential names what a person or an agent authenticated with.
type Credential struct {
	_    struct{} `nullable:"true"`
	Kind string   `json:"kind" enum:"personal_token,bootstrap_token,session,agent_key,access_token,invitation,sign_in_link"`
	ID   *string  `json:"id" doc:"Of the token, key, session or invitation; of an access token its jti, else its client."`
}

func newCredential(via audit.Origin) *Credential {
	if via.Credential.Kind == "" {
		return nil
	}
	return &Credential{Kind: via.Credential.Kind, ID: orNull(via.Credential.ID)}
}

func newDecision(a approval.Approval, names personNames) *Decision {
	if a.Status == approval.Pending {
		return nil
	}
	d := &Decision{At: a.Deadline.UTC(), Outcome: string(a.Status), Note: a.Note}
	if a.DecidedAt != nil {
		d.At = a.DecidedAt.UTC()
	}
	if a.DecidedBy != uuid.Nil {
		d.By, d.ByPerson = orNull(names.of(a.DecidedBy)), names.ref(a.DecidedBy)
		d.Credential, d.Address = newCredential(a.DecidedVia), orNull(a.DecidedVia.Address)
	}
	return d
}

// fromHuma is a transformer: errors that huma itself found (validation, sizes,
// media types) become problems. What the client sent is not echoed: it may be secret.
func fromHuma(_ huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := problem(model.Status, CodeInvalidRequest, "%s", model.Detail)
	if model.Status >= http.StatusInternalServerError {
		p.Code = CodeInternal
	}
	var details []string
	for _, e := range model.Errors {
		if e == nil {
			continue
		}
		at, what := e.Location, e.Message
		if at == "body" {
			at, what = inBody(what)
		}
		p.Errors = append(p.Errors, ProblemField{Location: at, Message: what})
		details = append(details, at+": "+what)
	}
	if len(details) > 0 {
		p.Detail = strings.Join(details, "; ")
	}
	return p, nil
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	body, err := json.Marshal(p)
	if err != nil {
		http.Error(w, p.Detail, p.Status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
