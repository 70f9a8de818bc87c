package api

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/conversations"
	"github.com/holdpoint/holdpoint/runtime/api/operate"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/api/review"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
)

// toProblem maps the errors of the services to problems. Other errors are logged and become internal errors.
func (a *API) toProblem(ctx context.Context, operation string, err error) *rest.Problem {
	var told *rest.Problem
	var conflict *approval.ConflictError
	var wrong *fault.InvalidError
	var limit *identity.LimitError
	switch {
	case errors.As(err, &told):
		return told
	case errors.As(err, &conflict):
		return a.conflictProblem(ctx, conflict.Approval)
	case errors.As(err, &wrong):
		return rest.InvalidField("body."+wrong.Fields[0].Name, "%s", wrong.Fields[0].Expected)
	case errors.Is(err, approval.ErrDigestMismatch):
		return rest.NewProblem(http.StatusConflict, rest.CodeDigestMismatch,
			"the digest is stale: fetch the approval again and review it")
	case errors.Is(err, approval.ErrSelfApproval):
		return rest.NewProblem(http.StatusForbidden, rest.CodeSelfApproval, "the call was made on your behalf: another reviewer has to decide it")
	case errors.As(err, &limit):
		return rest.NewProblem(http.StatusForbidden, rest.CodeOutsideLimit, "%s", limit.Error())
	case errors.Is(err, approval.ErrOwnEdit):
		return rest.NewProblem(http.StatusForbidden, rest.CodeOwnEdit, "you edited these arguments, or your identity is not verified against the editor's: another reviewer has to approve them, or you approve the agent's arguments")
	case errors.Is(err, approval.ErrInvitedApproval):
		return rest.NewProblem(http.StatusForbidden, rest.CodeNotVerified, "your identity is not verified: only the person who invited you vouches for it. The call is on behalf of that person, or that person made "+
			"a key of the agent: another reviewer decides it. Keys that another operator made, or people of an identity provider, have no such limit")
	case errors.Is(err, call.ErrNoGrants):
		return rest.NewProblem(http.StatusConflict, rest.CodeNoGrants, "%s", noGrants(err))
	case errors.Is(err, call.ErrOwnGrant):
		return rest.NewProblem(http.StatusForbidden, rest.CodeOwnGrant, "you made this grant, or your identity is not verified against that of the person who did: another reviewer or operator has to confirm it")
	case errors.Is(err, agent.ErrGrantOver), errors.Is(err, agent.ErrNoSecond):
		return rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "the grant's state does not allow this: it was revoked, has ended, or needs no confirmation")
	case errors.Is(err, approval.ErrVoted):
		return rest.NewProblem(http.StatusConflict, rest.CodeVoted, "you have voted about this call, or your identity is not verified against a voter's: another person has to")
	case errors.Is(err, approval.ErrNotAsked):
		return rest.NewProblem(http.StatusForbidden, rest.CodeNotAsked, "the policy of this call does not ask for your approval; you may reject the call")
	case errors.Is(err, approval.ErrPolicyChanged):
		return rest.NewProblem(http.StatusConflict, rest.CodePolicyChanged, "the policy of this call changed, so earlier votes do not count: fetch the approval again")
	case errors.Is(err, approval.ErrNoBreakGlass):
		return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "the policy of this call lets nobody approve it alone")
	case errors.Is(err, approval.ErrOwnGlass):
		return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "you approved this call alone: another person has to review that")
	case errors.Is(err, approval.ErrGlassReviewed):
		return rest.NewProblem(http.StatusConflict, rest.CodeAlreadyDecided, "another person has reviewed it")
	case errors.Is(err, history.ErrTooBroad):
		return rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeSearchTooBroad, "the search takes too long: narrow it, for example by time")
	case errors.Is(err, call.ErrState):
		return rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "the call's status no longer allows this")
	case errors.Is(err, fault.ErrNotFound):
		return rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, "not found")
	}
	for _, of := range []func(error) *rest.Problem{operate.Problem, review.Problem, conversations.Problem} {
		if p := of(err); p != nil {
			return p
		}
	}
	a.log.ErrorContext(ctx, "answer request", "operation", operation, "err", err)
	return rest.Internal(err)
}

// noGrants returns why calls take no grants, without the operation that asked.
func noGrants(err error) string {
	for next := errors.Unwrap(err); next != nil && errors.Is(next, call.ErrNoGrants); next = errors.Unwrap(next) {
		err = next
	}
	return err.Error()
}

// conflictProblem adds the earlier decision to the problem of a late one.
func (a *API) conflictProblem(ctx context.Context, decided approval.Approval) *rest.Problem {
	p := rest.NewProblem(http.StatusConflict, rest.CodeAlreadyDecided, "the approval was %s before", decided.Status)
	if decided.Status == approval.Expired {
		p.Code, p.Detail = rest.CodeExpired, "the approval expired before a decision"
	}
	p.ApprovalStatus = string(decided.Status)
	names, err := a.directory.NamePeople(ctx, decided.DecidedBy)
	if err != nil {
		a.log.WarnContext(ctx, "name the decider", "approval", decided.CallID, "err", err)
	}
	p.Decision = rest.NewDecision(decided, names)
	return p
}

// fromHuma is a transformer that converts huma's own errors (validation, sizes, media types) to problems. The client's input is
// not echoed: it may be secret.
func fromHuma(_ huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := rest.NewProblem(model.Status, rest.CodeInvalidRequest, "%s", model.Detail)
	if model.Status >= http.StatusInternalServerError {
		p.Code = rest.CodeInternal
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
		p.Errors = append(p.Errors, rest.ProblemField{Location: at, Message: what})
		details = append(details, at+": "+what)
	}
	if len(details) > 0 {
		p.Detail = strings.Join(details, "; ")
	}
	return p, nil
}

func writeProblem(w http.ResponseWriter, p *rest.Problem) {
	body, err := json.Marshal(p)
	if err != nil {
		http.Error(w, p.Detail, p.Status)
		return
	}
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
