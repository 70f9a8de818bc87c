package demo

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// tokenLife is short, so that the demo shows renewal.
	tokenLife = 2 * time.Minute
	// maxAssertionLife bounds how long an assertion must be remembered.
	maxAssertionLife = 5 * time.Minute

	maxTokenRequest = 64 << 10
	fetchTimeout    = 10 * time.Second
	assertionType   = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// AuthServer is a small authorization server. It issues tokens to one client, which has no secret: it
// signs its requests with a key of its own (private_key_jwt), and publishes the public half.
type AuthServer struct {
	AuthConfig

	key    jose.JSONWebKey
	client *oidc.IDTokenVerifier // of the client's assertions

	mu   sync.Mutex
	seen map[string]time.Time // assertions that were used, until they expire
}

// AuthConfig configures an [AuthServer]. All fields are required.
type AuthConfig struct {
	Issuer     string              // its URL
	ClientID   string              // of its only client
	ClientKeys string              // URL of that client's public keys
	Resources  map[string][]string // scopes by resource
	Now        func() time.Time
	Say        func(line string) // writes a line to the terminal
}

// NewAuthServer makes an authorization server with a new key. Tokens of earlier servers are not valid.
func NewAuthServer(cfg AuthConfig) (*AuthServer, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authorization server's key: %w", err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"}
	return &AuthServer{AuthConfig: cfg, key: key, client: newVerifier(cfg.ClientID, cfg.ClientKeys, cfg.Issuer, cfg.Now), seen: map[string]time.Time{}}, nil
}

// newVerifier checks signature, issuer, audience and expiry of JWTs whose issuer has its keys at a URL.
func newVerifier(issuer, keys, audience string, now func() time.Time) *oidc.IDTokenVerifier {
	fetching := oidc.ClientContext(context.Background(), &http.Client{Timeout: fetchTimeout})
	return oidc.NewVerifier(issuer, oidc.NewRemoteKeySet(fetching, keys), &oidc.Config{
		ClientID: audience, SupportedSigningAlgs: []string{oidc.ES256}, Now: now,
	})
}

// Mount adds the metadata (RFC 8414), the public keys and the token endpoint.
func (a *AuthServer) Mount(mux *http.ServeMux) {
	path := urlPath(a.Issuer)
	mux.HandleFunc("GET /.well-known/oauth-authorization-server"+path, func(w http.ResponseWriter, _ *http.Request) {
		a.Say("auth     published its token endpoint: " + a.Issuer + "/token")
		writeJSON(w, http.StatusOK, map[string]any{
			"issuer": a.Issuer, "token_endpoint": a.Issuer + "/token", "jwks_uri": jwksURL(a.Issuer),
			"grant_types_supported": []string{"client_credentials"}, "response_types_supported": []string{},
			"token_endpoint_auth_methods_supported":            []string{"private_key_jwt"},
			"token_endpoint_auth_signing_alg_values_supported": []string{oidc.ES256},
		})
	})
	mux.HandleFunc("GET "+path+"/jwks.json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{a.key.Public()}})
	})
	mux.HandleFunc("POST "+path+"/token", a.issueToken)
}

func jwksURL(issuer string) string { return issuer + "/jwks.json" }

func urlPath(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Path
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot encode the answer", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// refusal is an error answer of the token endpoint (RFC 6749 section 5.2).
type refusal struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

func (r *refusal) Error() string { return r.Code + ": " + r.Description }

func (a *AuthServer) issueToken(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxTokenRequest)
	resource, scopes, err := a.checkRequest(r)
	var signed string
	if err == nil {
		signed, err = a.signToken(resource, scopes)
	}
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		a.Say("auth     refused a token: " + refused.Error())
		status := http.StatusBadRequest
		if refused.Code == "invalid_client" {
			status = http.StatusUnauthorized
		}
		writeJSON(w, status, refused)
	case err != nil:
		a.Say("auth     cannot issue a token: " + err.Error())
		http.Error(w, "cannot issue a token now", http.StatusInternalServerError)
	default:
		scope := strings.Join(scopes, " ")
		a.Say(fmt.Sprintf("auth     issued a token to %s for %s, scope %s, valid for %s", a.ClientID, resource, scope, tokenLife))
		writeJSON(w, http.StatusOK, map[string]any{
			"access_token": signed, "token_type": "Bearer", "expires_in": int(tokenLife.Seconds()), "scope": scope,
		})
	}
}

// checkRequest returns the resource and scopes of the token to issue, or a [refusal].
func (a *AuthServer) checkRequest(r *http.Request) (resource string, scopes []string, err error) {
	if err := r.ParseForm(); err != nil {
		return "", nil, &refusal{"invalid_request", "the form cannot be read"}
	}
	if err := a.authenticateClient(r.Context(), r.PostForm); err != nil {
		return "", nil, err
	}
	if r.PostForm.Get("grant_type") != "client_credentials" {
		return "", nil, &refusal{"unsupported_grant_type", "grant_type: must be client_credentials"}
	}
	// A token is for one resource, which has to be named (RFC 8707): a server cannot use it at another.
	resources := r.PostForm["resource"]
	if len(resources) != 1 || a.Resources[resources[0]] == nil {
		return "", nil, &refusal{"invalid_target", "resource: must be one that this server issues tokens for"}
	}
	scopes = strings.Fields(r.PostForm.Get("scope"))
	unknown := func(scope string) bool { return !slices.Contains(a.Resources[resources[0]], scope) }
	if len(scopes) == 0 || slices.ContainsFunc(scopes, unknown) {
		return "", nil, &refusal{"invalid_scope", "scope: must be scopes of the resource"}
	}
	return resources[0], scopes, nil
}

// authenticateClient verifies that the client signed the request (RFC 7523 section 3).
func (a *AuthServer) authenticateClient(ctx context.Context, form url.Values) error {
	if form.Get("client_assertion_type") != assertionType {
		return &refusal{"invalid_client", "client_assertion: must be a JWT, with its type"}
	}
	assertion, err := a.client.Verify(ctx, form.Get("client_assertion"))
	if err != nil {
		return &refusal{"invalid_client", "the client assertion is not valid"} // the cause may quote it
	}
	var claims struct {
		ID string `json:"jti"`
	}
	if err := assertion.Claims(&claims); err != nil {
		return &refusal{"invalid_client", "the client assertion is not valid"}
	}
	id := form.Get("client_id")
	if assertion.Subject != a.ClientID || id != "" && id != a.ClientID || len(assertion.Audience) != 1 {
		return &refusal{"invalid_client", "the client assertion names another client or audience"}
	}
	if claims.ID == "" || assertion.Expiry.After(a.Now().Add(maxAssertionLife)) {
		return &refusal{"invalid_client", "the client assertion has no id, or is valid for too long"}
	}
	if !a.useAssertion(claims.ID, assertion.Expiry) {
		return &refusal{"invalid_client", "the client assertion was used before"}
	}
	return nil
}

// useAssertion remembers an assertion, and reports whether it is new.
func (a *AuthServer) useAssertion(id string, until time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.Now()
	for id, until := range a.seen {
		if until.Before(now) {
			delete(a.seen, id)
		}
	}
	if _, used := a.seen[id]; used {
		return false
	}
	a.seen[id] = until
	return true
}

// claims are those of an access token (RFC 9068 section 2.2).
type claims struct {
	jwt.Claims

	ClientID string `json:"client_id"`
	Scope    string `json:"scope"`
}

func (a *AuthServer) signToken(resource string, scopes []string) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: a.key}, (&jose.SignerOptions{}).WithType(tokenType))
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	now := a.Now()
	signed, err := jwt.Signed(signer).Claims(claims{
		Claims: jwt.Claims{
			Issuer: a.Issuer, Subject: a.ClientID, Audience: jwt.Audience{resource}, ID: rand.Text(),
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(tokenLife)),
		},
		ClientID: a.ClientID, Scope: strings.Join(scopes, " "),
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return signed, nil
}
