package operate

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

type invitationHandlers struct {
	*rest.Directory

	failures  *authfail.Log
	publicURL string
}

// Invitation lets one person in, once.
type Invitation struct {
	ID         uuid.UUID        `json:"id" format:"uuid"`
	Name       string           `json:"name" doc:"The person's name on this server, or the name that the inviter chose."`
	Issuer     *string          `json:"issuer" doc:"The identity provider that has to authenticate the person; null: none."`
	Subject    *string          `json:"subject" doc:"The person's id at the identity provider."`
	Email      *string          `json:"email" doc:"In place of the subject: the person's e-mail address at the identity provider."`
	Roles      []identity.Role  `json:"roles" nullable:"false"`
	Agents     []string         `json:"agents" nullable:"false" doc:"Agents that the person may act as; * means all."`
	Limit      *ReviewLimit     `json:"review_limit" doc:"The calls that the person may decide as a reviewer; null: all."`
	Waits      bool             `json:"waits" doc:"It waits for a second operator, and cannot be redeemed before."`
	Hint       string           `json:"hint" doc:"The first characters of the secret."`
	InvitedBy  *rest.PersonName `json:"invited_by"`
	CreatedAt  time.Time        `json:"created_at"`
	ExpiresAt  time.Time        `json:"expires_at"`
	RedeemedAt *time.Time       `json:"redeemed_at"`
	RedeemedBy *rest.PersonName `json:"redeemed_by"`
	RevokedAt  *time.Time       `json:"revoked_at"`
}

// NewInvitation is an invitation that was just made.
type NewInvitation struct {
	URL        string     `json:"url" doc:"The link for the invited person. It works once and is shown only once."`
	Key        string     `json:"key" doc:"The secret of the link."`
	Invitation Invitation `json:"invitation"`
}

func (h *invitationHandlers) invitationViews(ctx context.Context, list ...identity.Invitation) (func(identity.Invitation) Invitation, error) {
	var people []uuid.UUID
	for i := range list {
		people = append(people, list[i].InvitedBy, list[i].RedeemedBy)
	}
	names, err := h.NamePeople(ctx, people...)
	return func(i identity.Invitation) Invitation {
		return Invitation{
			ID: i.ID, Name: i.Name, Issuer: rest.OrNull(i.Issuer), Subject: rest.OrNull(i.Subject), Email: rest.OrNull(i.Email), Roles: rest.OrEmpty(i.Roles),
			Agents: rest.OrEmpty(i.Agents), Limit: newReviewLimit(i.Limit), Waits: i.Waits, Hint: i.Hint, InvitedBy: names.RefOf(i.InvitedBy), CreatedAt: i.CreatedAt.UTC(), ExpiresAt: i.ExpiresAt.UTC(),
			RedeemedAt: rest.UTCOrNull(i.RedeemedAt), RedeemedBy: names.RefOf(i.RedeemedBy), RevokedAt: rest.UTCOrNull(i.RevokedAt),
		}
	}, err
}

type listInvitationsInput struct {
	rest.Page

	Open bool `query:"open" doc:"Only invitations that can be redeemed."`
}

func (h *invitationHandlers) listInvitations(ctx context.Context, input *listInvitationsInput) (*rest.ListOutput[Invitation], error) {
	before, err := input.IDCursor()
	if err != nil {
		return nil, err
	}
	found, next, err := h.Identity.Invitations(ctx, before, input.Limit, input.Open)
	if err != nil {
		return nil, err
	}
	view, err := h.invitationViews(ctx, found...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found, rest.CursorOf(next), view), nil
}

type createInvitationInput struct {
	Body struct {
		Name    string          `json:"name" doc:"The person's name, unless an identity provider has another."`
		Issuer  string          `json:"issuer,omitempty" doc:"The identity provider that has to authenticate the person. Omitted: the only one."`
		Subject string          `json:"subject,omitempty" doc:"The person's id at the identity provider. If identity providers are configured, this or email is required."`
		Email   string          `json:"email,omitempty" doc:"In place of the subject: the person's e-mail address at the identity provider."`
		Roles   []identity.Role `json:"roles" enum:"reviewer,operator" minItems:"1" nullable:"false"`
		Agents  []string        `json:"agents,omitempty" doc:"Agents that the person may act as; * means all. Omitted: all for operators, none for others."`
		Limit   *ReviewLimit    `json:"review_limit,omitempty" doc:"The calls that the person may decide as a reviewer. Omitted: all."`
		TTL     string          `json:"ttl,omitempty" doc:"How long it can be redeemed, such as 24h; at most 720h. Omitted: 72h."`
	} `nameHint:"InvitationRequest"`
}

func (h *invitationHandlers) createInvitation(ctx context.Context, input *createInvitationInput) (*rest.Output[NewInvitation], error) {
	body := input.Body
	wanted := identity.NewInvitation{
		Name: body.Name, Issuer: body.Issuer, Subject: body.Subject, Email: body.Email, Roles: body.Roles, Agents: body.Agents, Limit: body.Limit.limit(),
	}
	if body.TTL != "" {
		var err error
		if wanted.TTL, err = time.ParseDuration(body.TTL); err != nil || wanted.TTL <= 0 {
			return nil, rest.InvalidField("body.ttl", "must be a duration such as 24h")
		}
	}
	made, secret, err := h.Identity.Invite(ctx, rest.CallerOf(ctx).Actor(), wanted)
	if err != nil {
		return nil, err
	}
	view, err := h.invitationViews(ctx, made)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(NewInvitation{URL: identity.InvitationURL(h.publicURL, secret), Key: secret, Invitation: view(made)}), nil
}

func (h *invitationHandlers) revokeInvitation(ctx context.Context, input *rest.ByID) (*rest.None, error) {
	id, err := rest.ParseID("invitation", input.ID)
	if err != nil {
		return nil, err
	}
	return nil, rest.WithName(h.Identity.RevokeInvitation(ctx, rest.CallerOf(ctx).Actor(), id), "invitation", input.ID)
}

// redeemInvitation creates the local person of the request's invitation.
func (h *invitationHandlers) redeemInvitation(ctx context.Context, _ *struct{}) (*rest.Output[NewToken], error) {
	made, err := h.Identity.Redeem(ctx, rest.CallerOf(ctx).Invitation)
	if errors.Is(err, identity.ErrInvitation) {
		h.failures.Refuse(ctx, authfail.API)
	}
	if err != nil {
		return nil, err
	}
	return newTokenMade(made), nil
}
