package demo_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/demo"
)

const (
	clientID    = "holdpoint"
	readScope   = "drive.read"
	writeScope  = "drive.write"
	bothScopes  = readScope + " " + writeScope
	listRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	callRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"save_csv"}}`
)

// world is an authorization server, two servers that take its tokens, and the client that it knows. The clock
// stands still until a test moves it.
type world struct {
	url, issuer  string
	drive, other string // the two servers
	clientKey    jose.JSONWebKey
	issuerKey    jose.JSONWebKey

	mu     sync.Mutex
	now    time.Time
	lines  []string
	inside []string // bodies of the requests that were let in
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{now: time.Now(), clientKey: newKey(t, "client's")}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w.url, w.issuer = server.URL, server.URL+"/auth"
	w.drive, w.other = server.URL+"/drive/mcp", server.URL+"/other/mcp"
	mux.HandleFunc("GET /client.json", func(rw http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(rw).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{w.clientKey.Public()}})
	})
	issuer, err := demo.NewAuthServer(demo.AuthConfig{
		Issuer: w.issuer, ClientID: clientID, ClientKeys: w.url + "/client.json",
		Resources: map[string][]string{w.drive: {readScope, writeScope}, w.other: {readScope}},
		Now:       w.clock, Say: w.say,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.issuerKey = issuer.Key()
	issuer.Mount(mux)
	for name, resource := range map[string]string{"drive": w.drive, "other": w.other} {
		demo.NewGuard(demo.GuardConfig{
			Name: name, Resource: resource, Issuer: w.issuer, Scope: readScope, Call: writeScope,
			Next: http.HandlerFunc(w.letIn), Now: w.clock, Say: w.say,
		}).Mount(mux)
	}
	return w
}

func newKey(t *testing.T, id string) jose.JSONWebKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: "ES256", Use: "sig"}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) say(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line)
}

func (w *world) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n")
}

func (w *world) letIn(_ http.ResponseWriter, r *http.Request) {
	var body strings.Builder
	_ = r.Write(&body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inside = append(w.inside, body.String())
}

// entered returns the requests that were let in since it was asked last.
func (w *world) entered() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	inside := w.inside
	w.inside = nil
	return inside
}

// signed is a JWT of claims.
func signed(t *testing.T, key jose.JSONWebKey, typ string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// assertion is the client's, with some claims changed.
func (w *world) assertion(t *testing.T, key jose.JSONWebKey, changed map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": clientID, "sub": clientID, "aud": w.issuer, "jti": rand.Text(),
		"iat": w.clock().Unix(), "exp": w.clock().Add(time.Minute).Unix(),
	}
	maps.Copy(claims, changed)
	return signed(t, key, "JWT", claims)
}

// form is a good token request.
func (w *world) form(t *testing.T) url.Values {
	t.Helper()
	return url.Values{
		"grant_type": {"client_credentials"}, "client_id": {clientID}, "resource": {w.drive}, "scope": {bothScopes},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {w.assertion(t, w.clientKey, nil)},
	}
}

type tokenAnswer struct {
	Status    int
	Error     string `json:"error"`
	Token     string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int    `json:"expires_in"`
	Scope     string `json:"scope"`
}

func (w *world) ask(t *testing.T, form url.Values) tokenAnswer {
	t.Helper()
	response, err := http.PostForm(w.issuer+"/token", form)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer := tokenAnswer{Status: response.StatusCode}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// token is one that was issued for a resource.
func (w *world) token(t *testing.T, resource, scope string) string {
	t.Helper()
	form := w.form(t)
	form.Set("resource", resource)
	form.Set("scope", scope)
	answer := w.ask(t, form)
	if answer.Token == "" {
		t.Fatalf("no token: %+v", answer)
	}
	return answer.Token
}

// send sends a request to a server and returns the status and the challenge.
func send(t *testing.T, address, authorization, body string) (status int, challenge string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, response.Header.Get("WWW-Authenticate")
}

// document reads JSON.
func document(t *testing.T, address string, v any) {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(v); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: HTTP %d, %v", address, response.StatusCode, err)
	}
}
