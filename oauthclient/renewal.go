package oauthclient

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/oauth2"

	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

// renewToken gets a new token without a person, under the lock of the connection's row. used is the id of the client that the
// present tokens were issued to, if it matters.
func (az *authorizer) renewToken(ctx context.Context, t Target, r refusal, f *wire.Resource, server *wire.Server, scopes []string, used string) error {
	cl, err := az.renewingClient(ctx, t, server, used)
	if errors.Is(err, errClientGone) {
		return az.abandonTokens(ctx, t, r, f, "the client that it was connected with no longer exists: connect again")
	}
	if needs, ok := errors.AsType[*NeedsConnectionError](err); ok {
		return az.store.storeNeed(ctx, t, needs, f.Issuers, r)
	}
	if err != nil {
		return err
	}
	release, err := az.slots.acquireSlot(ctx, server.Issuer)
	if err != nil {
		return wire.NewError(wire.StepToken, err, "%s is busy with others", plain.Line(server.Issuer, 200))
	}
	n := renewal{authorizer: az, target: t, refusal: r, found: f, server: server, client: cl, scopes: scopes}
	err = func() error {
		defer release()
		return az.store.withLockedRow(ctx, t, func(tx pgx.Tx, c *connection) error { return n.renewInTx(ctx, tx, c) })
	}()
	switch {
	case n.refused != nil && isRenewalRefused(n.refused, t) && r.early:
		return nil // the access token is still good
	case n.refused != nil && isRenewalRefused(n.refused, t):
		return az.store.storeNeed(ctx, t, &NeedsConnectionError{
			Need: NeedAgain, Scopes: r.challenge.Scopes, Reason: "the authorization server no longer renews the tokens: connect again",
		}, f.Issuers, r)
	case err != nil && n.got != nil:
		return az.storeRetrying(ctx, t, n, err)
	case err == nil:
		err = n.refused
	}
	if cl.Registered && wire.IsRefusedWith(err, wire.StepToken, "invalid_client", "unauthorized_client") {
		if failed := az.clients.unregisterClient(ctx, server.Issuer, cl); failed != nil {
			return errors.Join(err, failed)
		}
		return az.abandonTokens(ctx, t, r, f, "the authorization server no longer knows Holdpoint as a client: connect again")
	}
	return asTokenError(err)
}

// renewingClient returns the client that the tokens were issued to, even if it was registered with another public URL.
func (az *authorizer) renewingClient(ctx context.Context, t Target, server *wire.Server, used string) (*wire.Client, error) {
	if used == "" || t.Settings.ClientID != "" || t.Settings.needsNoPerson() {
		return az.clients.findClient(ctx, t, t.skillOrigin(), server)
	}
	c, err := az.clients.storedClient(ctx, az.Pool, server.Issuer, used)
	if c != nil || err != nil {
		return c, err
	}
	if strings.HasPrefix(used, "https://") { // its Client ID Metadata Document
		return &wire.Client{ID: used, Method: wire.AuthNone}, nil
	}
	return nil, errClientGone
}

// errClientGone: the tokens were issued to a client whose secret has expired or that the authorization server no longer knows.
var errClientGone = errors.New("the client is gone")

// renewal is a renewal of tokens under the lock of their row.
type renewal struct {
	authorizer *authorizer
	target     Target
	refusal    refusal
	found      *wire.Resource
	server     *wire.Server
	client     *wire.Client
	scopes     []string

	before  *connection // the row before the renewal
	got     *grant
	refused error // why there is no grant; its consequences are stored
}

// renewInTx requests and stores new tokens. It stores the consequences of a refusal too.
func (n *renewal) renewInTx(ctx context.Context, tx pgx.Tx, c *connection) error {
	az, t := n.authorizer, n.target
	switch {
	case c.SkillRevision > t.Revision:
		return wire.NewError(wire.StepToken, nil, "the skill was changed meanwhile")
	case c.sealed != nil && c.generation > n.refusal.generation && (!n.refusal.insufficient || c.coversRefusal(n.refusal)) && c.isForTarget(t):
		return nil // another process has renewed it
	case t.Settings.grantType() == grantCode && (c.Issuer != n.server.Issuer || c.Resource != n.found.ID || c.tokens.Refresh == ""):
		return wire.NewError(wire.StepToken, nil, "the skill was connected anew meanwhile")
	}
	n.before = c
	if n.refusal.insufficient && c.Issuer == n.server.Issuer && c.Resource == n.found.ID {
		n.scopes = unionScopes(c.ScopesAsked, n.scopes) // a person may have granted more meanwhile
	}
	if err := postgres.AllowIdle(ctx, tx, idleInTx); err != nil {
		return err
	}
	identity := c.tokens.IdentityRefresh
	g, err := az.requestGrant(ctx, t, n.found, n.server, n.client, c, n.scopes, n.refusal)
	if err == nil {
		g.challenge = n.refusal.header
		n.got = g
		failpoint.Hit(failpoint.RefreshBeforeCommit)
		return az.store.storeGrant(ctx, tx, t, c, g)
	}
	n.refused = err
	switch {
	case isRenewalRefused(err, t):
		// In an early renewal the access token stays until it expires.
		if !n.refusal.early {
			return az.store.storeTokens(ctx, tx, c, nil)
		}
		left := c.tokens
		left.Refresh, left.Identity, left.IdentityRefresh = "", "", ""
		return az.store.storeTokens(ctx, tx, c, &left)
	case c.tokens.IdentityRefresh != identity: // it was used and replaced
		return az.store.storeTokens(ctx, tx, c, &c.tokens)
	}
	return nil
}

const (
	grantTypeRefresh  = "refresh_token"
	grantTypeJWT      = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	grantTypeExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	tokenTypeIDToken  = "urn:ietf:params:oauth:token-type:id_token" //nolint:gosec // G101: a name
	tokenTypeIDJAG    = "urn:ietf:params:oauth:token-type:id-jag"   //nolint:gosec // G101: a name
	storePause        = 250 * time.Millisecond
)

// requestGrant requests a token by the grant of the settings.
func (az *authorizer) requestGrant(ctx context.Context, t Target, f *wire.Resource, server *wire.Server, cl *wire.Client, c *connection, scopes []string, r refusal) (*grant, error) {
	a := wire.TokenRequest{Origin: t.skillOrigin(), Server: server, Client: cl, Params: url.Values{"resource": {f.ID}, "scope": {strings.Join(scopes, " ")}}}
	var err error
	a.DPoPKey, err = c.tokens.boundKey()
	if err == nil && a.DPoPKey == nil && f.WantsDPoP(server, r.challenge) {
		a.DPoPKey, err = wire.NewSigningKey()
	}
	if err != nil {
		return nil, err
	}
	switch t.Settings.grantType() {
	case grantClient:
		a.Params.Set("grant_type", grantClient)
	case grantWorkload:
		if az.WorkloadToken == nil {
			return nil, wire.NewError(wire.StepToken, nil, "this server has no identity token: start it with --workload-token-file")
		}
		assertion, err := az.WorkloadToken(ctx)
		if err != nil {
			return nil, wire.NewError(wire.StepToken, err, "this server's identity token cannot be read")
		}
		a.Params.Set("grant_type", grantTypeJWT)
		a.Params.Set("assertion", assertion)
	case grantEnterprise:
		return az.enterpriseToken(ctx, t, a, c, f.ID, scopes)
	default:
		a.Params.Set("grant_type", grantTypeRefresh)
		a.Params.Set("refresh_token", c.tokens.Refresh)
	}
	token, err := az.endpoint.RequestToken(ctx, a)
	if err != nil {
		return nil, err
	}
	g, err := newGrant(a, token, f.ID, scopes)
	if err == nil && t.Settings.grantType() == grantCode {
		// The response leaves out unchanged values (RFC 6749 section 6).
		if g.tokens.Refresh == "" {
			g.tokens.Refresh = c.tokens.Refresh
		}
		if _, said := token.Extra("scope").(string); !said {
			g.granted = c.ScopesGranted
		}
		g.asked = c.ScopesAsked
	}
	return g, err
}

// isRenewalRefused reports whether the credential that renews the connection is refused, by the authorization server or by the
// enterprise's identity provider.
func isRenewalRefused(err error, t Target) bool {
	step := wire.StepToken
	if t.Settings.grantType() == grantEnterprise {
		step = wire.StepIdentity
	}
	return !t.Settings.needsNoPerson() && wire.IsRefusedWith(err, step, "invalid_grant")
}

// asTokenError turns a refusal into an *[wire.Error] of its step.
func asTokenError(err error) error {
	if refused, ok := errors.AsType[*wire.RefusedError](err); ok {
		return wire.NewError(refused.Step, nil, "%s", refused.Error())
	}
	return err
}

// abandonTokens deletes the tokens of a connection and returns that a person has to connect again. A token that is still good
// stays.
func (az *authorizer) abandonTokens(ctx context.Context, t Target, r refusal, f *wire.Resource, reason string) error {
	if r.early {
		return wire.NewError(wire.StepToken, nil, "%s", reason)
	}
	err := az.store.withLockedRow(ctx, t, func(tx pgx.Tx, c *connection) error { return az.store.storeTokens(ctx, tx, c, nil) })
	if err != nil {
		return err
	}
	return az.store.storeNeed(ctx, t, &NeedsConnectionError{Need: NeedAgain, Scopes: r.challenge.Scopes, Reason: reason}, f.Issuers, r)
}

// storeRetrying stores tokens whose first storing failed, since the refresh token that got them may be used up. If the
// connection was connected or disconnected meanwhile, it revokes them instead.
func (az *authorizer) storeRetrying(ctx context.Context, t Target, n renewal, cause error) error {
	for try := 1; ; try++ {
		err := az.store.withLockedRow(ctx, t, func(tx pgx.Tx, c *connection) error {
			if c.generation == n.before.generation && c.account == n.before.account {
				return az.store.storeGrant(ctx, tx, t, c, n.got)
			}
			return az.revocations.revokeLater(ctx, tx, n.got.asConnection(), &t)
		})
		if err == nil {
			return nil
		}
		az.Logger.Warn("store new tokens: trying again", "skill", t.Skill, "attempt", try, "error", err)
		if pause.For(ctx, storePause) != nil {
			return errors.Join(cause, err)
		}
	}
}

// newGrant makes a grant of the response to the request. asked are the requested scopes, which are the granted ones unless the
// response names others (RFC 6749 section 5.1).
func newGrant(a wire.TokenRequest, token *oauth2.Token, resource string, asked []string) (*grant, error) {
	g := &grant{
		tokens: tokens{Access: token.AccessToken, Type: "Bearer", Refresh: token.RefreshToken},
		issuer: a.Server.Issuer, resource: resource, clientID: a.Client.ID, asked: asked, granted: asked,
		life: wire.Lifetime(token),
	}
	g.tokens.Life = int64(g.life.Seconds())
	if scope, ok := token.Extra("scope").(string); ok {
		g.granted = wire.SplitScopes(scope)
	}
	if !wire.IsDPoP(token.TokenType) {
		return g, nil
	}
	g.tokens.Type = "DPoP"
	var err error
	g.tokens.Key, err = a.DPoPKey.MarshalEC()
	return g, err
}
