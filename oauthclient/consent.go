package oauthclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/oauth2"

	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

// Request is an authorization request (RFC 6749 section 4.1.1), to which a person is sent.
type Request struct {
	URL string
	// Issuer is the authorization server. Its metadata names the URL, which may be on another site: show both to the
	// person.
	Issuer string
}

// Begin prepares to connect and returns where to send the person. issuer is the authorization server that the person chose, or
// "". The response goes to [Service.Callback], in any process.
//
// Errors: [ErrNotFound], *[NeedsConnectionError] if something else has to be done first, *[wire.Error].
func (s *Service) Begin(ctx context.Context, by uuid.UUID, key Key, issuer string) (Request, error) {
	t, err := s.store.resolveTarget(ctx, key)
	if err != nil {
		return Request{}, err
	}
	switch {
	case t.lacksPrincipal():
		return Request{}, wire.NewError(wire.StepAuthorization, nil, "each person has their own connection to this skill")
	case t.Settings.needsNoPerson():
		return Request{}, wire.NewError(wire.StepAuthorization, nil, "the grant %s needs no person", t.Settings.grantType())
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	fl, err := s.prepareFlow(ctx, t, issuer)
	if err != nil {
		return Request{}, s.store.storeFailure(ctx, t, err)
	}
	state := wire.RandomText()
	err = s.store.withLockedRow(ctx, t, func(tx pgx.Tx, c *connection) error {
		sealed, err := s.sealer.sealJSON(flowPurpose, c.ID, fl)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM oauth_flows WHERE expires_at < holdpoint_now()`)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO oauth_flows (state_hash, connection_id, person_id, sealed, expires_at)
			VALUES ($1, $2, $3, $4, holdpoint_now() + $5 * interval '1 second')`, stateHash(state), c.ID, by, sealed, flowLife.Seconds())
		return err
	})
	if err != nil {
		return Request{}, err
	}
	return Request{URL: fl.requestURL(s.clients.redirectURI(), state), Issuer: fl.Issuer}, nil
}

// Callback takes the authorization response (RFC 6749 section 4.1.2) that the person's browser brings, and completes the
// connection. A response is accepted once, and only from the person who began. by is that person.
//
// Errors: [ErrFlow], *[wire.Error].
func (s *Service) Callback(ctx context.Context, by uuid.UUID, answer url.Values) (Key, error) {
	state := answer.Get("state")
	if state == "" || len(state) > 200 {
		return Key{}, ErrFlow
	}
	var connectionID uuid.UUID
	var sealed []byte
	err := s.Pool.QueryRow(ctx, `DELETE FROM oauth_flows WHERE state_hash = $1 AND person_id = $2 AND expires_at > holdpoint_now()
		RETURNING connection_id, sealed`, stateHash(state), by).Scan(&connectionID, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return Key{}, ErrFlow
	}
	if err != nil {
		return Key{}, err
	}
	fl := &flow{}
	if err := s.sealer.unsealJSON(flowPurpose, connectionID, sealed, fl); err != nil {
		return Key{}, err
	}
	// The code is good once, so the exchange continues if the browser leaves.
	err = s.authorizer.attempts.runShared(context.WithoutCancel(ctx), "callback "+fl.Verifier, func(ctx context.Context) error {
		return s.store.storeFailure(ctx, fl.Target, asTokenError(s.completeFlow(ctx, by, fl, answer)))
	})
	return fl.Target.Key, err
}

// flowLife is how long a person may take at the authorization server.
const flowLife = 15 * time.Minute

// flow is a pending authorization request. It is stored encrypted (table oauth_flows).
type flow struct {
	Target   Target      `json:"target"` // with the settings that the response is for
	Resource string      `json:"resource"`
	Issuer   string      `json:"issuer"`
	Server   wire.Server `json:"server"`
	Client   wire.Client `json:"client"`
	Scopes   []string    `json:"scopes"`
	Verifier string      `json:"verifier"`
	DPoP     bool        `json:"dpop"`
	Identity bool        `json:"identity"` // at the enterprise's identity provider
	Nonce    string      `json:"nonce"`
}

// prepareFlow prepares the request. The person's choice of an issuer does not override the settings, so a client of the settings
// is used only at its own authorization server. With the grant enterprise_managed the person signs in at the enterprise's identity
// provider, whose ID token is then exchanged for tokens.
func (s *Service) prepareFlow(ctx context.Context, t Target, chosen string) (*flow, error) {
	c, r, err := s.store.readStanding(ctx, t)
	if err != nil {
		return nil, err
	}
	f, err := s.metadata.discoverResource(ctx, t, r.challenge, cmp.Or(chosen, c.Issuer))
	if err != nil {
		return nil, err
	}
	issuer, err := f.ChooseIssuer(cmp.Or(t.Settings.Issuer, chosen), c.Issuer)
	if err != nil {
		return nil, err
	}
	server := f.Servers[issuer]
	if server == nil {
		return nil, &NeedsConnectionError{
			Key: t.Key, Need: NeedIssuer, Reason: "choose one of the authorization servers: " + plain.Line(strings.Join(f.Issuers, ", "), 400),
		}
	}
	if t.Settings.grantType() == grantEnterprise {
		provider, err := s.authorizer.identityServer(ctx, t)
		if err != nil {
			return nil, err
		}
		if err := checkCodeGrant(provider); err != nil {
			return nil, err
		}
		cl := identityClient(t.Settings, provider)
		return &flow{
			Target: t, Issuer: provider.Issuer, Server: *provider, Scopes: []string{oidc.ScopeOpenID, scopeOffline},
			Verifier: oauth2.GenerateVerifier(), Client: *cl, Identity: true, Nonce: wire.RandomText(),
		}, nil
	}
	if err := checkCodeGrant(server); err != nil {
		return nil, err
	}
	cl, err := s.clients.findClient(ctx, t, t.skillOrigin(), server)
	if err != nil {
		return nil, err
	}
	scopes, _ := wantedScopes(t, r, c, f, server)
	return &flow{
		Target: t, Resource: f.ID, Issuer: server.Issuer, Server: *server, Scopes: scopes, Verifier: oauth2.GenerateVerifier(),
		Client: *cl, DPoP: f.WantsDPoP(server, r.challenge),
	}, nil
}

// requestURL returns the authorization request with PKCE (RFC 7636 section 4.3) and resource indicator (RFC 8707 section 2).
func (fl *flow) requestURL(redirectURI, state string) string {
	config := oauth2.Config{
		ClientID: fl.Client.ID, RedirectURL: redirectURI, Scopes: fl.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: fl.Server.AuthorizationEndpoint},
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(fl.Verifier)}
	if fl.Resource != "" {
		options = append(options, oauth2.SetAuthURLParam("resource", fl.Resource))
	}
	if slices.Contains(fl.Scopes, scopeOffline) {
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent")) // OpenID Connect Core section 11 requires it
	}
	if fl.Nonce != "" {
		options = append(options, oauth2.SetAuthURLParam("nonce", fl.Nonce))
	}
	return config.AuthCodeURL(state, options...)
}

func stateHash(state string) []byte {
	sum := sha256.Sum256([]byte(state))
	return sum[:]
}

// completeFlow checks who responded (RFC 9207 section 2.4), exchanges the code and stores the tokens. The tokens of an
// enterprise's identity provider it exchanges once more.
func (s *Service) completeFlow(ctx context.Context, by uuid.UUID, fl *flow, answer url.Values) error {
	switch iss, given := answer["iss"]; {
	case len(answer["code"]) > 1 || len(answer["state"]) > 1 || len(iss) > 1:
		return wire.NewError(wire.StepAuthorization, nil, "the response has a parameter twice")
	case given && iss[0] != fl.Server.Issuer:
		return wire.NewError(wire.StepAuthorization, nil, "iss: must be %q, not %q", plain.Line(fl.Server.Issuer, 200), plain.Line(iss[0], 200))
	case !given && fl.Server.AuthorizationResponseIssParameterSupported:
		return wire.NewError(wire.StepAuthorization, nil, "the response lacks the parameter iss, which %q promises to send", plain.Line(fl.Server.Issuer, 200))
	}
	if code := answer.Get("error"); code != "" {
		text := plain.Line(code, 100)
		if more := answer.Get("error_description"); more != "" {
			text += " (" + plain.Line(more, wire.MaxText) + ")"
		}
		return wire.NewError(wire.StepAuthorization, nil, "the authorization server answered: %s", text)
	}
	if answer.Get("code") == "" {
		return wire.NewError(wire.StepAuthorization, nil, "the response has neither a code nor an error")
	}
	// RFC 6749 section 4.1.3, RFC 7636 section 4.5.
	a := wire.TokenRequest{Server: &fl.Server, Client: &fl.Client, Params: url.Values{
		"grant_type": {grantCode}, "code": answer["code"], "redirect_uri": {s.clients.redirectURI()}, "code_verifier": {fl.Verifier}, "resource": {fl.Resource},
	}}
	if !fl.Identity { // an identity provider must be public
		a.Origin = fl.Target.skillOrigin()
	}
	err := s.keys.addSigningKey(ctx, fl.Target.Settings, a.Client)
	if err == nil && fl.DPoP {
		a.DPoPKey, err = wire.NewSigningKey()
	}
	if err != nil {
		return err
	}
	token, err := s.endpoint.RequestToken(ctx, a)
	if err != nil {
		if a.Client.Registered && wire.IsRefusedWith(err, wire.StepToken, "invalid_client", "unauthorized_client") {
			return errors.Join(asTokenError(err), s.clients.unregisterClient(ctx, fl.Server.Issuer, a.Client))
		}
		return err
	}
	if fl.Identity {
		idToken, _ := token.Extra("id_token").(string)
		if err := s.verifyIdentity(ctx, fl, idToken); err != nil {
			return err
		}
		return s.useIdentity(ctx, by, fl.Target, fl.Target.Settings.identityTokens(idToken, token.RefreshToken))
	}
	g, err := newGrant(a, token, fl.Resource, fl.Scopes)
	if err != nil {
		return err
	}
	g.by = by
	return s.storeConsent(ctx, fl.Target, g)
}

// storeConsent stores a grant of a person. If the skill was deleted meanwhile, it revokes the tokens.
func (s *Service) storeConsent(ctx context.Context, t Target, g *grant) error {
	defer s.store.dropCached(t.Key)
	for try := 1; ; try++ {
		err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
			c, err := s.store.findConnection(ctx, tx, byKeySQL+` FOR UPDATE`, t.sqlArgs()...)
			if err != nil {
				return err
			}
			return s.store.storeGrant(ctx, tx, t, c, g)
		})
		if errors.Is(err, ErrNotFound) {
			return errors.Join(err, postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
				return s.revocations.revokeLater(ctx, tx, g.asConnection(), nil)
			}))
		}
		if err == nil {
			return nil
		}
		s.Logger.Warn("store new tokens: trying again", "skill", t.Skill, "attempt", try, "error", err)
		if pause.For(ctx, storePause) != nil {
			return err
		}
	}
}
