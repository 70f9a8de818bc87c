package oauthclient

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
)

// identityServer is the enterprise's identity provider. Its URL is the operator's, and must be https like all.
func (s *Service) identityServer(ctx context.Context, t Target) (*Server, error) {
	server, err := s.serverMetadata(ctx, "", t.Settings.IDPIssuer)
	if err != nil {
		return nil, fail(StepIdentity, err, "%s", err)
	}
	if server == nil {
		return nil, fail(StepIdentity, nil, "%s has no metadata", plain(t.Settings.IDPIssuer, 200))
	}
	return server, nil
}

func identityClient(settings Settings, server *Server) *client {
	c := &client{id: settings.IDPClientID, secret: settings.IDPClientSecret, method: authNone}
	if c.secret != "" {
		c.method = methodFor(Settings{ClientSecret: c.secret}, server)
	}
	return c
}

// enterpriseToken exchanges what the identity provider says of a person for an authorization grant (ID-JAG, RFC 8693),
// and that for a token (RFC 7523).
func (s *Service) enterpriseToken(ctx context.Context, t Target, a ask, c *connection, resource string, scopes []string) (*grant, error) {
	provider, err := s.identityServer(ctx, t)
	if err != nil {
		return nil, err
	}
	if !c.tokens.knows(t.Settings) {
		return nil, fail(StepIdentity, nil, "what is known of the person is another identity provider's: connect again")
	}
	left := &c.tokens // what is renewed of it stays, whatever becomes of the rest
	if err := s.freshIdentity(ctx, t, provider, left); err != nil {
		return nil, ofProvider(err)
	}
	exchange := ask{server: provider, client: identityClient(t.Settings, provider), params: url.Values{
		"grant_type": {grantTypeExchange}, "requested_token_type": {tokenTypeIDJAG}, "audience": {a.server.Issuer},
		"resource": {resource}, "scope": {strings.Join(scopes, " ")}, "subject_token": {left.Identity}, "subject_token_type": {tokenTypeIDToken},
	}}
	jag, err := s.token(ctx, exchange)
	if err != nil {
		return nil, withoutRenewal(ofProvider(err), left)
	}
	if kind, _ := jag.Extra("issued_token_type").(string); kind != tokenTypeIDJAG {
		return nil, fail(StepIdentity, nil, "%s issued a %q, not an ID-JAG", plain(provider.Issuer, 200), plain(kind, 100))
	}
	a.params.Set("grant_type", grantTypeJWT)
	a.params.Set("assertion", jag.AccessToken)
	token, err := s.token(ctx, a)
	if err != nil {
		return nil, err
	}
	g, err := a.granted(token, resource, scopes)
	if err != nil {
		return nil, err
	}
	g.tokens.Refresh = "" // the identity provider stays in charge
	g.tokens.Identity, g.tokens.IdentityRefresh = left.Identity, left.IdentityRefresh
	g.tokens.IdentityIssuer, g.tokens.IdentityClient = left.IdentityIssuer, left.IdentityClient
	return g, nil
}

// withoutRenewal: an ID token that cannot be renewed, and that is refused (RFC 8693 section 2.2.2 says invalid_request), has
// probably run out.
func withoutRenewal(err error, t *tokens) error {
	refused, ok := errors.AsType[*refusedError](err)
	if ok && refused.code == "invalid_request" && t.IdentityRefresh == "" {
		spent := *refused
		spent.code = "invalid_grant"
		return &spent
	}
	return err
}

// ofProvider says who refused.
func ofProvider(err error) error {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		by := *refused
		by.step = StepIdentity
		return &by
	}
	return err
}

// freshIdentity renews the ID token where that is possible: it may have run out.
func (s *Service) freshIdentity(ctx context.Context, t Target, provider *Server, left *tokens) error {
	if left.IdentityRefresh == "" {
		return nil
	}
	token, err := s.token(ctx, ask{server: provider, client: identityClient(t.Settings, provider), params: url.Values{
		"grant_type": {grantTypeRefresh}, "refresh_token": {left.IdentityRefresh},
	}})
	if err != nil {
		return err
	}
	if fresh, ok := token.Extra("id_token").(string); ok && fresh != "" {
		left.Identity = fresh
	}
	if token.RefreshToken != "" {
		left.IdentityRefresh = token.RefreshToken
	}
	return nil
}

// audit writes what happened to a connection. by is who did it; uuid.Nil: nobody in particular.
func (s *Service) audit(ctx context.Context, tx pgx.Tx, c *connection, action string, by uuid.UUID, data map[string]any) error {
	actor := audit.System()
	if by != uuid.Nil {
		actor = audit.Person(by)
	}
	data["skill"] = c.SkillID
	if c.Principal != uuid.Nil {
		data["person"] = c.Principal
	}
	return audit.Write(ctx, tx, audit.Event{Actor: actor, Action: action, Subject: c.ID, Data: data})
}
