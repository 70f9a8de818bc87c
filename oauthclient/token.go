package oauthclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// The methods of client authentication (RFC 7591 section 2).
const (
	authBasic      = "client_secret_basic"
	authPost       = "client_secret_post"
	authPrivateKey = "private_key_jwt"
	authNone       = "none"
)

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// client is how Holdpoint is known to one authorization server.
type client struct {
	id     string
	secret string
	method string
	key    *signingKey // private_key_jwt
	// registered: dynamically; it may be registered anew when the server forgot it.
	registered bool
}

// ask is one token request.
type ask struct {
	own    string // host of the skill
	server *Server
	client *client
	bind   *signingKey // DPoP; nil: a bearer token
	params url.Values  // grant_type included
}

// refusedError is an answer of a token endpoint that refuses (RFC 6749 section 5.2).
type refusedError struct {
	step              string // who refused: StepToken, StepIdentity
	code, description string
	status            int
}

func (e *refusedError) Error() string {
	who := "authorization server"
	if e.step == StepIdentity {
		who = StepIdentity
	}
	text := fmt.Sprintf("the %s refuses (HTTP %d)", who, e.status)
	if e.code != "" {
		text += ": " + e.code
	}
	if e.description != "" {
		text += " (" + e.description + ")"
	}
	return text
}

func refusedAs(err error, step string, codes ...string) bool {
	var refused *refusedError
	return errors.As(err, &refused) && refused.step == step && slices.Contains(codes, refused.code)
}

// token sends a token request. It is sent once more when the server wants a nonce in the proof. Errors are
// fit to be shown.
func (s *Service) token(ctx context.Context, a ask) (*oauth2.Token, error) {
	for again := false; ; again = true {
		token, err := s.tokenOnce(ctx, a)
		if err == nil {
			return token, checkToken(token, a.bind != nil)
		}
		if again || a.bind == nil || !refusedAs(err, StepToken, "use_dpop_nonce") {
			return nil, err
		}
	}
}

func (s *Service) tokenOnce(ctx context.Context, a ask) (*oauth2.Token, error) {
	if _, err := s.checkURL(a.own, a.server.TokenEndpoint); err != nil {
		return nil, fail(StepToken, err, "token_endpoint of %s: %s", plain(a.server.Issuer, 200), err)
	}
	params, err := s.authenticate(a)
	if err != nil {
		return nil, err
	}
	config := clientcredentials.Config{
		ClientID: a.client.id, TokenURL: a.server.TokenEndpoint, EndpointParams: params, AuthStyle: oauth2.AuthStyleInParams,
	}
	switch a.client.method {
	case authBasic:
		config.AuthStyle, config.ClientSecret = oauth2.AuthStyleInHeader, a.client.secret
	case authPost:
		config.ClientSecret = a.client.secret
	}
	http := *s.client(a.own)
	if a.bind != nil {
		http.Transport = &provingTransport{service: s, key: a.bind, next: http.Transport}
	}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, &http))
	return token, tokenError(err, a.secrets())
}

// authenticate adds what authenticates the client in the body.
func (s *Service) authenticate(a ask) (url.Values, error) {
	params := url.Values{}
	for name, values := range a.params {
		if len(values) > 0 && values[0] != "" {
			params[name] = values
		}
	}
	if a.client.method != authPrivateKey {
		return params, nil
	}
	assertion, err := a.client.key.assertion(a.client.id, a.server.Issuer, s.Now())
	if err != nil {
		return nil, fail(StepToken, err, "the client's key cannot sign: %s", err)
	}
	params.Set("client_assertion_type", assertionType)
	params.Set("client_assertion", assertion)
	return params, nil
}

// secrets are what a request sends that no error may quote.
func (a ask) secrets() []string {
	list := []string{a.client.secret}
	if a.client.method == authBasic {
		pair := url.QueryEscape(a.client.id) + ":" + url.QueryEscape(a.client.secret)
		list = append(list, base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	for _, name := range []string{"code", "code_verifier", "refresh_token", "assertion", "subject_token"} {
		list = append(list, a.params.Get(name))
	}
	return list
}

// tokenError makes the library's error fit to be shown: its own holds the answer's body.
func tokenError(err error, secrets []string) error {
	var answer *oauth2.RetrieveError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && (answer.ErrorCode != "" || answer.Response.StatusCode/100 == 4):
		return &refusedError{
			StepToken, plain(hide(answer.ErrorCode, secrets), 100), plain(hide(answer.ErrorDescription, secrets), maxPlain), answer.Response.StatusCode,
		}
	case errors.As(err, &answer) && answer.Response.StatusCode/100 == 3:
		return fail(StepToken, nil, "the token endpoint redirects (HTTP %d), and secrets follow no redirect", answer.Response.StatusCode)
	case errors.As(err, &answer):
		return fail(StepToken, nil, "the token endpoint answered HTTP %d", answer.Response.StatusCode)
	}
	var inURL *url.Error
	if errors.As(err, &inURL) || errors.Is(err, context.DeadlineExceeded) {
		return fail(StepToken, err, "the token endpoint: %s", dialMessage(err))
	}
	if strings.HasPrefix(err.Error(), "oauth2: cannot fetch token:") { // the library's words for a body that cannot be read
		return fail(StepToken, nil, "the token endpoint's answer broke off, or was too slow")
	}
	return fail(StepToken, nil, "the token endpoint's answer is not a token response in JSON")
}

// checkToken refuses what cannot be used as it is asked for.
func checkToken(token *oauth2.Token, bound bool) error {
	switch {
	case strings.ContainsFunc(token.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }) || len(token.AccessToken) > maxToken:
		return fail(StepToken, nil, "the access token has characters that no header can hold, or more than %d", maxToken)
	case strings.EqualFold(token.TokenType, "bearer"), isDPoP(token.TokenType) && bound, strings.EqualFold(token.TokenType, "n_a"):
		return nil
	}
	return fail(StepToken, nil, "the authorization server issued a token of type %q, which cannot be used", plain(token.TokenType, 40))
}

const (
	maxToken = 64 << 10
	maxLife  = 10 * 365 * 86400 // seconds
)

// lifetime is how long a token says it is good; 0: it does not say.
func lifetime(token *oauth2.Token) time.Duration {
	switch seconds := token.Extra("expires_in").(type) {
	case float64:
		return time.Duration(min(max(seconds, 1), maxLife)) * time.Second
	case int64: // of an answer in the form of a query
		return time.Duration(min(max(seconds, 1), maxLife)) * time.Second
	case string:
		if d, err := time.ParseDuration(seconds + "s"); err == nil && d > 0 {
			return d
		}
	}
	return 0
}

// granted makes of a token response what is stored.
func (a ask) granted(token *oauth2.Token, resource string, asked []string) (*grant, error) {
	g := &grant{
		tokens: tokens{Access: token.AccessToken, Type: "Bearer", Refresh: token.RefreshToken},
		issuer: a.server.Issuer, resource: resource, clientID: a.client.id, asked: asked, granted: asked,
		life: lifetime(token),
	}
	g.tokens.Life = int64(g.life.Seconds())
	if scope, ok := token.Extra("scope").(string); ok {
		g.granted = splitScopes(scope)
	}
	if !isDPoP(token.TokenType) {
		return g, nil
	}
	g.tokens.Type = "DPoP"
	key, ok := a.bind.key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("a bound token's key is not EC")
	}
	var err error
	g.tokens.Key, err = x509.MarshalECPrivateKey(key)
	return g, err
}

// boundKey is the key that the tokens are bound to; nil: they are bearer tokens.
func (t *tokens) boundKey() (*signingKey, error) {
	if len(t.Key) == 0 {
		return nil, nil
	}
	key, err := x509.ParseECPrivateKey(t.Key)
	if err != nil {
		return nil, errors.New("the key that the token is bound to cannot be read")
	}
	return &signingKey{key: key}, nil
}

// provingTransport puts a proof on each request to a token endpoint.
type provingTransport struct {
	service *Service
	key     *signingKey
	next    http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (p *provingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	proof, err := p.key.proof(r.Method, r.URL.String(), "", p.service.nonces.get(r.URL), p.service.Now())
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set(headerProof, proof)
	response, err := p.next.RoundTrip(r)
	if err == nil {
		p.service.nonces.note(r.URL, response.Header)
	}
	return response, err
}
