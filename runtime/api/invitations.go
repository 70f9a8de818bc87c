package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// invitationProblem tells why a token or an invitation is not made, or not redeemed. Nil: the error is no such.
func invitationProblem(err error) *Problem {
	if known, ok := errors.AsType[*identity.KnownError](err); ok {
		return invalid("body.name", "%s", known.Error())
	}
	for _, refused := range []error{identity.ErrOtherPerson, identity.ErrNotFirst} {
		if errors.Is(err, refused) {
			return problem(http.StatusForbidden, CodeForbidden, "%s. Invite the person, who makes their own: POST /api/v1/invitations, or holdpoint invitation create --name NAME --role ROLE", refused)
		}
	}
	for _, refused := range []error{identity.ErrBootstrap, identity.ErrSelfLink, identity.ErrInvitedByProvider, identity.ErrBlocked} {
		if errors.Is(err, refused) {
			return problem(http.StatusForbidden, CodeForbidden, "%s", refused)
		}
	}
	if errors.Is(err, identity.ErrInvitation) {
		return unauthenticated(identity.ErrInvitation.Error())
	}
	return nil
}

// Invitation lets one person in, once.
type Invitation struct {
	ID         uuid.UUID       `json:"id" format:"uuid"`
	Name       string          `json:"name" doc:"Of the person whom this server knows; else what the inviter calls them."`
	Issuer     *string         `json:"issuer" doc:"The identity provider that has to vouch for them; null: nobody vouches."`
	Subject    *string         `json:"subject" doc:"Whom it has to vouch for."`
	Email      *string         `json:"email" doc:"Instead: the address that it has to vouch for."`
	Roles      []identity.Role `json:"roles" nullable:"false"`
	Agents     []string        `json:"agents" nullable:"false" doc:"Agents that the person may act as; * is every one."`
	Hint       string          `json:"hint" doc:"The first characters of its secret."`
	InvitedBy  *PersonName     `json:"invited_by"`
	CreatedAt  time.Time       `json:"created_at"`
	ExpiresAt  time.Time       `json:"expires_at"`
	RedeemedAt *time.Time      `json:"redeemed_at"`
	RedeemedBy *PersonName     `json:"redeemed_by"`
	RevokedAt  *time.Time      `json:"revoked_at"`
}

// NewInvitation is an invitation that was just made.
type NewInvitation struct {
	URL        string     `json:"url" doc:"For the invited person: a page of the dashboard. It works once, and is shown this once."`
	Key        string     `json:"key" doc:"The secret in it."`
	Invitation Invitation `json:"invitation"`
}

func (a *API) invitationViews(ctx context.Context, list ...identity.Invitation) (func(identity.Invitation) Invitation, error) {
	var people []uuid.UUID
	for i := range list {
		people = append(people, list[i].InvitedBy, list[i].RedeemedBy)
	}
	names, err := a.people(ctx, people...)
	return func(i identity.Invitation) Invitation {
		return Invitation{
			ID: i.ID, Name: i.Name, Issuer: orNull(i.Issuer), Subject: orNull(i.Subject), Email: orNull(i.Email), Roles: orEmpty(i.Roles),
			Agents: orEmpty(i.Agents), Hint: i.Hint, InvitedBy: names.ref(i.InvitedBy), CreatedAt: i.CreatedAt.UTC(), ExpiresAt: i.ExpiresAt.UTC(),
			RedeemedAt: utcOrNull(i.RedeemedAt), RedeemedBy: names.ref(i.RedeemedBy), RevokedAt: utcOrNull(i.RevokedAt),
		}
	}, err
}

type listInvitationsInput struct {
	Page

	Open bool `query:"open" doc:"Only those that can be redeemed."`
}

func (a *API) listInvitations(ctx context.Context, input *listInvitationsInput) (*listOutput[Invitation], error) {
	before, err := input.idCursor()
	if err != nil {
		return nil, err
	}
	found, next, err := a.identity.Invitations(ctx, before, input.Limit, input.Open)
	if err != nil {
		return nil, err
	}
	view, err := a.invitationViews(ctx, found...)
	if err != nil {
		return nil, err
	}
	return listOf(found, cursorOf(next), view), nil
}

type createInvitationInput struct {
	Body struct {
		Name    string          `json:"name" doc:"Of the person, who has it from then on unless an identity provider says another one."`
		Issuer  string          `json:"issuer,omitempty" doc:"The identity provider that has to vouch for them. Left out: the only one there is."`
		Subject string          `json:"subject,omitempty" doc:"Whom it has to vouch for. Where identity providers are configured, either this or email is required."`
		Email   string          `json:"email,omitempty" doc:"Instead: the address that it has to vouch for."`
		Roles   []identity.Role `json:"roles" enum:"reviewer,operator" minItems:"1" nullable:"false"`
		Agents  []string        `json:"agents,omitempty" doc:"Agents that the person may act as; * is every one. Left out: every one for operators, none for others."`
		TTL     string          `json:"ttl,omitempty" doc:"How long it can be redeemed, such as 24h; at most 720h. Left out: 72h."`
	} `nameHint:"InvitationRequest"`
}

func (a *API) createInvitation(ctx context.Context, input *createInvitationInput) (*bodyOutput[NewInvitation], error) {
	body := input.Body
	wanted := identity.NewInvitation{
		Name: body.Name, Issuer: body.Issuer, Subject: body.Subject, Email: body.Email, Roles: body.Roles, Agents: body.Agents,
	}
	if body.TTL != "" {
		var err error
		if wanted.TTL, err = time.ParseDuration(body.TTL); err != nil || wanted.TTL <= 0 {
			return nil, invalid("body.ttl", "expected a duration such as 24h")
		}
	}
	made, secret, err := a.identity.Invite(ctx, callerOf(ctx).actor(), wanted)
	if wrong, ok := errors.AsType[*identity.InvalidError](err); ok {
		return nil, invalid("body."+wrong.Field, "%s", wrong.Expected)
	}
	if err != nil {
		return nil, err
	}
	view, err := a.invitationViews(ctx, made)
	if err != nil {
		return nil, err
	}
	return output(NewInvitation{URL: identity.InvitationURL(a.server.PublicURL, secret), Key: secret, Invitation: view(made)}), nil
}

func (a *API) revokeInvitation(ctx context.Context, input *ByID) (*none, error) {
	id, err := idOf("invitation", input.ID)
	if err != nil {
		return nil, err
	}
	return nil, named(a.identity.RevokeInvitation(ctx, callerOf(ctx).actor(), id), "invitation", input.ID)
}

// redeemInvitation makes the local person of the invitation that the request was sent with.
func (a *API) redeemInvitation(ctx context.Context, _ *struct{}) (*bodyOutput[NewToken], error) {
	made, err := a.identity.Redeem(ctx, callerOf(ctx).invitation)
	if errors.Is(err, identity.ErrInvitation) {
		a.failures.Refuse(ctx, authfail.API)
	}
	if err != nil {
		return nil, err
	}
	return newTokenMade(made), nil
}
