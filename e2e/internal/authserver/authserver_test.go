package authserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/e2e/internal/authserver"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

const (
	resource = "http://127.0.0.1:9/mcp"
	callback = "http://127.0.0.1:9/callback"
	verifier = "a-verifier-of-at-least-forty-three-characters"
)

func TestClientCredentials(t *testing.T) {
	t.Parallel()
	s := authserver.Start(t, authserver.Config{
		Clients: []authserver.Client{
			{ID: "basic", Secret: "the secret: of basic"},
			{ID: "post", Secret: "the-secret-of-post", AuthMethod: "client_secret_post"},
		},
		Resources:          map[string][]string{resource: {"tools", "tools:write"}},
		AccessTokenSeconds: 77,
	})

	asked := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}, "scope": {"tools tools:admin"}}
	status, answer := token(t, s, asked, basic("basic", "the secret: of basic"))
	wantStatus(t, status, http.StatusOK, answer)
	claims := claimsOf(t, answer.AccessToken)
	if claims.Audience != resource || claims.Issuer != s.Issuer || claims.Scope != "tools" || claims.Expiry-claims.IssuedAt != 77 {
		t.Errorf("claims %+v, want audience %s, issuer %s, scope tools for 77 seconds", claims, resource, s.Issuer)
	}

	asked.Set("client_id", "post")
	asked.Set("client_secret", "the-secret-of-post")
	status, answer = token(t, s, asked, nil)
	wantStatus(t, status, http.StatusOK, answer)

	asked.Set("client_secret", "another")
	status, answer = token(t, s, asked, nil)
	wantError(t, status, answer, "invalid_client")

	status, answer = token(t, s, url.Values{"grant_type": {"client_credentials"}, "resource": {"http://127.0.0.1:9/other"}},
		basic("basic", "the secret: of basic"))
	wantError(t, status, answer, "invalid_target")

	if asked, granted := s.Asked("client_credentials"), s.Granted("client_credentials"); asked != 4 || granted != 2 {
		t.Errorf("asked %d, granted %d, want 4 and 2", asked, granted)
	}
	if s.Asked("refresh_token") != 0 || s.Asked("") != 4 {
		t.Error("requests are counted as others than they are")
	}
	if sent := s.RequestsTo("/token")[0]; sent.Form.Get("resource") != resource || sent.Header.Get("Authorization") == "" {
		t.Errorf("a request is not kept as it came: %+v", sent)
	}
	for _, secret := range []string{"the secret: of basic", "the-secret-of-post"} {
		if !slices.Contains(s.Secrets(), secret) {
			t.Errorf("secret %q is not among the secrets", secret)
		}
	}
}

func TestRuntimeResourceAndLifetime(t *testing.T) {
	t.Parallel()
	s := authserver.Start(t, authserver.Config{})
	s.AddClient(t, authserver.Client{ID: "machine", Secret: "a-secret"})
	asked := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}, "scope": {"tools"}}

	status, answer := token(t, s, asked, basic("machine", "a-secret"))
	wantError(t, status, answer, "invalid_target")

	s.AddResource(t, resource, "tools")
	s.SetAccessTokenSeconds(t, 5)
	status, answer = token(t, s, asked, basic("machine", "a-secret"))
	wantStatus(t, status, http.StatusOK, answer)
	if claims := claimsOf(t, answer.AccessToken); claims.Expiry-claims.IssuedAt != 5 {
		t.Errorf("claims %+v, want 5 seconds", claims)
	}

	s.ForgetClient(t, "machine")
	status, answer = token(t, s, asked, basic("machine", "a-secret"))
	wantError(t, status, answer, "invalid_client")
}

func TestPrivateKeyJWT(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := jwks(t, key)
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(keys)
	}))
	t.Cleanup(served.Close)
	s := authserver.Start(t, authserver.Config{
		Clients:   []authserver.Client{{ID: "inline", JWKS: keys}, {ID: "by-uri", JWKSURI: served.URL, SigningAlgorithm: "ES256"}},
		Resources: map[string][]string{resource: {"tools"}},
	})

	for _, client := range []string{"inline", "by-uri"} {
		asked := url.Values{
			"grant_type": {"client_credentials"}, "resource": {resource},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
			"client_assertion":      {assertion(t, key, client, s.Issuer)},
		}
		status, answer := token(t, s, asked, nil)
		wantStatus(t, status, http.StatusOK, answer)

		status, answer = token(t, s, asked, nil) // the same assertion a second time
		wantError(t, status, answer, "invalid_client")

		asked.Set("client_assertion", assertion(t, key, client, "http://127.0.0.1:9"))
		status, answer = token(t, s, asked, nil)
		wantError(t, status, answer, "invalid_client")
	}
}

func TestAuthorizationCodeAndRefresh(t *testing.T) {
	t.Parallel()
	s := authserver.Start(t, authserver.Config{
		Clients: []authserver.Client{
			{ID: "public", RedirectURIs: []string{callback}},
			{ID: "confidential", Secret: "a-secret", RedirectURIs: []string{callback}},
		},
		Resources: map[string][]string{resource: {"tools", "tools:write"}},
		Path:      "/tenant",
	})
	for client, authenticate := range map[string]func(*http.Request){
		"public": nil, "confidential": basic("confidential", "a-secret"),
	} {
		ada := s.NewPerson(t, "ada")
		code := authorize(t, s, ada, client)
		redeem := url.Values{
			"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "client_id": {client},
			"code_verifier": {verifier}, "resource": {resource},
		}
		status, first := token(t, s, redeem, authenticate)
		wantStatus(t, status, http.StatusOK, first)
		if claims := claimsOf(t, first.AccessToken); claims.Subject != "ada" || claims.Audience != resource || claims.Scope != "tools" {
			t.Errorf("claims %+v, want ada's at %s", claims, resource)
		}

		refresh := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {first.RefreshToken}, "client_id": {client}, "resource": {resource}}
		status, second := token(t, s, refresh, authenticate)
		wantStatus(t, status, http.StatusOK, second)
		if second.RefreshToken == "" || second.RefreshToken == first.RefreshToken || second.AccessToken == first.AccessToken {
			t.Errorf("refreshed %+v after %+v, want other tokens", second, first)
		}

		// Reusing an old refresh token revokes the grant, including the new token.
		status, answer := token(t, s, refresh, authenticate)
		wantError(t, status, answer, "invalid_grant")
		refresh.Set("refresh_token", second.RefreshToken)
		status, answer = token(t, s, refresh, authenticate)
		wantError(t, status, answer, "invalid_grant")

		for _, secret := range []string{code, first.AccessToken, first.RefreshToken, second.AccessToken, second.RefreshToken} {
			if !slices.Contains(s.Secrets(), secret) {
				t.Errorf("a secret of %s is not among the secrets", client)
			}
		}
	}
	if asked, granted := s.Asked("refresh_token"), s.Granted("refresh_token"); asked != 6 || granted != 2 {
		t.Errorf("asked %d times for a refresh, granted %d, want 6 and 2", asked, granted)
	}
}

func TestPeopleSayNoAndPKCEIsNeeded(t *testing.T) {
	t.Parallel()
	s := authserver.Start(t, authserver.Config{
		Clients:   []authserver.Client{{ID: "confidential", Secret: "a-secret", RedirectURIs: []string{callback}}},
		Resources: map[string][]string{resource: {"tools"}},
	})
	bob := s.NewPerson(t, "bob")
	bob.Deny = true
	sent, err := bob.Authorize(t.Context(), authorizationURL(s, "confidential", nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := sent.Query(); got.Get("error") != "access_denied" || got.Get("state") != "a state" || got.Get("iss") != s.Issuer {
		t.Errorf("sent to %s, want access_denied with state and iss", sent)
	}
	for parameter, problem := range map[string]string{"code_challenge": "invalid_request", "resource": "invalid_target"} {
		value := map[string]string{"resource": "http://127.0.0.1:9/other"}[parameter]
		sent, err := bob.Authorize(t.Context(), authorizationURL(s, "confidential", map[string]string{parameter: value}))
		if err != nil {
			t.Fatal(err)
		}
		if got := sent.Query().Get("error"); got != problem {
			t.Errorf("without a good %s: error %q, want %q", parameter, got, problem)
		}
	}
}

func TestPagesInChromium(t *testing.T) {
	t.Parallel()
	back := make(chan url.Values, 1)
	landing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" {
			back <- r.URL.Query()
		}
		w.Write([]byte(`<p data-testid="landed">landed</p>`))
	}))
	t.Cleanup(landing.Close)
	s := authserver.Start(t, authserver.Config{
		Clients:   []authserver.Client{{ID: "public", RedirectURIs: []string{landing.URL + "/callback"}}},
		Resources: map[string][]string{resource: {"tools"}},
	})
	page := browsertest.New(t, browsertest.Options{})
	here := map[string]string{"redirect_uri": landing.URL + "/callback"}
	page.Go(authorizationURL(s, "public", here))
	page.Type("account", "ada")
	page.Click("sign-in")
	page.Click("deny")
	page.Wait("landed")
	if got := <-back; got.Get("error") != "access_denied" {
		t.Errorf("came back with %v, want access_denied", got)
	}
	page.Go(authorizationURL(s, "public", here))
	page.Click("allow") // she is already signed in
	page.Wait("landed")
	if got := <-back; got.Get("code") == "" || got.Get("state") != "a state" {
		t.Errorf("came back with %v, want code and state", got)
	}
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	s := authserver.Start(t, authserver.Config{
		Clients: []authserver.Client{
			{ID: "one", RedirectURIs: []string{callback}}, {ID: "two", RedirectURIs: []string{callback}},
		},
		Resources: map[string][]string{resource: {"tools"}},
	})
	refresh := map[string]url.Values{}
	ada := s.NewPerson(t, "ada")
	for _, client := range []string{"one", "two"} {
		_, answer := token(t, s, url.Values{
			"grant_type": {"authorization_code"}, "code": {authorize(t, s, ada, client)}, "redirect_uri": {callback},
			"client_id": {client}, "code_verifier": {verifier}, "resource": {resource},
		}, nil)
		refresh[client] = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {answer.RefreshToken}, "client_id": {client}}
	}
	if s.Revoke(t, "one") == 0 {
		t.Error("nothing was revoked")
	}
	status, answer := token(t, s, refresh["one"], nil)
	wantError(t, status, answer, "invalid_grant")
	status, answer = token(t, s, refresh["two"], nil)
	wantStatus(t, status, http.StatusOK, answer)
	authorize(t, s, ada, "one") // consent is requested again

	// A client revokes its own token, then introspects it.
	s.AddClient(t, authserver.Client{ID: "asks", Secret: "a-secret"})
	asked := url.Values{"token": {answer.RefreshToken}}.Encode()
	const form = "application/x-www-form-urlencoded"
	if _, told := send(t, s.Issuer+"/token/introspection", form, asked, basic("asks", "a-secret")); told["active"] != true {
		t.Errorf("introspection of a good refresh token: %v", told)
	}
	if status, told := send(t, s.Issuer+"/token/revocation", form, asked+"&client_id=two", nil); status != http.StatusOK {
		t.Errorf("revocation: %d %v", status, told)
	}
	if _, told := send(t, s.Issuer+"/token/introspection", form, asked, basic("asks", "a-secret")); told["active"] != false {
		t.Errorf("introspection of a revoked refresh token: %v", told)
	}
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	s := authserver.Start(t, authserver.Config{Registration: true, InitialAccessToken: "let-me-in"})
	register := func(authorization string) (int, map[string]any) {
		body := `{"client_name":"c","redirect_uris":["` + callback + `"],"grant_types":["authorization_code","refresh_token"],"application_type":"web"}`
		return send(t, s.Issuer+"/reg", "application/json", body, func(r *http.Request) { r.Header.Set("Authorization", authorization) })
	}
	if status, answer := register("Bearer nobody"); status != http.StatusUnauthorized {
		t.Errorf("registration without the token: %d %v", status, answer)
	}
	status, answer := register("Bearer let-me-in")
	secret, _ := answer["client_secret"].(string)
	if status != http.StatusCreated || secret == "" {
		t.Fatalf("registration: %d %v", status, answer)
	}
	for _, secret := range []string{secret, "let-me-in"} {
		if !slices.Contains(s.Secrets(), secret) {
			t.Error("a secret of the registration is not among the secrets")
		}
	}

	closed := authserver.Start(t, authserver.Config{})
	if status, _ := send(t, closed.Issuer+"/reg", "application/json", "{}", nil); status != http.StatusNotFound {
		t.Errorf("registration that is off answers %d", status)
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	s := authserver.Start(t, authserver.Config{Path: "/tenant"})
	host := strings.TrimSuffix(s.Issuer, "/tenant")
	const wellKnown = "/.well-known/oauth-authorization-server/tenant"
	for _, address := range []string{
		host + wellKnown, host + "/.well-known/openid-configuration/tenant", s.Issuer + "/.well-known/openid-configuration",
	} {
		status, document := get(t, address)
		if status != http.StatusOK || document["issuer"] != s.Issuer || document["token_endpoint"] != s.Issuer+"/token" {
			t.Errorf("%s answers %d %v", address, status, document)
		}
	}

	s.RewriteMetadata(func(document map[string]any) { document["issuer"] = "http://elsewhere" })
	if _, document := get(t, host+wellKnown); document["issuer"] != "http://elsewhere" {
		t.Errorf("metadata are not rewritten: %v", document)
	}
	s.Hide(wellKnown)
	if status, _ := get(t, host+wellKnown); status != http.StatusNotFound {
		t.Errorf("a hidden document answers %d", status)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	s := authserver.Start(t, authserver.Config{
		Clients:   []authserver.Client{{ID: "machine", Secret: "a-secret"}},
		Resources: map[string][]string{resource: {"tools"}},
	})
	ask := func() (int, tokenAnswer, error) {
		return tryToken(t.Context(), s, url.Values{"grant_type": {"client_credentials"}, "resource": {resource}}, basic("machine", "a-secret"))
	}

	t.Run("a slow endpoint has issued nothing", func(t *testing.T) {
		hold := s.HoldTokenRequests()
		done := make(chan error, 1)
		go func() {
			_, _, err := ask()
			done <- err
		}()
		hold.Await(t, 1)
		if s.Granted("") != 0 || len(done) != 0 {
			t.Error("a held request was answered")
		}
		hold.Release()
		if err := <-done; err != nil || s.Granted("") != 1 {
			t.Errorf("after the release: %v, %d granted", err, s.Granted(""))
		}
	})

	t.Run("a held response was issued, also to who left", func(t *testing.T) {
		hold := s.HoldTokenResponses()
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error, 1)
		secrets := len(s.Secrets())
		go func() {
			_, _, err := tryToken(ctx, s, url.Values{"grant_type": {"client_credentials"}, "resource": {resource}}, basic("machine", "a-secret"))
			done <- err
		}()
		hold.Await(t, 1)
		if s.Granted("") != 2 || len(s.Secrets()) != secrets+1 {
			t.Error("the token of a held response was not issued")
		}
		leave()
		if err := <-done; err == nil {
			t.Error("a held response was answered")
		}
		hold.Release()
		if status, _, err := ask(); err != nil || status != http.StatusOK {
			t.Errorf("after the release: %d, %v", status, err)
		}
	})

	t.Run("it answers what it is told", func(t *testing.T) {
		s.AnswerTokenRequests(http.StatusInternalServerError, "text/plain", "oh no")
		status, _, err := ask()
		if status != http.StatusInternalServerError || err == nil {
			t.Errorf("answered %d, %v, want 500 and no JSON", status, err)
		}
		s.MendTokenEndpoint()
		if status, _, err := ask(); err != nil || status != http.StatusOK {
			t.Errorf("after it was mended: %d, %v", status, err)
		}
	})

	t.Run("down and up again", func(t *testing.T) {
		s.Stop()
		if _, _, err := ask(); err == nil {
			t.Error("a stopped server answers")
		}
		s.Restart(t)
		if status, _, err := ask(); err != nil || status != http.StatusOK {
			t.Errorf("after the restart: %d, %v", status, err)
		}
	})
}

// authorize sends a person to the authorization endpoint and checks the redirect.
func authorize(t *testing.T, s *authserver.Server, p *authserver.Person, client string) (code string) {
	t.Helper()
	sent, err := p.Authorize(t.Context(), authorizationURL(s, client, nil))
	if err != nil {
		t.Fatal(err)
	}
	got := sent.Query()
	if !strings.HasPrefix(sent.String(), callback+"?") || got.Get("code") == "" || got.Get("state") != "a state" || got.Get("iss") != s.Issuer {
		t.Fatalf("sent to %s, want code, state and iss", sent)
	}
	return got.Get("code")
}

// authorizationURL requests "tools" at the resource. other overrides parameters; an empty value removes one.
func authorizationURL(s *authserver.Server, client string, other map[string]string) string {
	challenge := sha256.Sum256([]byte(verifier))
	parameters := url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {callback}, "state": {"a state"},
		"scope": {"tools"}, "resource": {resource},
		"code_challenge_method": {"S256"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])},
	}
	for name, value := range other {
		parameters.Set(name, value)
		if value == "" {
			parameters.Del(name)
			if name == "code_challenge" {
				parameters.Del(name + "_method")
			}
		}
	}
	return s.Issuer + "/auth?" + parameters.Encode()
}

type tokenAnswer struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	Error        string `json:"error"`
	Description  string `json:"error_description"`
}

func token(t *testing.T, s *authserver.Server, form url.Values, authenticate func(*http.Request)) (int, tokenAnswer) {
	t.Helper()
	status, answer, err := tryToken(t.Context(), s, form, authenticate)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func tryToken(ctx context.Context, s *authserver.Server, form url.Values, authenticate func(*http.Request)) (int, tokenAnswer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Issuer+"/token", strings.NewReader(form.Encode()))
	if err != nil {
		return 0, tokenAnswer{}, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if authenticate != nil {
		authenticate(request)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, tokenAnswer{}, err
	}
	defer response.Body.Close()
	var answer tokenAnswer
	err = json.NewDecoder(response.Body).Decode(&answer)
	return response.StatusCode, answer, err
}

func get(t *testing.T, address string) (int, map[string]any) {
	t.Helper()
	return exchange(t, http.MethodGet, address, "", nil)
}

func send(t *testing.T, address, contentType, body string, change func(*http.Request)) (int, map[string]any) {
	t.Helper()
	return exchange(t, http.MethodPost, address, body, func(r *http.Request) {
		r.Header.Set("Content-Type", contentType)
		if change != nil {
			change(r)
		}
	})
}

func exchange(t *testing.T, method, address, body string, change func(*http.Request)) (int, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(request)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	document := map[string]any{}
	if json.Unmarshal(text, &document) != nil {
		document["text"] = string(text)
	}
	return response.StatusCode, document
}

func basic(id, secret string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret)) }
}

func wantStatus(t *testing.T, status, want int, answer tokenAnswer) {
	t.Helper()
	if status != want {
		t.Fatalf("answered %d %s (%s), want %d", status, answer.Error, answer.Description, want)
	}
}

func wantError(t *testing.T, status int, answer tokenAnswer, want string) {
	t.Helper()
	if status < 400 || answer.Error != want {
		t.Errorf("answered %d %q (%s), want %s", status, answer.Error, answer.Description, want)
	}
}

type claims struct {
	Issuer   string `json:"iss"`
	Audience string `json:"aud"`
	Subject  string `json:"sub"`
	Scope    string `json:"scope"`
	Expiry   int64  `json:"exp"`
	IssuedAt int64  `json:"iat"`
}

func claimsOf(t *testing.T, jwt string) claims {
	t.Helper()
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		t.Fatalf("access token %q is no JWT", jwt)
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var c claims
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// jwks returns the public key as a key set.
func jwks(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"keys":[{"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"1","x":%q,"y":%q}]}`,
		base64.RawURLEncoding.EncodeToString(point[1:33]), base64.RawURLEncoding.EncodeToString(point[33:]))
}

var assertions int

// assertion returns a client assertion (RFC 7523).
func assertion(t *testing.T, key *ecdsa.PrivateKey, client, audience string) string {
	t.Helper()
	assertions++
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"1"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iss":%q,"sub":%q,"aud":%q,"jti":"%d","exp":%d}`,
			client, client, audience, assertions, time.Now().Add(time.Minute).Unix()))
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}
