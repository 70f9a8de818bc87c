package api

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// Token is a person's credential.
type Token struct {
	ID        uuid.UUID       `json:"id" format:"uuid"`
	Person    string          `json:"person"`
	Roles     []identity.Role `json:"roles" nullable:"false"`
	Agents    []string        `json:"agents" nullable:"false" doc:"Agents that the person may act as; * is every one."`
	Hint      string          `json:"hint" doc:"Its first characters, to tell tokens apart."`
	CreatedAt time.Time       `json:"created_at"`
	ExpiresAt time.Time       `json:"expires_at" doc:"When it ends by itself."`
	RevokedAt *time.Time      `json:"revoked_at"`
	PersonID  uuid.UUID       `json:"person_id" format:"uuid"`
	Issuer    string          `json:"issuer" doc:"Who says who the person is; holdpoint: this server."`
	Subject   string          `json:"subject" doc:"Who the person is, to the issuer."`
	Alike     bool            `json:"alike" doc:"Somebody else has an equal name, or one that looks alike."`
}

// NewToken is a token that was just made.
type NewToken struct {
	Key       string    `json:"key" doc:"The secret. It is shown this once."`
	ID        uuid.UUID `json:"id" format:"uuid"`
	Person    string    `json:"person"`
	PersonID  uuid.UUID `json:"person_id" format:"uuid"`
	ExpiresAt time.Time `json:"expires_at"`
}

func newTokenMade(made identity.NewToken) *bodyOutput[NewToken] {
	return output(NewToken{
		Key: made.Secret, ID: made.ID, Person: made.Person.Name, PersonID: made.Person.ID, ExpiresAt: made.ExpiresAt.UTC(),
	})
}

// tokenViews presents tokens.
func (a *API) tokenViews(ctx context.Context, tokens []identity.Token) (func(identity.Token) Token, error) {
	people := make([]identity.Person, len(tokens))
	for i := range tokens {
		people[i] = tokens[i].Person
	}
	alike, err := a.identity.Alike(ctx, people...)
	return func(t identity.Token) Token { return newToken(t, alike[t.Person.ID]) }, err
}

func newToken(t identity.Token, alike bool) Token {
	return Token{
		ID: t.ID, Person: t.Person.Name, PersonID: t.Person.ID, Roles: orEmpty(t.Roles), Agents: orEmpty(t.Agents), Hint: t.Hint,
		Issuer: t.Person.Issuer, Subject: t.Person.Subject, CreatedAt: t.CreatedAt.UTC(), ExpiresAt: t.ExpiresAt.UTC(), RevokedAt: utcOrNull(t.RevokedAt), Alike: alike,
	}
}

// listTokens lists all tokens for operators, and their own valid ones for others.
func (a *API) listTokens(ctx context.Context, input *Page) (*listOutput[Token], error) {
	if who := callerOf(ctx); !who.has(identity.Operator) {
		own, err := a.identity.TokensOf(ctx, who.personID())
		if err != nil {
			return nil, err
		}
		view, err := a.tokenViews(ctx, own)
		return listOf(own, "", view), err
	}
	before, err := input.idCursor()
	if err != nil {
		return nil, err
	}
	found, next, err := a.identity.Tokens(ctx, before, input.Limit)
	if err != nil {
		return nil, err
	}
	view, err := a.tokenViews(ctx, found)
	return listOf(found, cursorOf(next), view), err
}

type createTokenInput struct {
	Body struct {
		Person   string          `json:"person,omitempty" doc:"Your own name, which may be left out. With the bootstrap token: the name of the first person, who is then the same person as the bootstrap token."`
		PersonID string          `json:"person_id,omitempty" format:"uuid" doc:"Instead: your own id."`
		Roles    []identity.Role `json:"roles,omitempty" enum:"reviewer,operator" doc:"Among your own. Left out: all of them."`
		Agents   []string        `json:"agents,omitempty" doc:"Agents that the token may act as, among your own; * is every one. Left out: every one for operators, none for others."`
	} `nameHint:"TokenRequest"`
}

// createToken makes a token for the person who asks, or for the first person.
func (a *API) createToken(ctx context.Context, input *createTokenInput) (*bodyOutput[NewToken], error) {
	body, access := input.Body, callerOf(ctx).person
	if body.Person != "" && body.PersonID != "" {
		return nil, invalid("body.person", "expected either person or person_id")
	}
	if err := storable("body.person", body.Person); err != nil {
		return nil, err
	}
	bootstrap := access.Person.Issuer == identity.LocalIssuer && access.Person.Subject == identity.Bootstrap
	var made identity.NewToken
	var err error
	switch {
	case bootstrap && body.Person != "":
		made, err = a.identity.CreateFirstToken(ctx, *access, body.Person, body.Roles, body.Agents)
	case body.PersonID != "" && body.PersonID != access.Person.ID.String(),
		body.Person != "" && body.Person != access.Person.Name && body.Person != access.Person.Subject:
		err = identity.ErrOtherPerson
	default:
		made, err = a.identity.CreateOwnToken(ctx, *access, body.Roles, body.Agents)
	}
	if known, ok := errors.AsType[*identity.InvalidError](err); ok && known.Field == "name" {
		return nil, invalid("body.person", "%s", known.Expected)
	}
	if err != nil {
		return nil, err
	}
	return newTokenMade(made), nil
}

func (a *API) revokeToken(ctx context.Context, input *ByID) (*none, error) {
	id, err := idOf("token", input.ID)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	if who.has(identity.Operator) {
		return nil, named(a.identity.RevokeToken(ctx, who.personID(), id), "token", input.ID)
	}
	return nil, named(a.identity.RevokeTokenOf(ctx, who.personID(), who.personID(), input.ID), "token", input.ID)
}
