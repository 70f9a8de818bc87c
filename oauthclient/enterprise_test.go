package oauthclient_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/oauthclient"
)

const (
	typeIDToken = "urn:ietf:params:oauth:token-type:id_token"
	typeIDJAG   = "urn:ietf:params:oauth:token-type:id-jag"
)

// identityProvider is an enterprise's identity provider with token exchange.
type identityProvider struct {
	*authServer
	key    *ecdsa.PrivateKey
	claims func(map[string]any) // changes those of ID tokens
	kind   string               // the type of the exchanged token
	good   map[string]bool      // valid refresh tokens
}

func newIdentityProvider(t *testing.T, known *secrets) *identityProvider {
	t.Helper()
	p := &identityProvider{authServer: newAuthServer(t, known), kind: typeIDJAG, good: map[string]bool{}}
	var err error
	p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	p.setAnswer("/token", p.exchange)
	p.setAnswer("/jwks", answerDocument(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}}))
	p.clients["holdpoint"] = "idp-secret"
	return p
}

// idToken signs an ID token. The caller holds the lock.
func (p *identityProvider) idToken(nonce string) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
	check(p.t, err)
	p.sequence++
	claims := map[string]any{
		"iss": p.issuer(), "aud": "holdpoint", "sub": "alice", "nonce": nonce, "n": p.sequence,
		"iat": time.Now().Unix(), "exp": time.Now().Add(1000 * time.Hour).Unix(),
	}
	if p.claims != nil {
		p.claims(claims)
	}
	text, err := json.Marshal(claims)
	check(p.t, err)
	signed, err := signer.Sign(text)
	check(p.t, err)
	token, err := signed.CompactSerialize()
	check(p.t, err)
	return p.known.add("id token", token)
}

func (p *identityProvider) exchange(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.add("code_verifier", r.Form.Get("code_verifier"))
	answer := map[string]any{"token_type": "Bearer", "access_token": p.newSecret("identity access"), "expires_in": 300}
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		answer["id_token"] = p.idToken(p.codes[r.Form.Get("code")].Get("nonce"))
	case "refresh_token":
		if !p.good[r.Form.Get("refresh_token")] {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		delete(p.good, r.Form.Get("refresh_token"))
		answer["id_token"] = p.idToken("")
	default:
		answer = map[string]any{"token_type": "N_A", "access_token": p.newSecret("assertion"), "issued_token_type": p.kind, "expires_in": 300}
		writeJSON(w, http.StatusOK, answer)
		return
	}
	refresh := p.newSecret("identity refresh")
	p.good[refresh], answer["refresh_token"] = true, refresh
	writeJSON(w, http.StatusOK, answer)
}

// enterpriseWorld makes a world whose skill is connected through an identity provider.
func enterpriseWorld(t *testing.T) (*world, *identityProvider) {
	t.Helper()
	b := newBase(t)
	p := newIdentityProvider(t, b.known)
	w := b.newWorld(t, func(c *oauthclient.Config) {
		c.TrustedHosts = append(c.TrustedHosts, p.host())
		c.Timeout = 30 * time.Second
	})
	w.perUser, w.key.Principal = true, b.alice
	w.configureClient(oauthclient.Settings{
		Grant: "enterprise_managed", ClientSecret: "given-secret", Scopes: []string{"read"},
		IDPIssuer: p.issuer(), IDPClientID: "holdpoint", IDPClientSecret: b.known.add("client secret", "idp-secret"),
	})
	return w, p
}

// connectAt signs Alice in at the identity provider.
func (p *identityProvider) connectAt(w *world) error {
	u, err := w.beginConnection()
	if err != nil {
		return err
	}
	return w.receiveCallback(p.giveConsent(w.t, u))
}

func TestEnterpriseManaged(t *testing.T) {
	t.Parallel()
	w, p := enterpriseWorld(t)
	wantNeed(t, w.sendRequest().err, oauthclient.NeedConsent)
	u, err := w.beginConnection()
	check(t, err)
	if !strings.HasPrefix(u.String(), p.URL+"/authorize?") || !strings.Contains(u.Query().Get("scope"), "openid") || u.Query().Get("nonce") == "" {
		t.Errorf("the person is sent to %s", u)
	}
	check(t, w.receiveCallback(p.giveConsent(t, u)))
	w.mustSend()
	exchanges := p.tokenRequests("urn:ietf:params:oauth:grant-type:token-exchange")
	if len(exchanges) == 0 {
		t.Fatal("no exchange")
	}
	for name, want := range map[string]string{
		"audience": w.as.issuer(), "resource": w.url, "scope": "read", "requested_token_type": typeIDJAG, "subject_token_type": typeIDToken,
	} {
		if got := exchanges[0].Form.Get(name); got != want {
			t.Errorf("exchange: %s is %q, want %q", name, got, want)
		}
	}
	grants := w.as.requests("/token")
	if len(grants) != 1 || grants[0].Form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" ||
		grants[0].Form.Get("resource") != w.url || !strings.HasPrefix(grants[0].Form.Get("assertion"), "assertion-") {
		t.Errorf("grants: %v", grants)
	}
	for _, r := range append(exchanges, p.tokenRequests("authorization_code")...) {
		if user, password, _ := (&http.Request{Header: r.Header}).BasicAuth(); user != "holdpoint" || password != "idp-secret" {
			t.Errorf("at the identity provider, authenticated as %q", user)
		}
	}
	// The token is renewed at the identity provider without a person.
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	w.mustSend()
	if n := len(w.as.tokenRequests("refresh_token")); n != 0 {
		t.Errorf("%d renewals past the identity provider", n)
	}
	if n := len(p.tokenRequests("refresh_token")); n == 0 {
		t.Error("the identity was not renewed")
	}
	// The identity provider can end that.
	p.change(func() { clear(p.good) })
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	wantNeed(t, w.sendRequest().err, oauthclient.NeedAgain)
	check(t, p.connectAt(w))
	w.mustSend()
}

// A rotated refresh token of the identity provider is kept if the next step fails.
func TestRotationOfIdentity(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{"exchange", "grant"} {
		t.Run(failing, func(t *testing.T) {
			t.Parallel()
			w, p := enterpriseWorld(t)
			check(t, p.connectAt(w))
			w.mustSend()
			w.advanceClock(2 * time.Hour)
			w.as.dropAccess()
			if failing == "grant" {
				w.as.setAnswer("/token", answerStatus(http.StatusServiceUnavailable))
			} else {
				p.setAnswer("/token", func(rw http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.Form.Get("grant_type"), "token-exchange") {
						rw.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					p.exchange(rw, r)
				})
			}
			wantError(t, w.sendRequest().err, "HTTP 503")
			w.as.setAnswer("/token", nil)
			p.setAnswer("/token", p.exchange)
			w.mustSend()
		})
	}
}

func TestHostileIdentity(t *testing.T) {
	t.Parallel()
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	for name, test := range map[string]struct {
		change func(w *world, p *identityProvider, trap string)
		gist   string
	}{
		"of another client": {func(_ *world, p *identityProvider, _ string) {
			p.claims = func(c map[string]any) { c["aud"] = "other" }
		}, "does not verify"},
		"of another issuer": {func(_ *world, p *identityProvider, _ string) {
			p.claims = func(c map[string]any) { c["iss"] = "https://x.example" }
		}, "does not verify"},
		"expired":            {func(_ *world, p *identityProvider, _ string) { p.claims = func(c map[string]any) { c["exp"] = 1 } }, "does not verify"},
		"of another request": {func(_ *world, p *identityProvider, _ string) { p.claims = func(c map[string]any) { c["nonce"] = "x" } }, "another request"},
		"without a nonce": {func(_ *world, p *identityProvider, _ string) {
			p.claims = func(c map[string]any) { delete(c, "nonce") }
		}, "another request"},
		"of another key": {func(_ *world, p *identityProvider, _ string) { p.key = other }, "does not verify"},
		"none": {func(_ *world, p *identityProvider, _ string) {
			p.setAnswer("/token", answerDocument(map[string]any{"access_token": "x", "token_type": "Bearer"}))
		}, "does not verify"},
		"other exchange": {func(_ *world, p *identityProvider, _ string) {
			p.kind = "urn:ietf:params:oauth:token-type:access_token"
		}, "not an ID-JAG"},
		"no keys":          {func(_ *world, p *identityProvider, _ string) { p.set("jwks_uri", nil) }, "jwks_uri"},
		"keys without TLS": {func(_ *world, p *identityProvider, trap string) { p.set("jwks_uri", "http://"+trap+"/jwks") }, "is not https"},
		"keys at loopback": {func(_ *world, p *identityProvider, trap string) { p.set("jwks_uri", "https://"+trap+"/jwks") }, "private addresses"},
		"keys at a private name": {func(_ *world, p *identityProvider, trap string) {
			p.set("jwks_uri", "https://"+strings.Replace(trap, "127.0.0.1", "localhost", 1)+"/jwks")
		}, "does not verify"},
		"keys in a file": {func(_ *world, p *identityProvider, _ string) { p.set("jwks_uri", "file:///etc/passwd") }, "not an https URL"},
		"keys redirect": {func(_ *world, p *identityProvider, trap string) {
			p.setAnswer("/jwks", redirectTo("https://"+trap+"/jwks"))
		}, "does not verify"},
		"endless keys":          {func(_ *world, p *identityProvider, _ string) { p.setAnswer("/jwks", answerEndless) }, "does not verify"},
		"provider without TLS":  {func(w *world, _ *identityProvider, trap string) { w.settings.IDPIssuer = "http://" + trap }, "is not https"},
		"provider at loopback":  {func(w *world, _ *identityProvider, trap string) { w.settings.IDPIssuer = "https://" + trap }, "private addresses"},
		"provider of no issuer": {func(_ *world, p *identityProvider, _ string) { p.set("issuer", "https://x.example") }, "https://x.example"},
		"provider redirects":    {func(_ *world, p *identityProvider, trap string) { p.setAnswer("/token", redirectTo("https://"+trap)) }, "follow no redirect"},
		"answer of another": {func(_ *world, p *identityProvider, _ string) {
			p.iss = func(string) []string { return []string{"https://x.example"} }
		}, "https://x.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trap := newTrap(t)
			w, p := enterpriseWorld(t)
			test.change(w, p, trap.host())
			wantError(t, p.connectAt(w), test.gist)
			trap.wantUntouched()
			if n := len(w.as.requests("/token")); n != 0 {
				t.Errorf("%d token requests for who is not known", n)
			}
		})
	}
}

// The size of the key set is bounded, not only the time to read it.
func TestEndlessKeysAreBounded(t *testing.T) {
	t.Parallel()
	w, p := enterpriseWorld(t)
	written := make(chan int, 10)
	p.setAnswer("/jwks", func(rw http.ResponseWriter, r *http.Request) {
		n, block := 0, []byte(strings.Repeat(" ", 64<<10))
		for r.Context().Err() == nil && n < 1<<30 {
			if _, err := rw.Write(block); err != nil {
				break
			}
			n += len(block)
		}
		written <- n
	})
	wantError(t, p.connectAt(w), "does not verify")
	if len(p.requests("/jwks")) == 0 {
		t.Fatal("the keys were not asked for")
	}
	if n := <-written; n > 32<<20 {
		t.Errorf("%d bytes of keys were read", n)
	}
}

func TestUseIdentity(t *testing.T) {
	t.Parallel()
	w, p := enterpriseWorld(t)
	p.mu.Lock()
	token := p.idToken("")
	p.mu.Unlock()
	check(t, w.service.UseIdentity(t.Context(), w.alice, w.key, token))
	w.mustSend()
	exchange := p.tokenRequests("urn:ietf:params:oauth:grant-type:token-exchange")
	if len(exchange) != 1 || exchange[0].Form.Get("subject_token") != token {
		t.Errorf("%d exchanges", len(exchange))
	}
	w.key.Principal = w.bob
	wantNeed(t, w.sendRequest().err, oauthclient.NeedConsent)
}

// Close waits for the work of a sign-in, and cancels it.
func TestCloseWaitsForSignedIn(t *testing.T) {
	t.Parallel()
	w, p := enterpriseWorld(t)
	var ended atomic.Bool
	w.service.Managed = func(ctx context.Context, _, _ string) ([]uuid.UUID, error) {
		<-ctx.Done()
		ended.Store(true)
		return nil, ctx.Err()
	}
	w.service.SignedIn(w.alice, p.issuer(), "holdpoint", "an ID token")
	w.service.Close()
	if !ended.Load() {
		t.Error("Close returned while the sign-in's work was running")
	}
}

// A sign-in with the enterprise's identity provider connects the skills that it manages, for this person only.
func TestSignedIn(t *testing.T) {
	t.Parallel()
	w, p := enterpriseWorld(t)
	asked := make(chan string, 10)
	w.service.Managed = func(_ context.Context, issuer, clientID string) ([]uuid.UUID, error) {
		asked <- issuer + " " + clientID
		if issuer != p.issuer() {
			return nil, nil
		}
		return []uuid.UUID{uuid.New(), w.key.SkillID}, nil // the first was deleted, which must not affect the second
	}
	p.mu.Lock()
	token := p.idToken("")
	p.mu.Unlock()
	w.service.SignedIn(w.alice, "https://other.example", "holdpoint", token)
	w.service.SignedIn(w.alice, p.issuer(), "holdpoint", "")
	if got := <-asked; got != "https://other.example holdpoint" {
		t.Errorf("asked for %s", got)
	}
	wantNeed(t, w.sendRequest().err, oauthclient.NeedConsent)
	w.service.SignedIn(w.alice, p.issuer(), "holdpoint", token)
	for deadline := time.Now().Add(time.Minute); w.sendRequest().err != nil; {
		if time.Now().After(deadline) {
			t.Fatalf("the managed skill was never connected: %v", w.sendRequest().err)
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // between two looks at a condition
	}
	<-asked
	if exchange := p.tokenRequests("urn:ietf:params:oauth:grant-type:token-exchange"); len(exchange) != 1 || exchange[0].Form.Get("subject_token") != token {
		t.Errorf("%d exchanges", len(exchange))
	}
	if len(asked) != 0 {
		t.Error("a sign-in without an ID token looked up managed skills")
	}
	w.key.Principal = w.bob
	wantNeed(t, w.sendRequest().err, oauthclient.NeedConsent)
}
