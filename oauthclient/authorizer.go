package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

// authorizer gets tokens without a person, or returns the need for a person.
type authorizer struct {
	*Config
	store       *store
	revocations *revoker
	clients     *registrar
	metadata    *discovery
	endpoint    *wire.TokenClient
	fetch       *wire.Fetcher
	slots       *requestSlots
	attempts    *attempts
	backoffs    backoffs
}

// refusal is the reason why a token is needed.
type refusal struct {
	challenge  wire.Challenge
	header     string // the challenge as the server sent it
	generation int64  // of the refused token; 0: the request had none
	method     string // the MCP method of the refused request
	// insufficient: the token is valid but lacks scopes (RFC 6750 section 3.1, insufficient_scope).
	insufficient bool
	// early: no server refused the token; it is about to expire.
	early bool
}

// authorize gets a token after a refusal. If it returns nil, the request may be sent again. Callers that need a token for the
// same connection at the same time share one attempt.
func (az *authorizer) authorize(ctx context.Context, t Target, r refusal) error {
	if t.lacksPrincipal() {
		return wire.NewError(wire.StepChallenge, nil, "each person has their own connection to this skill, and this request is made on no person's behalf")
	}
	name := fmt.Sprint(t.SkillID, t.Principal, t.Revision)
	if r.insufficient {
		name += " " + strings.Join(r.challenge.Scopes, " ")
	}
	return az.attempts.runShared(ctx, name, func(ctx context.Context) error {
		return az.store.storeFailure(ctx, t, az.acquireToken(ctx, t, r))
	})
}

func (az *authorizer) acquireToken(ctx context.Context, t Target, r refusal) error {
	c, err := az.store.readConnection(ctx, az.Pool, byKeySQL, t.sqlArgs()...)
	if err != nil {
		return err
	}
	if c == nil {
		c = &connection{}
	}
	if c.sealed != nil && c.generation > r.generation && (!r.insufficient || c.coversRefusal(r)) && c.isForTarget(t) {
		az.store.dropCached(t.Key)
		return nil // another renewed it meanwhile
	}
	if r.header == "" && c.SkillRevision == t.Revision { // a renewal that no server asked for: its last challenge still applies
		r.challenge.ResourceMetadata = wire.ParseChallenge([]string{c.challenge}).ResourceMetadata
	}
	f, err := az.metadata.discoverCached(ctx, t, r, c.Issuer)
	if err != nil {
		return err
	}
	issuer, err := f.ChooseIssuer(t.Settings.Issuer, c.Issuer)
	if err != nil {
		return err
	}
	if issuer == "" {
		return az.store.storeNeed(ctx, t, &NeedsConnectionError{
			Need: NeedIssuer, Scopes: r.challenge.Scopes,
			Reason: "the skill's server takes tokens of several authorization servers: choose one, or set oauth.issuer",
		}, f.Issuers, r)
	}
	server := f.Servers[issuer]
	if server == nil {
		return wire.NewError(wire.StepServer, nil, "%s has no metadata", plain.Line(issuer, 200))
	}
	return az.getToken(ctx, t, r, c, f, server)
}

// getToken gets a token from an authorization server by the grant of the settings. It returns a *[NeedsConnectionError] if a
// person has to connect, or if an operator has to act first because there is no client.
func (az *authorizer) getToken(ctx context.Context, t Target, r refusal, c *connection, f *wire.Resource, server *wire.Server) error {
	scopes, missing := wantedScopes(t, r, c, f, server)
	if r.insufficient && len(missing) == 0 && r.generation < c.generation {
		return nil // another request has got a token with these scopes
	}
	if r.insufficient && len(missing) == 0 {
		return wire.NewError(wire.StepToken, nil, "the skill's server wants the scopes %q, which were asked for before: asking again would not help",
			strings.Join(r.challenge.Scopes, " "))
	}
	switch t.Settings.grantType() {
	case grantClient, grantWorkload:
		extra := slices.DeleteFunc(missing, func(scope string) bool { return slices.Contains(t.Settings.Scopes, scope) })
		if r.insufficient && len(t.Settings.Scopes) > 0 && len(extra) > 0 {
			return wire.NewError(wire.StepToken, nil, "the skill's server wants the scopes %q, which oauth.scopes does not have", strings.Join(extra, " "))
		}
		return az.renewToken(ctx, t, r, f, server, scopes, "")
	case grantEnterprise:
		if c.tokens.hasIdentity(t.Settings) {
			return az.renewToken(ctx, t, r, f, server, scopes, "")
		}
	default:
		if c.sealed != nil && c.Issuer == server.Issuer && c.Resource == f.ID && c.tokens.Refresh != "" && !r.insufficient {
			return az.renewToken(ctx, t, r, f, server, c.ScopesAsked, c.ClientID)
		}
	}
	n := &NeedsConnectionError{Need: NeedConsent, Scopes: scopes, Reason: "this skill is not connected yet"}
	switch {
	case r.insufficient && c.sealed != nil:
		n.Need, n.Reason = NeedScope, "the skill's server wants more than was granted: "+strings.Join(missing, " ")
	case c.sealed != nil && c.Issuer != server.Issuer:
		n.Need, n.Reason = NeedAgain, "the skill's server has another authorization server now: "+plain.Line(server.Issuer, 200)
	case c.sealed != nil || c.Need == NeedAgain:
		n.Need, n.Reason = NeedAgain, "the skill's server no longer accepts the granted access"
	}
	if err := checkCodeGrant(server); err != nil && t.Settings.grantType() == grantCode {
		return err
	}
	if _, err := az.clients.findClient(ctx, t, t.skillOrigin(), server); err != nil {
		var needs *NeedsConnectionError
		if !errors.As(err, &needs) {
			return err
		}
		n.Need, n.Reason = needs.Need, needs.Reason
	}
	return az.store.storeNeed(ctx, t, n, f.Issuers, r)
}

// checkCodeGrant refuses authorization servers without PKCE by S256 (RFC 7636 section 4.2, OAuth 2.1).
func checkCodeGrant(server *wire.Server) error {
	switch {
	case server.AuthorizationEndpoint == "":
		return wire.NewError(wire.StepServer, nil, "%s has no authorization_endpoint", plain.Line(server.Issuer, 200))
	case !slices.Contains(server.CodeChallengeMethodsSupported, "S256"):
		return wire.NewError(wire.StepServer, nil, "%s does not say that it supports PKCE with S256 (code_challenge_methods_supported), which is required",
			plain.Line(server.Issuer, 200))
	}
	return nil
}

// wantedScopes returns the scopes to request: those of the settings, else of the challenge, else of the present tokens, else
// of the resource's metadata. If the server wants more scopes, earlier ones are kept.
//
// missing are the scopes in the challenge that were never requested.
func wantedScopes(t Target, r refusal, c *connection, f *wire.Resource, server *wire.Server) (scopes, missing []string) {
	switch {
	case len(t.Settings.Scopes) > 0:
		scopes = slices.Clone(t.Settings.Scopes)
	case len(r.challenge.Scopes) > 0:
		scopes = slices.Clone(r.challenge.Scopes)
	case len(c.ScopesAsked) > 0 && c.Issuer == server.Issuer && c.Resource == f.ID:
		scopes = slices.Clone(c.ScopesAsked)
	case f.Metadata != nil:
		scopes = slices.Clone(f.Metadata.ScopesSupported)
	}
	switch {
	case r.insufficient:
		scopes = unionScopes(unionScopes(c.ScopesAsked, c.ScopesGranted), unionScopes(scopes, r.challenge.Scopes))
	case len(t.Settings.Scopes) == 0 && c.Issuer == server.Issuer && c.Resource == f.ID:
		scopes = unionScopes(c.ScopesAsked, scopes) // a renewal keeps the scopes that one tool needed
	}
	if t.Settings.grantType() == grantCode && slices.Contains(server.ScopesSupported, scopeOffline) {
		scopes = unionScopes(scopes, []string{scopeOffline})
	}
	for _, scope := range r.challenge.Scopes {
		if !slices.Contains(c.ScopesAsked, scope) {
			missing = append(missing, scope)
		}
	}
	return scopes, missing
}

// scopeOffline asks for a refresh token (OpenID Connect Core section 11).
const scopeOffline = "offline_access"

func unionScopes(a, b []string) []string {
	out := slices.Clone(a)
	for _, scope := range b {
		if !slices.Contains(out, scope) && len(out) < wire.MaxScopes {
			out = append(out, scope)
		}
	}
	return out
}
