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
	RevokedAt *time.Time      `json:"revoked_at"`
	PersonID  uuid.UUID       `json:"person_id" format:"uuid"`
}

// NewToken is a token that was just made.
type NewToken struct {
	Key    string    `json:"key" doc:"The secret. It is shown this once."`
	ID     uuid.UUID `json:"id" format:"uuid"`
	Person string    `json:"person"`
}

func newToken(t identity.Token) Token {
	return Token{
		ID: t.ID, Person: t.Person.Name, PersonID: t.Person.ID, Roles: orEmpty(t.Roles), Agents: orEmpty(t.Agents), Hint: t.Hint,
		CreatedAt: t.CreatedAt.UTC(), RevokedAt: utcOrNull(t.RevokedAt),
	}
}

func (a *API) listTokens(ctx context.Context, input *Page) (*listOutput[Token], error) {
	before, err := input.idCursor()
	if err != nil {
		return nil, err
	}
	found, next, err := a.identity.Tokens(ctx, before, input.Limit)
	if err != nil {
		return nil, err
	}
	return listOf(found, cursorOf(next), newToken), nil
}

type createTokenInput struct {
	Body struct {
		Person   string          `json:"person,omitempty" doc:"Name of a person whom this server itself knows; one who is not known yet is made."`
		PersonID string          `json:"person_id,omitempty" format:"uuid" doc:"Instead: the id of a person who is known, by whatever issuer."`
		Roles    []identity.Role `json:"roles" enum:"reviewer,operator" minItems:"1" nullable:"false"`
		Agents   []string        `json:"agents,omitempty" doc:"Agents that the person may act as; * is every one. Left out: every one for operators, none for others."`
	} `nameHint:"TokenRequest"`
}

func (a *API) createToken(ctx context.Context, input *createTokenInput) (*bodyOutput[NewToken], error) {
	body := input.Body
	if (body.Person == "") == (body.PersonID == "") {
		return nil, invalid("body.person", "expected either person or person_id")
	}
	if body.PersonID != "" {
		return a.createTokenFor(ctx, body.PersonID, body.Roles, body.Agents)
	}
	id, secret, err := a.identity.CreateToken(ctx, callerOf(ctx).personID(), body.Person, body.Roles, body.Agents)
	if err != nil {
		return nil, err
	}
	return output(NewToken{Key: secret, ID: id, Person: body.Person}), nil
}

// createTokenFor makes a token for somebody who is known.
func (a *API) createTokenFor(ctx context.Context, person string, roles []identity.Role, agents []string) (*bodyOutput[NewToken], error) {
	known, err := uuid.Parse(person)
	if err != nil {
		return nil, invalid("body.person_id", "expected the id of a person")
	}
	id, secret, err := a.identity.CreateTokenFor(ctx, callerOf(ctx).personID(), known, roles, agents)
	if errors.Is(err, identity.ErrNotFound) {
		return nil, invalid("body.person_id", "there is no person %q here", person)
	}
	if err != nil {
		return nil, err
	}
	names, err := a.people(ctx, known)
	if err != nil {
		return nil, err
	}
	return output(NewToken{Key: secret, ID: id, Person: names[known]}), nil
}

func (a *API) revokeToken(ctx context.Context, input *ByID) (*none, error) {
	id, err := idOf("token", input.ID)
	if err != nil {
		return nil, err
	}
	return nil, named(a.identity.RevokeToken(ctx, callerOf(ctx).personID(), id), "token", input.ID)
}
