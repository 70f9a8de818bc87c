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

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// TokenConfig is the configuration of an authorization server whose access tokens agents' endpoints accept (RFC 9068).
type TokenConfig struct {
	Issuer string
	// Audience is the required audience of tokens, compared exactly. Empty: the resource identifier of the endpoint.
	Audience string
	// IdentityClaim is the claim that identifies a token's person. Empty: "sub". See [Config].
	IdentityClaim string
	// Scopes are all required of a token.
	Scopes []string
	// AgentClaim is the claim with the agents that the token may act as: a string or a list. A dotted name may also be a path.
	// Empty: "agent".
	AgentClaim string
	// Agents are agents' names, or [identity.AnyAgent], by values of the claim. Nil: the values are the names.
	Agents map[string][]string
	// NoPerson: no token of this server speaks for a person.
	NoPerson bool
	// ServiceClients are clients whose tokens speak for no person, besides tokens whose subject is the client (RFC 9068
	// section 2.2).
	ServiceClients []string
}

const defaultAgentClaim = "agent"

func (c *TokenConfig) checkFields() (*url.URL, error) {
	issuer, err := issuerURL(c.Issuer)
	if err != nil {
		return nil, err
	}
	if err := checkIdentityClaim(c.IdentityClaim); err != nil {
		return nil, err
	}
	for _, scope := range c.Scopes {
		if scope == "" || strings.ContainsFunc(scope, isNotScopeChar) {
			return nil, fault.Invalid("scopes", "must be scope tokens of RFC 6749 section 3.3")
		}
	}
	if !isPrintable(c.Audience) || !isPrintable(c.AgentClaim) {
		return nil, fault.Invalid("audience", "must be printable text")
	}
	for value, names := range c.Agents {
		if value == "" || len(names) == 0 {
			return nil, fault.Invalid("agents", "must be names of agents for each value of the claim")
		}
	}
	return issuer, nil
}

// isNotScopeChar reports whether a scope token may not contain the character (RFC 6749 section 3.3).
func isNotScopeChar(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }

// TokenIssuer is an authorization server whose access tokens are accepted. It is safe for concurrent use.
type TokenIssuer struct {
	cfg     TokenConfig
	trusted []string
	now     func() time.Time
	client  *http.Client
	known   *registry.Memory[struct{}, signingKeys]

	mu      sync.Mutex
	failure *Failure
}

// NewTokenIssuer makes an issuer. It sends no request, so the server need not be available.
func NewTokenIssuer(cfg TokenConfig, s Surroundings) (*TokenIssuer, error) {
	issuer, err := cfg.checkFields()
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
		known: registry.NewMemory[struct{}](registry.Config[signingKeys]{TTL: discoveryTTL, LoadTimeout: requestLimit, Now: s.Now}),
	}, nil
}

// Issuer returns the issuer identifier.
func (i *TokenIssuer) Issuer() string { return i.cfg.Issuer }

// Close stops the background work.
func (i *TokenIssuer) Close() {
	i.known.Close()
	i.client.CloseIdleConnections()
}

// TokenIssuers are all issuers whose access tokens are accepted.
type TokenIssuers []*TokenIssuer

// Issuers returns the issuer identifiers.
func (all TokenIssuers) Issuers() []string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.Issuer()
	}
	return names
}

// Scopes returns all scopes that any of the issuers requires.
func (all TokenIssuers) Scopes() []string {
	var scopes []string
	for _, one := range all {
		scopes = append(scopes, one.cfg.Scopes...)
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// CommonScopes returns the scopes that every issuer requires, or none if the issuers differ.
func (all TokenIssuers) CommonScopes() []string {
	scopes := all.Scopes()
	for _, one := range all {
		if len((TokenIssuers{one}).Scopes()) != len(scopes) {
			return nil
		}
	}
	return scopes
}

// AccessToken is the content of a verified token.
type AccessToken struct {
	ID       string // empty: the token has none
	Issuer   string
	Subject  string
	ClientID string // empty: unknown
	Name     string // of the person; empty: unknown
	Email    string // of the person; empty: unknown
	// NoPerson: the token speaks for its client alone.
	NoPerson bool
	// Agents are the names of the agents that the token may act as, or [identity.AnyAgent].
	Agents []string
}

// MayActAs reports whether the token may act as an agent.
func (t *AccessToken) MayActAs(agent string) bool {
	return slices.Contains(t.Agents, agent) || slices.Contains(t.Agents, identity.AnyAgent)
}

// TokenError is an invalid token (invalid_token, RFC 6750 section 3.1). The description holds no secret and fits into a quoted
// string.
type TokenError struct {
	Description string
	Err         error // for the log; nil: none
}

func (e *TokenError) Error() string {
	if e.Err == nil {
		return e.Description
	}
	return e.Description + ": " + e.Err.Error()
}

func (e *TokenError) Unwrap() error { return e.Err }

// ScopeError is a valid token that lacks scopes (insufficient_scope, RFC 6750 section 3.1).
type ScopeError struct{ Scopes []string } // all that are required

func (e *ScopeError) Error() string {
	return "the token lacks scopes; required: " + strings.Join(e.Scopes, " ")
}

// maxToken is the maximum size of a token in bytes. Larger ones do not fit into a header.
const maxToken = 16 << 10

// Verify checks an access token that was presented to a resource: it must be a JWT (RFC 9068) of one of the issuers, signed
// with an asymmetric key, for this audience, valid now, and not an ID token. Errors: *[TokenError], *[ScopeError], and errors
// that wrap [ErrUnreachable] if the issuer's keys are not available.
func (all TokenIssuers) Verify(ctx context.Context, raw, resource string) (*AccessToken, error) {
	seen, err := peekToken(raw)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.cfg.Issuer == seen.issuer {
			return one.verifyToken(ctx, raw, seen, resource)
		}
	}
	return nil, &TokenError{Description: "the token's issuer is none whose tokens are taken here"}
}

// peekedToken is the unverified part of a token that selects the issuer.
type peekedToken struct{ kind, issuer string }

func peekToken(raw string) (peekedToken, error) {
	var header struct {
		Type string `json:"typ"`
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	parts := strings.Split(raw, ".")
	if len(raw) > maxToken || len(parts) != 3 || decodePart(parts[0], &header) != nil || decodePart(parts[1], &claims) != nil {
		return peekedToken{}, &TokenError{Description: "the credential is unknown here"}
	}
	return peekedToken{strings.ToLower(header.Type), claims.Issuer}, nil
}

func decodePart(part string, into any) error {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (i *TokenIssuer) verifyToken(ctx context.Context, raw string, seen peekedToken, resource string) (*AccessToken, error) {
	audience := i.cfg.Audience
	if audience == "" {
		audience = resource
	}
	keys := &keySet{TokenIssuer: i}
	verified, err := oidc.NewVerifier(i.cfg.Issuer, keys, &oidc.Config{
		ClientID: audience, SupportedSigningAlgs: SigningAlgorithms(), Now: i.now,
	}).Verify(ctx, raw)
	if keys.unreachable != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, keys.unreachable)
	}
	if err != nil {
		return nil, &TokenError{Description: describeRefusal(err, audience), Err: err}
	}
	claims := claimSet{}
	if err := verified.Claims(&claims); err != nil {
		return nil, &TokenError{Description: "the token's claims cannot be read", Err: err}
	}
	if err := i.checkKind(seen.kind, verified, claims, audience); err != nil {
		return nil, err
	}
	return i.readToken(verified, claims)
}

// describeRefusal tells the client why the library refused a token.
func describeRefusal(err error, audience string) string {
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return "the token has expired"
	case strings.HasPrefix(err.Error(), "oidc: expected audience"):
		return "the token's audience is not " + removeUnquotable(audience)
	case strings.Contains(err.Error(), "nbf"):
		return "the token is not valid yet"
	}
	return "the token could not be verified"
}

// removeUnquotable removes characters that error_description cannot contain (RFC 6750 section 3).
func removeUnquotable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, text)
}

// checkKind refuses JWTs that are signed with the same keys and are not access tokens. Above all it refuses ID tokens, which
// identify a person to a client and give access to nothing (RFC 9068 section 4, RFC 8725 section 3.11).
func (i *TokenIssuer) checkKind(kind string, t *oidc.IDToken, c claimSet, audience string) error {
	switch kind {
	case "at+jwt", "application/at+jwt":
	case "", "jwt", "application/jwt":
		for _, claim := range []string{"nonce", "at_hash", "c_hash", "s_hash"} {
			if _, ok := c[claim]; ok {
				return &TokenError{Description: "this is an ID token, not an access token"}
			}
		}
		use := strings.ToLower(c.textClaim("token_use", "typ")) // some servers mark the kind of a token so
		if use == "id" || slices.Contains([]string{c.textClaim("client_id"), c.textClaim("azp")}, audience) {
			return &TokenError{Description: "this is an ID token, not an access token"}
		}
	default:
		return &TokenError{Description: "this is not an access token"}
	}
	switch {
	case t.Subject == "":
		return &TokenError{Description: "the token has no subject"}
	case t.IssuedAt.After(i.now().Add(maxSkew)):
		return &TokenError{Description: "the token was issued in the future"}
	case c["cnf"] != nil:
		// Accepting it without a proof of possession would let a thief use it (RFC 9449 section 7.2).
		return &TokenError{Description: "the token is bound to a key, and cannot be used as a bearer token"}
	}
	return nil
}

// maxSkew is how far an authorization server's clock may be ahead.
const maxSkew = 5 * time.Minute

// readToken checks the scopes of a verified token and returns its content.
func (i *TokenIssuer) readToken(t *oidc.IDToken, c claimSet) (*AccessToken, error) {
	has := strings.Fields(c.textClaim("scope"))
	has = append(has, c.wordList("scp")...)
	for _, scope := range i.cfg.Scopes {
		if !slices.Contains(has, scope) {
			return nil, &ScopeError{i.cfg.Scopes}
		}
	}
	subject, ok := c.subjectClaim(t.Subject, i.cfg.IdentityClaim)
	if !ok {
		return nil, &TokenError{Description: "the token has no claim " + removeUnquotable(i.cfg.IdentityClaim)}
	}
	token := &AccessToken{
		ID: c.textClaim("jti"), Issuer: t.Issuer, Subject: subject, ClientID: c.textClaim("client_id", "azp"),
		Name: c.textClaim(nameClaims()...), Email: c.textClaim("email"),
		Agents: i.agentNames(c),
	}
	token.NoPerson = i.cfg.NoPerson || token.ClientID == t.Subject || slices.Contains(i.cfg.ServiceClients, token.ClientID)
	return token, nil
}

// agentNames returns the agents that the token may act as. A claim cannot name all agents without the configuration.
func (i *TokenIssuer) agentNames(c claimSet) []string {
	values := c.wordList(i.cfg.AgentClaim)
	if i.cfg.Agents == nil {
		return slices.DeleteFunc(values, func(name string) bool { return name == identity.AnyAgent })
	}
	var names []string
	for _, value := range values {
		names = append(names, i.cfg.Agents[value]...)
	}
	return names
}

// wordList reads a claim that is a list or a single string.
func (c claimSet) wordList(claim string) []string {
	value, ok := c.findClaim(claim)
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
