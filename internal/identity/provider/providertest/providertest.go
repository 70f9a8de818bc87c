// Package providertest is an OpenID Connect provider for tests that lies on request. The tests in e2e use a certified one.
package providertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Provider signs in the person of its claims without asking.
type Provider struct {
	*httptest.Server

	ClientID, ClientSecret string

	mu      sync.Mutex
	key     *ecdsa.PrivateKey
	lies    Lies
	codes   map[string]url.Values // authorization requests, by code
	redeems []url.Values
	hidden  bool
}

// Lies change what the provider sends. Nil fields change nothing.
type Lies struct {
	Claims   map[string]any // of the person, in the ID token
	UserInfo map[string]any
	Metadata func(document map[string]any)
	Answer   func(response url.Values) // the authorization response
	IDToken  func(claims map[string]any)
	Key      *ecdsa.PrivateKey // signs instead
	Token    func(answer map[string]any)
}

// New starts a provider with a confidential client, or with a public one if the secret is empty. The caller closes it.
func New(clientID, clientSecret string) *Provider {
	p := &Provider{ClientID: clientID, ClientSecret: clientSecret, key: NewKey(), codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.serveMetadata)
	mux.HandleFunc("GET /jwks", p.serveKeys)
	mux.HandleFunc("GET /authorize", p.serveAuthorization)
	mux.HandleFunc("POST /token", p.serveToken)
	mux.HandleFunc("GET /userinfo", p.userInfo)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.isHidden() {
			http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return p
}

// NewKey makes a key that signs ID tokens.
func NewKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the machine has no randomness
	}
	return key
}

// Lie replaces the lies.
func (p *Provider) Lie(lies Lies) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lies = lies
}

// Hide makes the provider unavailable or available.
func (p *Provider) Hide(hidden bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hidden = hidden
}

func (p *Provider) isHidden() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hidden
}

func (p *Provider) currentLies() Lies {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lies
}

// Redeemed returns the token requests so far.
func (p *Provider) Redeemed() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]url.Values{}, p.redeems...)
}

func (p *Provider) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	document := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/jwks",
		"userinfo_endpoint": p.URL + "/userinfo", "id_token_signing_alg_values_supported": []string{"ES256"},
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"authorization_response_iss_parameter_supported": true,
	}
	if lie := p.currentLies().Metadata; lie != nil {
		lie(document)
	}
	writeJSON(w, document)
}

func (p *Provider) serveKeys(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
}

func (p *Provider) serveAuthorization(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = query
	p.mu.Unlock()
	response := url.Values{"code": {code}, "state": {query.Get("state")}, "iss": {p.URL}}
	if lie := p.currentLies().Answer; lie != nil {
		lie(response)
	}
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+response.Encode(), http.StatusSeeOther) //nolint:gosec // G710: a test's
}

func (p *Provider) serveToken(w http.ResponseWriter, r *http.Request) {
	request, code := p.redeemCode(r)
	id, secret, basic := r.BasicAuth()
	if !basic {
		id = r.PostForm.Get("client_id")
	}
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	switch {
	case id != p.ClientID || secret != p.ClientSecret:
		writeRefusal(w, "invalid_client")
	case request == nil || request.Get("client_id") != id || request.Get("redirect_uri") != r.PostForm.Get("redirect_uri"),
		request.Get("code_challenge_method") != "S256", request.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]):
		writeRefusal(w, "invalid_grant")
	default:
		tokens := map[string]any{
			"access_token": "access-" + code, "token_type": "Bearer", "expires_in": 60, "refresh_token": "refresh-" + code,
			"id_token": p.idToken(request),
		}
		if lie := p.currentLies().Token; lie != nil {
			lie(tokens)
		}
		writeJSON(w, tokens)
	}
}

// redeemCode returns and deletes the authorization request of a code.
func (p *Provider) redeemCode(r *http.Request) (request url.Values, code string) {
	if r.ParseForm() != nil {
		return nil, ""
	}
	code = r.PostForm.Get("code")
	p.mu.Lock()
	defer p.mu.Unlock()
	request = p.codes[code]
	delete(p.codes, code)
	p.redeems = append(p.redeems, r.PostForm)
	return request, code
}

func (p *Provider) idToken(request url.Values) string {
	lies := p.currentLies()
	now := time.Now() //nolint:forbidigo // a server of its own
	claims := map[string]any{
		"iss": p.URL, "sub": "4711", "aud": p.ClientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": request.Get("nonce"),
	}
	maps.Copy(claims, lies.Claims)
	if request.Has("max_age") {
		claims["auth_time"] = now.Unix()
	}
	if lies.IDToken != nil {
		lies.IDToken(claims)
	}
	key := p.key
	if lies.Key != nil {
		key = lies.Key
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		panic(err) // a key of this algorithm
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err) // claims of tests are JSON
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		panic(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

func (p *Provider) userInfo(w http.ResponseWriter, _ *http.Request) {
	info := map[string]any{"sub": "4711"}
	maps.Copy(info, p.currentLies().UserInfo)
	writeJSON(w, info)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // a client that is gone cannot be told
}

func writeRefusal(w http.ResponseWriter, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": "not so"}) //nolint:errchkjson // likewise
}
