package operate

import (
	"errors"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/retention"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// waitingProblem says that a change waits for a second operator.
func waitingProblem(waits *dualcontrol.WaitsError) *rest.Problem {
	p := rest.NewProblem(http.StatusAccepted, rest.CodeChangeWaits, "dual control: this change loosens, so it waits for a second operator until %s, as change %s (holdpoint changes show %s)",
		waits.Change.ExpiresAt.UTC().Format(time.RFC3339), waits.Change.ID, waits.Change.ID)
	p.Change = waits.Change.ID.String()
	return p
}

// Problem maps the errors of the services, nil for other errors. Its messages contain no secrets; the causes may.
func Problem(err error) *rest.Problem {
	conflict := func(detail string) *rest.Problem {
		return rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "%s", detail)
	}
	var needs *oauthclient.NeedsConnectionError
	var failed *oauthclient.Error
	var known *identity.KnownError
	var waits *dualcontrol.WaitsError
	var ended *dualcontrol.EndedError
	switch {
	case errors.As(err, &waits):
		return waitingProblem(waits)
	case errors.As(err, &ended):
		return conflict("the change does not wait any more: it is " + string(ended.Change.Status))
	case errors.Is(err, agent.ErrExists):
		return conflict("the name is taken")
	case errors.Is(err, agent.ErrChanged):
		return conflict("it has a newer revision: fetch it again and review it")
	case errors.Is(err, tool.ErrNotFound):
		return rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, "the skill offers no such tool")
	case errors.Is(err, tool.ErrNotCurrent):
		return conflict("the tool's definition has changed again: review it before you accept or refuse it")
	case errors.As(err, &needs):
		return rest.NewProblem(http.StatusConflict, rest.CodeConnectionNeeded, "%s", needs.Reason)
	case errors.As(err, &failed):
		return rest.NewProblem(http.StatusBadGateway, rest.CodeAuthorizationFailed, "%s", failed.Error())
	case errors.Is(err, callback.ErrDisabled):
		return conflict("the callback is disabled: enable it first")
	case errors.As(err, &known):
		return rest.InvalidField("body.name", "%s", known.Error())
	case errors.Is(err, identity.ErrInvitation):
		return rest.Unauthenticated(identity.ErrInvitation.Error())
	case errors.Is(err, identity.ErrSelf):
		return conflict("you cannot block yourself: ask another operator")
	case errors.Is(err, identity.ErrChanged):
		return conflict("what operators give them was changed since the change was decided on; fetch the person again and look at it")
	case errors.Is(err, retention.ErrNotBlocked):
		return conflict("the person can still sign in: block them first")
	}
	for known, detail := range map[error]string{
		legalhold.ErrLifted:      "the legal hold was lifted before",
		identity.ErrLastOperator: "no operator would be left: make another person an operator first",
		dualcontrol.ErrStale:     dualcontrol.ErrStale.Error(),
		dualcontrol.ErrAlone:     dualcontrol.ErrAlone.Error(),
	} {
		if errors.Is(err, known) {
			return conflict(detail)
		}
	}
	for _, refused := range []error{identity.ErrOtherPerson, identity.ErrNotFirst} {
		if errors.Is(err, refused) {
			return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "%s. Invite the person, who makes their own: POST /api/v1/invitations, or holdpoint invitation create --name NAME --role ROLE", refused)
		}
	}
	for _, refused := range []error{identity.ErrBootstrap, identity.ErrSelfLink, identity.ErrInvitedByProvider, identity.ErrBlocked, identity.ErrSelfGrant, identity.ErrNotMember, identity.ErrSelfDelegation, identity.ErrBothRoles, identity.ErrTokensOff, dualcontrol.ErrOwn} {
		if errors.Is(err, refused) {
			return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "%s", refused)
		}
	}
	return nil
}
