package oauthclient

import (
	"context"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/oauth2"
)

// identityFlow asks the enterprise's identity provider who the person is: what it says is exchanged for tokens.
func (s *Service) identityFlow(ctx context.Context, t Target) (*flow, error) {
	provider, err := s.identityServer(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := checkCodeGrant(provider); err != nil {
		return nil, err
	}
	cl := identityClient(t.Settings, provider)
	return &flow{
		Target: t, Issuer: provider.Issuer, Server: *provider, Scopes: []string{oidc.ScopeOpenID, scopeOffline},
		Verifier: oauth2.GenerateVerifier(), Client: flowClient{cl.id, cl.secret, cl.method, false}, Identity: true, Nonce: randomText(),
	}, nil
}

// completeIdentity verifies who the person is, and gets the token at once.
func (s *Service) completeIdentity(ctx context.Context, by uuid.UUID, fl *flow, code string) error {
	a, err := s.codeRequest(ctx, fl, code)
	if err != nil {
		return err
	}
	a.own = ""
	token, err := s.token(ctx, a)
	if err != nil {
		return err
	}
	idToken, _ := token.Extra("id_token").(string)
	if err := s.verifyIdentity(ctx, fl, idToken); err != nil {
		return err
	}
	return s.useIdentity(ctx, by, fl.Target, fl.Target.Settings.identity(idToken, token.RefreshToken))
}

func (s *Service) verifyIdentity(ctx context.Context, fl *flow, idToken string) error {
	if _, err := s.checkURL("", fl.Server.JWKSURI); err != nil {
		return fail(StepIdentity, err, "jwks_uri of %s: %s", plain(fl.Server.Issuer, 200), err)
	}
	keys := oidc.NewRemoteKeySet(oidc.ClientContext(ctx, boundedClient(s.client(""))), fl.Server.JWKSURI)
	verified, err := oidc.NewVerifier(fl.Server.Issuer, keys, &oidc.Config{
		ClientID: fl.Client.ID, Now: s.Now, SupportedSigningAlgs: identityAlgorithms(),
	}).Verify(ctx, idToken)
	if err != nil {
		return fail(StepIdentity, err, "%s issued an ID token that does not verify", plain(fl.Server.Issuer, 200))
	}
	if verified.Nonce != fl.Nonce {
		return fail(StepIdentity, nil, "%s issued an ID token for another request", plain(fl.Server.Issuer, 200))
	}
	return nil
}

// identityAlgorithms are those that ID tokens may be signed with: none with a shared secret.
func identityAlgorithms() []string {
	return []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
	}
}

// identity is what the provider of the settings said of somebody.
func (settings Settings) identity(idToken, refresh string) tokens {
	return tokens{
		Identity: idToken, IdentityRefresh: refresh, IdentityIssuer: settings.IDPIssuer, IdentityClient: settings.IDPClientID,
	}
}

// knows reports whether there is something that the provider of the settings said, for this client.
func (t *tokens) knows(settings Settings) bool {
	return (t.Identity != "" || t.IdentityRefresh != "") && t.IdentityIssuer == settings.IDPIssuer && t.IdentityClient == settings.IDPClientID
}

// UseIdentity connects by an ID token that the enterprise's identity provider issued for the
// person of the key, as their sign-in does (grant enterprise_managed).
func (s *Service) UseIdentity(ctx context.Context, by uuid.UUID, key Key, idToken string) error {
	t, err := s.target(ctx, key)
	if err != nil {
		return err
	}
	return s.useIdentity(ctx, by, t, t.Settings.identity(idToken, ""))
}

func (s *Service) useIdentity(ctx context.Context, by uuid.UUID, t Target, identity tokens) error {
	err := s.inRow(ctx, t, func(pgx.Tx, *connection) error { return nil }) // it may be the first that is heard of it
	if err != nil {
		return err
	}
	c, r, err := s.standing(ctx, t)
	if err != nil {
		return err
	}
	f, err := s.discover(ctx, t, r.challenge, c.Issuer)
	if err != nil {
		return err
	}
	issuer, err := f.choose(t.Settings.Issuer, c.Issuer)
	if err != nil {
		return err
	}
	server := f.servers[issuer]
	if server == nil {
		return fail(StepServer, nil, "the skill's server takes tokens of several authorization servers: set oauth.issuer")
	}
	cl, err := s.clientOf(ctx, t, t.own(), server)
	if err != nil {
		return err
	}
	scopes, _ := wantedScopes(t, r, c, f, server)
	c.tokens = identity
	g, err := s.regrant(ctx, t, f, server, cl, c, scopes, r)
	if err != nil {
		return asTokenError(err)
	}
	g.by = by
	return s.storeConsent(ctx, t, g)
}
