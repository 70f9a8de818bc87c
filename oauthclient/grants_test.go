package oauthclient_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/holdpoint/holdpoint/oauthclient"
)

// configureClient configures a client for the skill.
func (w *world) configureClient(settings oauthclient.Settings) {
	if settings.ClientID == "" {
		settings.ClientID = "given"
	}
	w.known.add("client secret", settings.ClientSecret)
	w.known.add("private key", settings.PrivateKey)
	w.settings = settings
	w.as.change(func() { w.as.clients[settings.ClientID] = settings.ClientSecret })
}

func TestClientSecrets(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	const id, secret = "id with:colon&/+ü%", "s3cret:/+ &%=ü\"x"
	for name, test := range map[string]struct {
		method    string
		supported []string
		basic     bool
	}{
		"by default":         {"", nil, true},
		"basic is set":       {"client_secret_basic", []string{"client_secret_post"}, true},
		"post is set":        {"client_secret_post", nil, false},
		"only post is there": {"", []string{"client_secret_post", "private_key_jwt"}, false},
		"both are there":     {"", []string{"client_secret_post", "client_secret_basic"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t)
			w.configureClient(oauthclient.Settings{ClientID: id, ClientSecret: secret, AuthMethod: test.method})
			w.as.set("token_endpoint_auth_methods_supported", test.supported)
			w.mustConnect()
			w.advanceClock(2 * time.Hour)
			w.as.dropAccess()
			w.mustSend()
			requests := w.as.requests("/token")
			if len(requests) != 2 {
				t.Fatalf("%d token requests", len(requests))
			}
			for _, r := range requests {
				form := r.Form.Get("client_id") == id && r.Form.Get("client_secret") == secret
				user, password, ok := (&http.Request{Header: r.Header}).BasicAuth()
				user, _ = url.QueryUnescape(user)
				password, _ = url.QueryUnescape(password)
				basic := ok && user == id && password == secret
				if basic != test.basic || form == test.basic || test.basic && r.Form.Get("client_secret") != "" {
					t.Errorf("authenticated in the header %t, in the form %t", basic, form)
				}
			}
		})
	}
}

func pemOf(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// claimsOf verifies a client assertion with any of the keys.
func claimsOf(t *testing.T, assertion string, keys ...any) map[string]any {
	t.Helper()
	signed, err := jose.ParseSignedCompact(assertion, []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.RS256})
	check(t, err)
	for _, key := range keys {
		if payload, err := signed.Verify(key); err == nil {
			var claims map[string]any
			check(t, json.Unmarshal(payload, &claims))
			return claims
		}
	}
	t.Fatal("the assertion is not signed with the key")
	return nil
}

func TestPrivateKeyJWT(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	check(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	for name, key := range map[string]crypto.Signer{"P-256": p256, "P-384": p384, "RSA": rsaKey, "own": nil} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t)
			settings := oauthclient.Settings{AuthMethod: "private_key_jwt"}
			var public any
			if key != nil {
				settings.PrivateKey = pemOf(t, key)
				public = key.Public()
			} else {
				public = ownKey(t, w.service)
			}
			w.configureClient(settings)
			w.runJobs()
			w.mustConnect()
			w.advanceClock(2 * time.Hour)
			w.as.dropAccess()
			w.mustSend()
			requests := w.as.requests("/token")
			seen := map[any]bool{}
			for _, r := range requests {
				claims := claimsOf(t, r.Form.Get("client_assertion"), public)
				if claims["iss"] != "given" || claims["sub"] != "given" || claims["aud"] != w.as.issuer() || seen[claims["jti"]] {
					t.Errorf("claims: %v", claims)
				}
				seen[claims["jti"]] = true
				issued, expires := claims["iat"].(float64), claims["exp"].(float64)
				if expires-issued > 300 || expires <= issued {
					t.Errorf("good from %v to %v", issued, expires)
				}
				if r.Form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" ||
					r.Form.Get("client_secret") != "" || r.Header.Get("Authorization") != "" {
					t.Errorf("form: %v", r.Form)
				}
			}
			if len(requests) != 2 || len(seen) != 2 {
				t.Errorf("%d token requests, %d assertions", len(requests), len(seen))
			}
		})
	}
	for name, text := range map[string]string{
		"no PEM": "not a key", "empty PEM": "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n", "public key": publicPEM(t, p256),
	} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t)
			w.configureClient(oauthclient.Settings{AuthMethod: "private_key_jwt", PrivateKey: text})
			_, err := w.beginConnection()
			wantError(t, err, "oauth.private_key")
		})
	}
}

func publicPEM(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	check(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// ownKey is the key that Holdpoint publishes.
func ownKey(t *testing.T, s *oauthclient.Service) *jose.JSONWebKey {
	t.Helper()
	mux := http.NewServeMux()
	s.Mount(mux)
	recorder := httptest.NewRecorder()
	mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, oauthclient.KeysPath, nil))
	var set jose.JSONWebKeySet
	check(t, json.Unmarshal(recorder.Body.Bytes(), &set))
	if len(set.Keys) != 1 {
		t.Fatalf("%d keys", len(set.Keys))
	}
	return &set.Keys[0]
}

// A new key signs soon after the old one is a month old. The old one stays published for its signatures.
func TestOwnKeysChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := ownKey(t, w.service)
	if again := ownKey(t, w.startService(t)); again.KeyID != first.KeyID {
		t.Error("another process has another key")
	}
	w.configureClient(oauthclient.Settings{Grant: "client_credentials", AuthMethod: "private_key_jwt"})
	w.mustSend()
	claimsOf(t, w.as.requests("/token")[0].Form.Get("client_assertion"), first)
	w.advanceClock(31 * 24 * time.Hour)
	w.as.dropAccess()
	w.mustSend() // the new key is published before it signs, since others cache the set
	claimsOf(t, w.as.requests("/token")[1].Form.Get("client_assertion"), first)
	w.advanceClock(10 * time.Minute)
	w.as.dropAccess()
	w.mustSend()
	assertion := w.as.requests("/token")[2].Form.Get("client_assertion")
	signed, err := jose.ParseSignedCompact(assertion, []jose.SignatureAlgorithm{jose.ES256})
	check(t, err)
	if _, err := signed.Verify(first); err == nil {
		t.Error("the old key signs")
	}
	w.advanceClock(8 * 24 * time.Hour)
	claimsOf(t, assertion, ownKey(t, w.service)) // the first key is no longer published
}

// Every token request names the resource (RFC 8707).
func TestClientCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configureClient(oauthclient.Settings{Grant: "client_credentials", ClientSecret: "given-secret", Scopes: []string{"read"}})
	_, err := w.beginConnection()
	wantError(t, err, "needs no person")
	w.mustSend()
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	w.mustSend()
	requests := w.as.requests("/token")
	for _, r := range requests {
		if r.Form.Get("grant_type") != "client_credentials" || r.Form.Get("resource") != w.url || r.Form.Get("scope") != "read" {
			t.Errorf("form: %v", r.Form)
		}
	}
	if len(requests) != 2 {
		t.Errorf("%d token requests", len(requests))
	}
	w = newWorld(t)
	w.settings = oauthclient.Settings{Grant: "client_credentials"}
	wantError(t, w.sendRequest().err, "oauth.client_id")
}

func TestWorkloadIdentity(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for name, test := range map[string]struct {
		token func(context.Context) (string, error)
		gist  string
	}{
		"good": {func(context.Context) (string, error) {
			return b.known.add("workload token", "header.workload.signature"), nil
		}, ""},
		"none": {nil, "has no identity token"},
		"unreadable": {func(context.Context) (string, error) {
			return "", errors.New("open /secret/path: permission denied")
		}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t, func(c *oauthclient.Config) { c.WorkloadToken = test.token })
			w.configureClient(oauthclient.Settings{Grant: "workload_identity"})
			if test.gist != "" {
				wantError(t, w.sendRequest().err, test.gist)
				return
			}
			w.mustSend()
			r := w.as.requests("/token")[0]
			if r.Form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || r.Form.Get("assertion") != "header.workload.signature" ||
				r.Form.Get("resource") != w.url || r.Form.Get("client_id") != "given" {
				t.Errorf("form: %v", r.Form)
			}
		})
	}
}

// Servers of MCP 2025-03-26 have no metadata.
func TestLegacy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.skill.challenge = func(string) []string { return nil }
	w.skill.setAnswer(resourceWellKnown+"/mcp", http.NotFound)
	w.skill.setAnswer("/register", w.as.registration)
	w.skill.setAnswer("/token", w.as.token)
	w.as.metadata = func(m map[string]any) { delete(m, "authorization_response_iss_parameter_supported") }
	wantNeed(t, w.sendRequest().err, oauthclient.NeedConsent)
	u, err := w.beginConnection()
	check(t, err)
	if got := u.Scheme + "://" + u.Host + u.Path; got != w.skill.URL+"/authorize" {
		t.Errorf("the person is sent to %s", got)
	}
	check(t, w.receiveCallback(w.as.giveConsent(t, u)))
	w.mustSend()
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	w.mustSend()
	if n := len(w.skill.requests("/token")); n != 2 {
		t.Errorf("%d token requests", n)
	}
	if c := w.loadConnection(); c.Issuer != w.skill.URL || c.Resource != w.url {
		t.Errorf("issuer %s, resource %s", c.Issuer, c.Resource)
	}
}

// The same revision, with metadata of the authorization server at the skill's origin.
func TestLegacyWithServerMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.skill.challenge = func(string) []string { return []string{"Bearer"} }
	w.skill.setAnswer(resourceWellKnown+"/mcp", http.NotFound)
	w.skill.setAnswer("/.well-known/oauth-authorization-server", func(rw http.ResponseWriter, _ *http.Request) {
		m := w.as.defaults()
		m["issuer"] = w.skill.URL
		writeJSON(rw, http.StatusOK, m)
	})
	w.as.set("issuer", w.skill.URL)
	check(t, w.connect())
	w.mustSend()
	if n := len(w.as.requests("/token")); n != 1 {
		t.Errorf("%d token requests at the metadata's endpoint", n)
	}
}

// A server whose metadata is unavailable is not treated as one without metadata.
func TestMetadataIsAway(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusRequestTimeout} {
		w := newWorld(t)
		w.skill.challenge = func(string) []string { return []string{"Bearer"} }
		w.mustConnect()
		w.advanceClock(2 * time.Hour)
		w.as.dropAccess()
		w.skill.setAnswer(resourceWellKnown+"/mcp", answerStatus(code))
		if err := w.sendRequest().err; err != nil {
			wantError(t, err, "HTTP")
		}
		check(t, w.handler().Ready(t.Context()))
		w.skill.setAnswer(resourceWellKnown+"/mcp", nil)
		w.advanceClock(time.Minute)
		w.as.dropAccess()
		w.mustSend()
	}
}
