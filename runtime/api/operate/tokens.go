package operate

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

// Token is a person's credential.
type Token struct {
	ID        uuid.UUID       `json:"id" format:"uuid"`
	Person    string          `json:"person"`
	Roles     []identity.Role `json:"roles" nullable:"false"`
	Agents    []string        `json:"agents" nullable:"false" doc:"Agents that the person may act as; * means all."`
	Hint      string          `json:"hint" doc:"Its first characters, to tell tokens apart."`
	CreatedAt time.Time       `json:"created_at"`
	ExpiresAt time.Time       `json:"expires_at" doc:"When it expires."`
	RevokedAt *time.Time      `json:"revoked_at"`
	PersonID  uuid.UUID       `json:"person_id" format:"uuid"`
	Issuer    string          `json:"issuer" doc:"The person's identity provider; holdpoint: this server."`
	Subject   string          `json:"subject" doc:"The person's id at the issuer."`
	Alike     bool            `json:"alike" doc:"Another person has the same or a similar-looking name."`
}

// NewToken is a token that was just made.
type NewToken struct {
	Key       string    `json:"key" doc:"The secret. It is shown only once."`
	ID        uuid.UUID `json:"id" format:"uuid"`
	Person    string    `json:"person"`
	PersonID  uuid.UUID `json:"person_id" format:"uuid"`
	ExpiresAt time.Time `json:"expires_at"`
}

func newTokenMade(made identity.NewToken) *rest.Output[NewToken] {
	return rest.NewOutput(NewToken{
		Key: made.Secret, ID: made.ID, Person: made.Person.Name, PersonID: made.Person.ID, ExpiresAt: made.ExpiresAt.UTC(),
	})
}

// tokenViews presents tokens.
func (h *personHandlers) tokenViews(ctx context.Context, tokens []identity.Token) (func(identity.Token) Token, error) {
	people := make([]identity.Person, len(tokens))
	for i := range tokens {
		people[i] = tokens[i].Person
	}
	alike, err := h.Identity.Alike(ctx, people...)
	return func(t identity.Token) Token {
		return Token{
			ID: t.ID, Person: t.Person.Name, PersonID: t.Person.ID, Roles: rest.OrEmpty(t.Roles), Agents: rest.OrEmpty(t.Agents), Hint: t.Hint,
			Issuer: t.Person.Issuer, Subject: t.Person.Subject, CreatedAt: t.CreatedAt.UTC(), ExpiresAt: t.ExpiresAt.UTC(), RevokedAt: rest.UTCOrNull(t.RevokedAt), Alike: alike[t.Person.ID],
		}
	}, err
}

// listTokens lists all tokens for operators, and their own valid ones for others.
func (h *personHandlers) listTokens(ctx context.Context, input *rest.Page) (*rest.ListOutput[Token], error) {
	if who := rest.CallerOf(ctx); !who.HasRole(identity.Operator) {
		own, err := h.Identity.TokensOf(ctx, who.PersonID())
		if err != nil {
			return nil, err
		}
		view, err := h.tokenViews(ctx, own)
		return rest.ListOf(own, "", view), err
	}
	before, err := input.IDCursor()
	if err != nil {
		return nil, err
	}
	found, next, err := h.Identity.Tokens(ctx, before, input.Limit)
	if err != nil {
		return nil, err
	}
	view, err := h.tokenViews(ctx, found)
	return rest.ListOf(found, rest.CursorOf(next), view), err
}

type createTokenInput struct {
	Body struct {
		Person   string          `json:"person,omitempty" doc:"Your own name; optional. With the bootstrap token: the name of the first person, who is then the same person as the bootstrap token."`
		PersonID string          `json:"person_id,omitempty" format:"uuid" doc:"In place of the name: your own id."`
		Roles    []identity.Role `json:"roles,omitempty" enum:"reviewer,operator" doc:"Some of your roles. Omitted: all of them."`
		Agents   []string        `json:"agents,omitempty" doc:"Agents that the token may act as, among your own; * means all. Omitted: all for operators, none for others."`
	} `nameHint:"TokenRequest"`
}

// createToken creates a token for the caller, or for the first person.
func (h *personHandlers) createToken(ctx context.Context, input *createTokenInput) (*rest.Output[NewToken], error) {
	body, access := input.Body, rest.CallerOf(ctx).Person
	if body.Person != "" && body.PersonID != "" {
		return nil, rest.InvalidField("body.person", "must be given, or person_id, but not both")
	}
	if err := rest.CheckStorable("body.person", body.Person); err != nil {
		return nil, err
	}
	bootstrap := access.Person.Issuer == identity.LocalIssuer && access.Person.Subject == identity.Bootstrap
	var made identity.NewToken
	var err error
	switch {
	case bootstrap && body.Person != "":
		made, err = h.Identity.CreateFirstToken(ctx, *access, body.Person, body.Roles, body.Agents)
	case body.PersonID != "" && body.PersonID != access.Person.ID.String(),
		body.Person != "" && body.Person != access.Person.Name && body.Person != access.Person.Subject:
		err = identity.ErrOtherPerson
	default:
		made, err = h.Identity.CreateOwnToken(ctx, *access, body.Roles, body.Agents)
	}
	if wrong, ok := errors.AsType[*fault.InvalidError](err); ok && wrong.Fields[0].Name == "name" {
		return nil, rest.InvalidField("body.person", "%s", wrong.Fields[0].Expected)
	}
	if err != nil {
		return nil, err
	}
	return newTokenMade(made), nil
}

func (h *personHandlers) revokeToken(ctx context.Context, input *rest.ByID) (*rest.None, error) {
	id, err := rest.ParseID("token", input.ID)
	if err != nil {
		return nil, err
	}
	who := rest.CallerOf(ctx)
	if who.HasRole(identity.Operator) {
		return nil, rest.WithName(h.Identity.RevokeToken(ctx, who.PersonID(), id), "token", input.ID)
	}
	return nil, rest.WithName(h.Identity.RevokeTokenOf(ctx, who.PersonID(), who.PersonID(), input.ID), "token", input.ID)
}
