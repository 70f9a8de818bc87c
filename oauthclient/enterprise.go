package oauthclient

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

// SignedIn connects the skills that an enterprise's identity provider manages (grant enterprise_managed, [Config.Managed]) for
// a person who has just signed in there, by the ID token of the sign-in. It returns at once; [Service.Close] waits for the work.
// Failures are logged; the person can still connect each skill.
func (s *Service) SignedIn(person uuid.UUID, issuer, clientID, idToken string) {
	if s.Managed == nil || idToken == "" {
		return
	}
	attempts := s.authorizer.attempts
	attempts.startShared("signed in "+person.String()+" "+issuer+" "+clientID, func(ctx context.Context) error {
		err := runRecovered(ctx, func(ctx context.Context) error { return s.connectManaged(ctx, person, issuer, clientID, idToken) })
		if err != nil && attempts.base.Err() == nil {
			s.Logger.Warn("connect enterprise-managed skill", "person", person, "issuer", issuer, "error", err)
		}
		return err
	})
}

func (s *Service) connectManaged(ctx context.Context, person uuid.UUID, issuer, clientID, idToken string) error {
	skills, err := s.Managed(ctx, issuer, clientID)
	if err != nil {
		return err
	}
	for _, skill := range skills {
		key, err := s.KeyFor(ctx, skill, true, person)
		if err != nil {
			return err
		}
		if err := s.UseIdentity(ctx, person, key, idToken); err != nil {
			s.Logger.Warn("connect enterprise-managed skill", "person", person, "issuer", issuer, "skill_id", skill, "error", err)
		}
	}
	return nil
}

// UseIdentity connects a skill by an ID token that the enterprise's identity provider issued for the person of the key (grant
// enterprise_managed).
func (s *Service) UseIdentity(ctx context.Context, by uuid.UUID, key Key, idToken string) error {
	t, err := s.store.resolveTarget(ctx, key)
	if err != nil {
		return err
	}
	return s.useIdentity(ctx, by, t, t.Settings.identityTokens(idToken, ""))
}

func (s *Service) verifyIdentity(ctx context.Context, fl *flow, idToken string) error {
	if _, err := s.fetch.CheckURL("", fl.Server.JWKSURI); err != nil {
		return wire.NewError(wire.StepIdentity, err, "jwks_uri of %s: %s", plain.Line(fl.Server.Issuer, 200), err)
	}
	client := *s.fetch.Client("")
	client.Transport = outbound.BoundBodies(client.Transport, wire.MaxDocument) // the library reads without a limit
	keys := oidc.NewRemoteKeySet(oidc.ClientContext(ctx, &client), fl.Server.JWKSURI)
	verified, err := oidc.NewVerifier(fl.Server.Issuer, keys, &oidc.Config{
		ClientID: fl.Client.ID, Now: s.Now, SupportedSigningAlgs: provider.SigningAlgorithms(),
	}).Verify(ctx, idToken)
	if err != nil {
		return wire.NewError(wire.StepIdentity, err, "%s issued an ID token that does not verify", plain.Line(fl.Server.Issuer, 200))
	}
	if verified.Nonce != fl.Nonce {
		return wire.NewError(wire.StepIdentity, nil, "%s issued an ID token for another request", plain.Line(fl.Server.Issuer, 200))
	}
	return nil
}

func (s *Service) useIdentity(ctx context.Context, by uuid.UUID, t Target, identity tokens) error {
	err := s.store.withLockedRow(ctx, t, func(pgx.Tx, *connection) error { return nil }) // inserts the row if there is none
	if err != nil {
		return err
	}
	c, r, err := s.store.readStanding(ctx, t)
	if err != nil {
		return err
	}
	f, err := s.metadata.discoverResource(ctx, t, r.challenge, c.Issuer)
	if err != nil {
		return err
	}
	issuer, err := f.ChooseIssuer(t.Settings.Issuer, c.Issuer)
	if err != nil {
		return err
	}
	server := f.Servers[issuer]
	if server == nil {
		return wire.NewError(wire.StepServer, nil, "the skill's server takes tokens of several authorization servers: set oauth.issuer")
	}
	cl, err := s.clients.findClient(ctx, t, t.skillOrigin(), server)
	if err != nil {
		return err
	}
	scopes, _ := wantedScopes(t, r, c, f, server)
	c.tokens = identity
	g, err := s.authorizer.requestGrant(ctx, t, f, server, cl, c, scopes, r)
	if err != nil {
		return asTokenError(err)
	}
	g.by = by
	return s.storeConsent(ctx, t, g)
}

// identityTokens returns the tokens that the identity provider of the settings issued.
func (settings Settings) identityTokens(idToken, refresh string) tokens {
	return tokens{
		Identity: idToken, IdentityRefresh: refresh, IdentityIssuer: settings.IDPIssuer, IdentityClient: settings.IDPClientID,
	}
}

// hasIdentity reports whether there is an ID token, or a refresh token for one, of the identity provider and client in the
// settings.
func (t *tokens) hasIdentity(settings Settings) bool {
	return (t.Identity != "" || t.IdentityRefresh != "") && t.IdentityIssuer == settings.IDPIssuer && t.IdentityClient == settings.IDPClientID
}

// enterpriseToken exchanges a person's ID token for an identity assertion authorization grant (ID-JAG, by RFC 8693), and that
// for an access token (RFC 7523 section 2.1).
func (az *authorizer) enterpriseToken(ctx context.Context, t Target, a wire.TokenRequest, c *connection, resource string, scopes []string) (*grant, error) {
	idp, err := az.identityServer(ctx, t)
	if err != nil {
		return nil, err
	}
	if !c.tokens.hasIdentity(t.Settings) {
		return nil, wire.NewError(wire.StepIdentity, nil, "the person's identity is from another identity provider: connect again")
	}
	left := &c.tokens               // renewed identity tokens are kept even if the exchange fails
	if left.IdentityRefresh != "" { // the ID token may have expired
		token, err := az.endpoint.RequestToken(ctx, wire.TokenRequest{Server: idp, Client: identityClient(t.Settings, idp), Params: url.Values{
			"grant_type": {grantTypeRefresh}, "refresh_token": {left.IdentityRefresh},
		}})
		if err != nil {
			return nil, asIdentityRefusal(err, left)
		}
		if fresh, ok := token.Extra("id_token").(string); ok && fresh != "" {
			left.Identity = fresh
		}
		if token.RefreshToken != "" {
			left.IdentityRefresh = token.RefreshToken
		}
	}
	exchange := wire.TokenRequest{Server: idp, Client: identityClient(t.Settings, idp), Params: url.Values{
		"grant_type": {grantTypeExchange}, "requested_token_type": {tokenTypeIDJAG}, "audience": {a.Server.Issuer},
		"resource": {resource}, "scope": {strings.Join(scopes, " ")}, "subject_token": {left.Identity}, "subject_token_type": {tokenTypeIDToken},
	}}
	jag, err := az.endpoint.RequestToken(ctx, exchange)
	if err != nil {
		return nil, asIdentityRefusal(err, left)
	}
	if kind, _ := jag.Extra("issued_token_type").(string); kind != tokenTypeIDJAG {
		return nil, wire.NewError(wire.StepIdentity, nil, "%s issued a %q, not an ID-JAG", plain.Line(idp.Issuer, 200), plain.Line(kind, 100))
	}
	a.Params.Set("grant_type", grantTypeJWT)
	a.Params.Set("assertion", jag.AccessToken)
	token, err := az.endpoint.RequestToken(ctx, a)
	if err != nil {
		return nil, err
	}
	g, err := newGrant(a, token, resource, scopes)
	if err != nil {
		return nil, err
	}
	g.tokens.Refresh = "" // each renewal goes to the identity provider
	g.tokens.Identity, g.tokens.IdentityRefresh = left.Identity, left.IdentityRefresh
	g.tokens.IdentityIssuer, g.tokens.IdentityClient = left.IdentityIssuer, left.IdentityClient
	return g, nil
}

// identityServer returns the metadata of the enterprise's identity provider. Its URL comes from the operator and must be
// https.
func (az *authorizer) identityServer(ctx context.Context, t Target) (*wire.Server, error) {
	server, err := az.fetch.ReadServer(ctx, "", t.Settings.IDPIssuer)
	if err != nil {
		return nil, wire.NewError(wire.StepIdentity, err, "%s", err)
	}
	if server == nil {
		return nil, wire.NewError(wire.StepIdentity, nil, "%s has no metadata", plain.Line(t.Settings.IDPIssuer, 200))
	}
	return server, nil
}

func identityClient(settings Settings, server *wire.Server) *wire.Client {
	c := &wire.Client{ID: settings.IDPClientID, Secret: settings.IDPClientSecret, Method: wire.AuthNone}
	if c.Secret != "" {
		c.Method = methodFor(Settings{ClientSecret: c.Secret}, server)
	}
	return c
}

// asIdentityRefusal marks a refusal as one by the identity provider. It turns the refusal of an ID token that cannot be renewed
// (invalid_request, RFC 8693 section 2.2.2) into invalid_grant: the ID token has probably expired.
func asIdentityRefusal(err error, t *tokens) error {
	refused, ok := errors.AsType[*wire.RefusedError](err)
	if !ok {
		return err
	}
	marked := *refused
	marked.Step = wire.StepIdentity
	if marked.Code == "invalid_request" && t.IdentityRefresh == "" {
		marked.Code = "invalid_grant"
	}
	return &marked
}
