package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// refusal is why a token is needed.
type refusal struct {
	challenge  Challenge
	header     string // the challenge as it came
	generation int64  // of the token that was refused; 0: none was sent
	method     string // of the request that was refused
	// insufficient: the token was good, but not for this (RFC 6750 section 3.1).
	insufficient bool
	// early: nobody refused anything; the token is about to run out.
	early bool
}

// authorize gets a token that may be accepted after a refusal: a nil error means, try again. Of those who
// need one for the same connection at once, one attempt serves all.
func (s *Service) authorize(ctx context.Context, t Target, r refusal) error {
	if t.PerUser && t.Principal == (Key{}).Principal {
		return fail(StepChallenge, nil, "each person has a connection of their own to this skill, and this is done on nobody's behalf")
	}
	name := fmt.Sprint(t.SkillID, t.Principal, t.Revision)
	if r.insufficient {
		name += " " + strings.Join(r.challenge.Scopes, " ")
	}
	return s.attempts.run(ctx, s.base, name, func(ctx context.Context) error {
		err := s.attempt(ctx, t, r)
		if err != nil {
			return s.failed(ctx, t, err)
		}
		return nil
	})
}

func (s *Service) attempt(ctx context.Context, t Target, r refusal) error {
	c, err := s.read(ctx, s.Pool, byKey, t.args()...)
	if err != nil {
		return err
	}
	if c == nil {
		c = &connection{}
	}
	if c.sealed != nil && c.generation > r.generation && (!r.insufficient || c.enough(r)) && c.fits(t) {
		s.forget(t.Key)
		return nil // another renewed it meanwhile
	}
	if r.header == "" && c.SkillRevision == t.Revision { // a renewal that no server asked for: what it said last holds
		r.challenge.ResourceMetadata = ParseChallenge([]string{c.challenge}).ResourceMetadata
	}
	f, err := s.lookAt(ctx, t, r, c.Issuer)
	if err != nil {
		return err
	}
	issuer, err := f.choose(t.Settings.Issuer, c.Issuer)
	if err != nil {
		return err
	}
	if issuer == "" {
		return s.need(ctx, t, &NeedsConnectionError{
			Need: NeedIssuer, Scopes: r.challenge.Scopes,
			Reason: "the skill's server takes tokens of several authorization servers: choose one, or set oauth.issuer",
		}, f.issuers, r)
	}
	server := f.servers[issuer]
	if server == nil {
		return fail(StepServer, nil, "%s has no metadata", plain(issuer, 200))
	}
	return s.getToken(ctx, t, r, c, f, server)
}

// enough reports whether the tokens that there are now were asked for with all that a refusal of older ones wants.
func (c *connection) enough(r refusal) bool {
	return r.generation > 0 && c.Need == NeedNothing && includes(c.ScopesAsked, r.challenge.Scopes)
}

// fits reports whether a connection's tokens are for the server as it is set now.
func (c *connection) fits(t Target) bool { return covers(c.Resource, t.URL) }

// lookAt is discover, from memory unless the server just refused a token.
func (s *Service) lookAt(ctx context.Context, t Target, r refusal, used string) (*found, error) {
	key := foundKey{t.SkillID, t.URL, t.Settings.Issuer, used, t.Settings.TrustOrigin}
	began := s.Now()
	load := func(ctx context.Context) (*found, error) {
		f, err := s.discover(ctx, t, r.challenge, used)
		if err == nil {
			f.read = began
		}
		return f, err
	}
	if r.early {
		return s.found.Get(ctx, key, load)
	}
	return s.found.GetIf(ctx, key, func(f *found, _ timeAge) bool { return began.Sub(f.read) < metadataMinimumIn }, load)
}

// getToken gets a token from an authorization server by what the settings and the connection allow.
func (s *Service) getToken(ctx context.Context, t Target, r refusal, c *connection, f *found, server *Server) error {
	scopes, missing := wantedScopes(t, r, c, f, server)
	if r.insufficient && len(missing) == 0 && r.generation < c.generation {
		return nil // a token with these scopes came meanwhile
	}
	if r.insufficient && len(missing) == 0 {
		return fail(StepToken, nil, "the skill's server wants the scopes %q, which were asked for before: asking again would not help",
			strings.Join(r.challenge.Scopes, " "))
	}
	same := c.sealed != nil && c.Issuer == server.Issuer && c.Resource == f.resource
	switch t.Settings.grant() {
	case grantClient, grantWorkload:
		if extra := beyond(t.Settings.Scopes, missing); r.insufficient && len(extra) > 0 {
			return fail(StepToken, nil, "the skill's server wants the scopes %q, which oauth.scopes does not have", strings.Join(extra, " "))
		}
		return s.renew(ctx, t, r, f, server, scopes, "")
	case grantEnterprise:
		if c.tokens.knows(t.Settings) {
			return s.renew(ctx, t, r, f, server, scopes, "")
		}
	default:
		if same && c.tokens.Refresh != "" && !r.insufficient {
			return s.renew(ctx, t, r, f, server, c.ScopesAsked, c.ClientID)
		}
	}
	return s.needConsent(ctx, t, r, c, f, server, scopes, missing)
}

// needConsent says that a person has to connect, unless no client can be had even then.
func (s *Service) needConsent(ctx context.Context, t Target, r refusal, c *connection, f *found, server *Server, scopes, missing []string) error {
	n := &NeedsConnectionError{Need: NeedConsent, Scopes: scopes, Reason: "nobody has connected this skill yet"}
	switch {
	case r.insufficient && c.sealed != nil:
		n.Need, n.Reason = NeedScope, "the skill's server wants more than was granted: "+strings.Join(missing, " ")
	case c.sealed != nil && c.Issuer != server.Issuer:
		n.Need, n.Reason = NeedAgain, "the skill's server has another authorization server now: "+plain(server.Issuer, 200)
	case c.sealed != nil || c.Need == NeedAgain:
		n.Need, n.Reason = NeedAgain, "the skill's server does not accept what was granted any more"
	}
	if err := checkCodeGrant(server); err != nil && t.Settings.grant() == grantCode {
		return err
	}
	if _, err := s.clientOf(ctx, t, t.own(), server); err != nil {
		var needs *NeedsConnectionError
		if !errors.As(err, &needs) {
			return err
		}
		n.Need, n.Reason = needs.Need, needs.Reason
	}
	return s.need(ctx, t, n, f.issuers, r)
}

// checkCodeGrant refuses authorization servers without PKCE by S256.
func checkCodeGrant(server *Server) error {
	switch {
	case server.AuthorizationEndpoint == "":
		return fail(StepServer, nil, "%s has no authorization_endpoint", plain(server.Issuer, 200))
	case !slices.Contains(server.CodeChallengeMethodsSupported, "S256"):
		return fail(StepServer, nil, "%s does not say that it supports PKCE with S256 (code_challenge_methods_supported), which is required",
			plain(server.Issuer, 200))
	}
	return nil
}

// wantedScopes are those to ask for: those of the settings, else those of the challenge, else
// those that the resource supports (none: left out), and always those that were asked for before when the server wants more. missing are those
// that the server wants now and that were never asked for.
func wantedScopes(t Target, r refusal, c *connection, f *found, server *Server) (scopes, missing []string) {
	switch {
	case len(t.Settings.Scopes) > 0:
		scopes = slices.Clone(t.Settings.Scopes)
	case len(r.challenge.Scopes) > 0:
		scopes = slices.Clone(r.challenge.Scopes)
	case len(c.ScopesAsked) > 0 && c.Issuer == server.Issuer && c.Resource == f.resource:
		scopes = slices.Clone(c.ScopesAsked)
	case f.metadata != nil:
		scopes = slices.Clone(f.metadata.ScopesSupported)
	}
	switch {
	case r.insufficient:
		scopes = union(union(c.ScopesAsked, c.ScopesGranted), union(scopes, r.challenge.Scopes))
	case len(t.Settings.Scopes) == 0 && c.Issuer == server.Issuer && c.Resource == f.resource:
		scopes = union(c.ScopesAsked, scopes) // what was got for one tool is not lost by a renewal
	}
	if t.Settings.grant() == grantCode && slices.Contains(server.ScopesSupported, scopeOffline) {
		scopes = union(scopes, []string{scopeOffline})
	}
	for _, scope := range r.challenge.Scopes {
		if !slices.Contains(c.ScopesAsked, scope) {
			missing = append(missing, scope)
		}
	}
	return scopes, missing
}

// beyond are those scopes that are not among the allowed ones; none allowed: all are.
func beyond(allowed, scopes []string) []string {
	if len(allowed) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return slices.Contains(allowed, scope) })
}

// scopeOffline asks for a refresh token (OpenID Connect Core section 11).
const scopeOffline = "offline_access"

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, scope := range b {
		if !slices.Contains(out, scope) && len(out) < maxScopes {
			out = append(out, scope)
		}
	}
	return out
}
