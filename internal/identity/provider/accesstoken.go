package provider

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// TokenConfig is what an operator says of an authorization server whose access tokens agents' endpoints take.
type TokenConfig struct {
	Issuer string
	// Audience that tokens must be issued for, to the byte. Empty: the resource identifier of the endpoint that they are
	// presented to.
	Audience string
	// IdentityClaim is the claim that says who a token's person is. Empty: "sub". See [Config].
	IdentityClaim string
	// Scopes that a token must have, all of them.
	Scopes []string
	// AgentClaim is the claim that says which agents the token may act as: a text or a list; a dotted name is also looked for
	// as a path. Empty: "agent".
	AgentClaim string
	// Agents are the agents' names by values of the claim; [identity.AnyAgent] is every one. Nil: the values are names.
	Agents map[string][]string
	// NoPerson: no token of this server speaks for a person.
	NoPerson bool
	// ServiceClients are the clients whose tokens speak for no person, besides those that name the client as their
	// subject (RFC 9068, section 2.2).
	ServiceClients []string
}

const defaultAgentClaim = "agent"

func (c *TokenConfig) check() (*url.URL, error) {
	issuer, err := issuerURL(c.Issuer)
	if err != nil {
		return nil, err
	}
	if err := checkIdentityClaim(c.IdentityClaim); err != nil {
		return nil, err
	}
	for _, scope := range c.Scopes {
		if scope == "" || strings.ContainsFunc(scope, notScope) {
			return nil, &InvalidError{"scopes", "want words of a scope as RFC 6749, section 3.3 has them"}
		}
	}
	if !printable(c.Audience) || !printable(c.AgentClaim) {
		return nil, &InvalidError{"audience", "want printable text"}
	}
	for value, names := range c.Agents {
		if value == "" || len(names) == 0 {
			return nil, &InvalidError{"agents", "want names of agents for each value of the claim"}
		}
	}
	return issuer, nil
}

// notScope tells what no word of a scope may hold (RFC 6749, section 3.3).
func notScope(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }

// TokenIssuer is an authorization server whose access tokens are taken. It is safe for concurrent use.
type TokenIssuer struct {
	cfg     TokenConfig
	trusted []string
	now     func() time.Time
	client  *http.Client
	known   *registry.Memory[struct{}, signingKeys]

	mu      sync.Mutex
	failure *Failure
}

// NewTokenIssuer makes one of what an operator wrote. Nothing is asked of it yet: it need not be there.
func NewTokenIssuer(cfg TokenConfig, s Surroundings) (*TokenIssuer, error) {
	issuer, err := cfg.check()
	if err != nil {
		return nil, err
	}
	if s.Now == nil {
		return nil, errors.New("make a token issuer: Now is required")
	}
	if cfg.AgentClaim == "" {
		cfg.AgentClaim = defaultAgentClaim
	}
	trusted := append([]string{issuer.Host}, s.TrustedHosts...)
	return &TokenIssuer{
		cfg: cfg, trusted: trusted, now: s.Now, client: newClient(outbound.Policy{TrustedHosts: trusted}),
		known: registry.NewMemory[struct{}](registry.Config[signingKeys]{TTL: discoveryKept, LoadTimeout: requestLimit, Now: s.Now}),
	}, nil
}

// Issuer is how the server calls itself.
func (i *TokenIssuer) Issuer() string { return i.cfg.Issuer }

// Close ends what runs in the background.
func (i *TokenIssuer) Close() {
	i.known.Close()
	i.client.CloseIdleConnections()
}

// TokenIssuers are all whose access tokens are taken.
type TokenIssuers []*TokenIssuer

// Issuers are their names.
func (all TokenIssuers) Issuers() []string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.Issuer()
	}
	return names
}

// Scopes are those that tokens must have, of one server or another.
func (all TokenIssuers) Scopes() []string {
	var scopes []string
	for _, one := range all {
		scopes = append(scopes, one.cfg.Scopes...)
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// CommonScopes are those that tokens must have, whichever server they are of; none where servers differ in it.
func (all TokenIssuers) CommonScopes() []string {
	scopes := all.Scopes()
	for _, one := range all {
		if len((TokenIssuers{one}).Scopes()) != len(scopes) {
			return nil
		}
	}
	return scopes
}

// AccessToken is what a verified token says. It is not kept.
type AccessToken struct {
	ID       string // empty: it has none
	Issuer   string
	Subject  string
	ClientID string // empty: it does not say
	Name     string // of the person; empty: it does not say
	Email    string // likewise
	// NoPerson: the token is its client's own.
	NoPerson bool
	// Agents it may act as, by name; [identity.AnyAgent] is every one.
	Agents []string
}

// MayActAs reports whether the token may act as an agent.
func (t *AccessToken) MayActAs(agent string) bool {
	return slices.Contains(t.Agents, agent) || slices.Contains(t.Agents, identity.AnyAgent)
}

// TokenError is that a token is no valid one here: invalid_token of RFC 6750, section 3.1. The description holds nothing
// secret and fits into a quoted string.
type TokenError struct {
	Description string
	Err         error // for the log; nil: the description says it all
}

func (e *TokenError) Error() string {
	if e.Err == nil {
		return e.Description
	}
	return e.Description + ": " + e.Err.Error()
}

func (e *TokenError) Unwrap() error { return e.Err }

// ScopeError is that a valid token lacks scopes: insufficient_scope of RFC 6750, section 3.1.
type ScopeError struct{ Scopes []string } // all that are required

func (e *ScopeError) Error() string {
	return "the token lacks scopes; required: " + strings.Join(e.Scopes, " ")
}

// maxToken bounds a token, in bytes: none that fits into a header field is larger.
const maxToken = 16 << 10

// Verify checks an access token that was presented to a resource: a JWT (RFC 9068) of one of the issuers, signed with an
// asymmetric key of theirs, for this audience and time, and no ID token. Errors: *TokenError, *ScopeError; others wrap
// [ErrUnreachable], and then it is not known what the token is.
func (all TokenIssuers) Verify(ctx context.Context, raw, resource string) (*AccessToken, error) {
	seen, err := look(raw)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.cfg.Issuer == seen.issuer {
			return one.verify(ctx, raw, seen, resource)
		}
	}
	return nil, &TokenError{Description: "the token's issuer is none whose tokens are taken here"}
}

// unverified is what a token says before anything of it is believed: it tells whom to ask.
type unverified struct{ kind, issuer string }

func look(raw string) (unverified, error) {
	var header struct {
		Type string `json:"typ"`
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	parts := strings.Split(raw, ".")
	if len(raw) > maxToken || len(parts) != 3 || decodePart(parts[0], &header) != nil || decodePart(parts[1], &claims) != nil {
		return unverified{}, &TokenError{Description: "this is no credential that is known here"}
	}
	return unverified{strings.ToLower(header.Type), claims.Issuer}, nil
}

func decodePart(part string, into any) error {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (i *TokenIssuer) verify(ctx context.Context, raw string, seen unverified, resource string) (*AccessToken, error) {
	audience := i.cfg.Audience
	if audience == "" {
		audience = resource
	}
	keys := &verifying{TokenIssuer: i}
	verified, err := oidc.NewVerifier(i.cfg.Issuer, keys, &oidc.Config{
		ClientID: audience, SupportedSigningAlgs: signingAlgorithmNames(), Now: i.now,
	}).Verify(ctx, raw)
	if keys.unreachable != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, keys.unreachable)
	}
	if err != nil {
		return nil, &TokenError{Description: describe(err, audience), Err: err}
	}
	claims := claimSet{}
	if err := verified.Claims(&claims); err != nil {
		return nil, &TokenError{Description: "the token's claims cannot be read", Err: err}
	}
	if err := i.checkKind(seen.kind, verified, claims, audience); err != nil {
		return nil, err
	}
	return i.accept(verified, claims)
}

// describe says for the client why the library refused a token.
func describe(err error, audience string) string {
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return "the token has expired"
	case strings.HasPrefix(err.Error(), "oidc: expected audience"):
		return "the token's audience is not " + quotable(audience)
	case strings.Contains(err.Error(), "nbf"):
		return "the token is not valid yet"
	}
	return "the token could not be verified"
}

// quotable leaves out what error_description may not hold (RFC 6750, section 3).
func quotable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, text)
}

// checkKind refuses what is signed by the same keys and is no access token: above all ID tokens, which say who somebody is to
// a client, and give nobody access to anything (RFC 9068, section 4; RFC 8725, section 3.11).
func (i *TokenIssuer) checkKind(kind string, t *oidc.IDToken, c claimSet, audience string) error {
	switch kind {
	case "at+jwt", "application/at+jwt":
	case "", "jwt", "application/jwt":
		for _, claim := range []string{"nonce", "at_hash", "c_hash", "s_hash"} {
			if _, ok := c[claim]; ok {
				return &TokenError{Description: "this is an ID token, not an access token"}
			}
		}
		use := strings.ToLower(c.text("token_use", "typ")) // as some servers tell their tokens apart
		if use == "id" || slices.Contains([]string{c.text("client_id"), c.text("azp")}, audience) {
			return &TokenError{Description: "this is an ID token, not an access token"}
		}
	default:
		return &TokenError{Description: "this is no access token"}
	}
	switch {
	case t.Subject == "":
		return &TokenError{Description: "the token has no subject"}
	case t.IssuedAt.After(i.now().Add(maxSkew)):
		return &TokenError{Description: "the token was issued in the future"}
	case c["cnf"] != nil:
		// Whoever stole it would pass with it where the proof of possession is not asked for (RFC 9449, section 7.2).
		return &TokenError{Description: "the token is bound to a key, and cannot be used as a bearer token"}
	}
	return nil
}

// maxSkew is how far an authorization server's clock may be ahead.
const maxSkew = 5 * time.Minute

// accept reads what the token allows.
func (i *TokenIssuer) accept(t *oidc.IDToken, c claimSet) (*AccessToken, error) {
	has := strings.Fields(c.text("scope"))
	has = append(has, c.words("scp")...)
	for _, scope := range i.cfg.Scopes {
		if !slices.Contains(has, scope) {
			return nil, &ScopeError{i.cfg.Scopes}
		}
	}
	subject, ok := c.subject(t.Subject, i.cfg.IdentityClaim)
	if !ok {
		return nil, &TokenError{Description: "the token has no claim " + quotable(i.cfg.IdentityClaim)}
	}
	token := &AccessToken{
		ID: c.text("jti"), Issuer: t.Issuer, Subject: subject, ClientID: c.text("client_id", "azp"),
		Name: c.text(nameClaims()...), Email: c.text("email"),
		Agents: i.agents(c),
	}
	token.NoPerson = i.cfg.NoPerson || token.ClientID == t.Subject || slices.Contains(i.cfg.ServiceClients, token.ClientID)
	return token, nil
}

// agents are those that the token may act as. A claim itself never stands for all of them.
func (i *TokenIssuer) agents(c claimSet) []string {
	values := c.words(i.cfg.AgentClaim)
	if i.cfg.Agents == nil {
		return slices.DeleteFunc(values, func(name string) bool { return name == identity.AnyAgent })
	}
	var names []string
	for _, value := range values {
		names = append(names, i.cfg.Agents[value]...)
	}
	return names
}

// words reads a claim that is a list, or a single text.
func (c claimSet) words(claim string) []string {
	value, ok := c.find(claim)
	if !ok {
		return nil
	}
	var list []string
	if json.Unmarshal(value, &list) == nil {
		return list
	}
	var one string
	if json.Unmarshal(value, &one) != nil || one == "" {
		return nil
	}
	if claim == "scp" {
		return strings.Fields(one)
	}
	return []string{one}
}
