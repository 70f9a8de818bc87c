package wire

import (
	"context"
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

	"github.com/holdpoint/holdpoint/internal/plain"
)

// The methods of client authentication (RFC 7591 section 2).
const (
	AuthBasic      = "client_secret_basic"
	AuthPost       = "client_secret_post"
	AuthPrivateKey = "private_key_jwt"
	AuthNone       = "none"
)

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	assertionLife = time.Minute
)

// Client is Holdpoint as a client of one authorization server. It is stored encrypted, without the key.
type Client struct {
	ID     string      `json:"id"`
	Secret string      `json:"secret"`
	Method string      `json:"method"`
	Key    *SigningKey `json:"-"` // private_key_jwt
	// Registered: it was registered dynamically, and can be registered again if the server no longer knows it.
	Registered bool `json:"registered"`
}

// TokenClient sends requests to token and revocation endpoints.
type TokenClient struct {
	Fetch *Fetcher
	Now   func() time.Time
	nonces
}

// TokenRequest is a request to a token endpoint.
type TokenRequest struct {
	Origin  string // of the skill's URL; see [Fetcher]
	Server  *Server
	Client  *Client
	DPoPKey *SigningKey // nil: a bearer token
	Params  url.Values  // grant_type included
}

// RequestToken sends a token request. If the server asks for a nonce in the DPoP proof (RFC 9449 section 8), it sends the
// request once more. People may see the error.
func (tc *TokenClient) RequestToken(ctx context.Context, a TokenRequest) (*oauth2.Token, error) {
	for again := false; ; again = true {
		token, err := tc.sendTokenRequest(ctx, a)
		if err == nil {
			return token, checkToken(token, a.DPoPKey != nil)
		}
		if again || a.DPoPKey == nil || !IsRefusedWith(err, StepToken, "use_dpop_nonce") {
			return nil, err
		}
	}
}

func (tc *TokenClient) sendTokenRequest(ctx context.Context, a TokenRequest) (*oauth2.Token, error) {
	if _, err := tc.Fetch.CheckURL(a.Origin, a.Server.TokenEndpoint); err != nil {
		return nil, NewError(StepToken, err, "token_endpoint of %s: %s", plain.Line(a.Server.Issuer, 200), err)
	}
	params, err := tc.addClientAuth(a)
	if err != nil {
		return nil, err
	}
	config := clientcredentials.Config{
		ClientID: a.Client.ID, TokenURL: a.Server.TokenEndpoint, EndpointParams: params, AuthStyle: oauth2.AuthStyleInParams,
	}
	switch a.Client.Method {
	case AuthBasic:
		config.AuthStyle, config.ClientSecret = oauth2.AuthStyleInHeader, a.Client.Secret
	case AuthPost:
		config.ClientSecret = a.Client.Secret
	}
	http := *tc.Fetch.Client(a.Origin)
	if a.DPoPKey != nil {
		http.Transport = &provingTransport{client: tc, key: a.DPoPKey, next: http.Transport}
	}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, &http))
	secrets := []string{a.Client.Secret}
	if a.Client.Method == AuthBasic {
		pair := url.QueryEscape(a.Client.ID) + ":" + url.QueryEscape(a.Client.Secret)
		secrets = append(secrets, base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	for _, name := range []string{"code", "code_verifier", "refresh_token", "assertion", "subject_token"} {
		secrets = append(secrets, a.Params.Get(name))
	}
	return token, tokenError(err, secrets)
}

// addClientAuth returns the parameters of the request, without empty ones, and with a client assertion if the client signs one
// (RFC 7523 section 2.2).
func (tc *TokenClient) addClientAuth(a TokenRequest) (url.Values, error) {
	params := url.Values{}
	for name, values := range a.Params {
		if len(values) > 0 && values[0] != "" {
			params[name] = values
		}
	}
	if a.Client.Method != AuthPrivateKey {
		return params, nil
	}
	// The audience is the issuer and not the token endpoint, whose URL could be another server's (RFC 9700).
	now := tc.Now()
	assertion, err := a.Client.Key.signJWT("JWT", map[string]any{
		"iss": a.Client.ID, "sub": a.Client.ID, "aud": a.Server.Issuer, "jti": RandomText(),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	}, false)
	if err != nil {
		return nil, NewError(StepToken, err, "the client's key cannot sign: %s", err)
	}
	params.Set("client_assertion_type", assertionType)
	params.Set("client_assertion", assertion)
	return params, nil
}

// RefusedError is an error response of a token endpoint (RFC 6749 section 5.2).
type RefusedError struct {
	Step              string // who refused: StepToken or StepIdentity
	Code, Description string
	Status            int
}

func (e *RefusedError) Error() string {
	who := "authorization server"
	if e.Step == StepIdentity {
		who = StepIdentity
	}
	text := fmt.Sprintf("the %s refuses (HTTP %d)", who, e.Status)
	if e.Code != "" {
		text += ": " + e.Code
	}
	if e.Description != "" {
		text += " (" + e.Description + ")"
	}
	return text
}

// IsRefusedWith reports whether an error is a refusal in a step, with one of these codes.
func IsRefusedWith(err error, step string, codes ...string) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Step == step && slices.Contains(codes, refused.Code)
}

// tokenError makes the library's error, which holds the response's body, fit for people.
func tokenError(err error, secrets []string) error {
	var answer *oauth2.RetrieveError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && (answer.ErrorCode != "" || answer.Response.StatusCode/100 == 4):
		return &RefusedError{
			StepToken, plain.Line(HideSecrets(answer.ErrorCode, secrets), 100), plain.Line(HideSecrets(answer.ErrorDescription, secrets), MaxText), answer.Response.StatusCode,
		}
	case errors.As(err, &answer) && answer.Response.StatusCode/100 == 3:
		return NewError(StepToken, nil, "the token endpoint redirects (HTTP %d), and secrets follow no redirect", answer.Response.StatusCode)
	case errors.As(err, &answer):
		return NewError(StepToken, nil, "the token endpoint answered HTTP %d", answer.Response.StatusCode)
	}
	var inURL *url.Error
	if errors.As(err, &inURL) || errors.Is(err, context.DeadlineExceeded) {
		return NewError(StepToken, err, "the token endpoint: %s", DialMessage(err))
	}
	if strings.HasPrefix(err.Error(), "oauth2: cannot fetch token:") { // a body that the library could not read
		return NewError(StepToken, nil, "the token endpoint's response ended early or was too slow")
	}
	return NewError(StepToken, nil, "the token endpoint's response is not a token response in JSON")
}

// checkToken refuses tokens that cannot be used.
func checkToken(token *oauth2.Token, bound bool) error {
	switch {
	case strings.ContainsFunc(token.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }) || len(token.AccessToken) > maxToken:
		return NewError(StepToken, nil, "the access token has characters that no header can hold, or more than %d", maxToken)
	case strings.EqualFold(token.TokenType, "bearer"), IsDPoP(token.TokenType) && bound, strings.EqualFold(token.TokenType, "n_a"):
		return nil
	}
	return NewError(StepToken, nil, "the authorization server issued a token of type %q, which cannot be used", plain.Line(token.TokenType, 40))
}

const (
	maxToken = 64 << 10
	maxLife  = 10 * 365 * 86400 // seconds
)

// Lifetime returns the lifetime in a token response; 0: unknown.
func Lifetime(token *oauth2.Token) time.Duration {
	switch seconds := token.Extra("expires_in").(type) {
	case float64:
		return time.Duration(min(max(seconds, 1), maxLife)) * time.Second
	case int64: // from a form-encoded response
		return time.Duration(min(max(seconds, 1), maxLife)) * time.Second
	case string:
		if d, err := time.ParseDuration(seconds + "s"); err == nil && d > 0 {
			return d
		}
	}
	return 0
}

// RevokeToken sends a revocation request (RFC 7009 section 2.1).
func (tc *TokenClient) RevokeToken(ctx context.Context, skillOrigin string, server *Server, cl *Client, token, hint string) error {
	u, err := tc.Fetch.CheckURL(skillOrigin, server.RevocationEndpoint)
	if err != nil {
		return err
	}
	form, err := tc.addClientAuth(TokenRequest{Server: server, Client: cl, Params: url.Values{"token": {token}, "token_type_hint": {hint}}})
	if err != nil {
		return err
	}
	if cl.Method != AuthBasic {
		form.Set("client_id", cl.ID)
	}
	if cl.Method == AuthPost {
		form.Set("client_secret", cl.Secret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if cl.Method == AuthBasic {
		r.SetBasicAuth(url.QueryEscape(cl.ID), url.QueryEscape(cl.Secret))
	}
	response, err := tc.Fetch.Client(skillOrigin).Do(r)
	if err != nil {
		return NewError(StepToken, err, "revocation_endpoint: %s", DialMessage(err))
	}
	_ = response.Body.Close()
	if response.StatusCode >= 500 {
		return NewError(StepToken, nil, "revocation_endpoint answered HTTP %d", response.StatusCode)
	}
	return nil // refused tokens are not valid any more
}
