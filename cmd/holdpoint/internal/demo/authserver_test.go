package demo_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

func TestAuthServerIssues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var metadata struct {
		Issuer string   `json:"issuer"`
		Token  string   `json:"token_endpoint"`
		Keys   string   `json:"jwks_uri"`
		Grants []string `json:"grant_types_supported"`
		Auth   []string `json:"token_endpoint_auth_methods_supported"`
	}
	document(t, w.url+"/.well-known/oauth-authorization-server/auth", &metadata)
	if metadata.Issuer != w.issuer || metadata.Token != w.issuer+"/token" ||
		!slices.Equal(metadata.Grants, []string{"client_credentials"}) || !slices.Equal(metadata.Auth, []string{"private_key_jwt"}) {
		t.Errorf("metadata %+v", metadata)
	}
	answer := w.ask(t, w.form(t))
	if answer.Status != http.StatusOK || answer.Type != "Bearer" || answer.ExpiresIn != 120 || answer.Scope != bothScopes {
		t.Fatalf("answer %+v", answer)
	}
	parsed, err := jwt.ParseSigned(answer.Token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	if typ := parsed.Headers[0].ExtraHeaders[jose.HeaderType]; typ != "at+jwt" {
		t.Errorf("typ %q", typ)
	}
	var keys jose.JSONWebKeySet
	document(t, metadata.Keys, &keys)
	var claims struct {
		jwt.Claims

		ClientID string `json:"client_id"`
		Scope    string `json:"scope"`
	}
	if err := parsed.Claims(keys, &claims); err != nil {
		t.Fatalf("the published keys do not verify the token: %v", err)
	}
	err = claims.Validate(jwt.Expected{Issuer: w.issuer, Subject: clientID, AnyAudience: jwt.Audience{w.drive}, Time: w.clock()})
	if err != nil || len(claims.Audience) != 1 || claims.ClientID != clientID || claims.Scope != bothScopes || claims.ID == "" {
		t.Errorf("claims %+v: %v", claims, err)
	}
	if life := claims.Expiry.Time().Sub(claims.IssuedAt.Time()); life != 2*time.Minute {
		t.Errorf("the token lives %s", life)
	}
	for _, key := range keys.Keys {
		if !key.IsPublic() {
			t.Error("a private key is published")
		}
	}
	if said := w.said(); !strings.Contains(said, "issued a token to holdpoint for "+w.drive+", scope "+bothScopes+", valid for 2m0s") ||
		strings.Contains(said, answer.Token) {
		t.Errorf("the terminal shows\n%s", said)
	}
}

func TestAuthServerRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stranger := newKey(t, w.clientKey.KeyID)
	with := func(key jose.JSONWebKey, changed map[string]any) func(url.Values) {
		return func(form url.Values) { form.Set("client_assertion", w.assertion(t, key, changed)) }
	}
	set := func(name string, values ...string) func(url.Values) {
		return func(form url.Values) { form[name] = values }
	}
	in := func(d time.Duration) int64 { return w.clock().Add(d).Unix() }
	for _, test := range []struct {
		name   string
		change func(url.Values)
		want   string
	}{
		{"no resource", set("resource"), "invalid_target"},
		{"unknown resource", set("resource", w.url+"/third/mcp"), "invalid_target"},
		{"two resources", set("resource", w.drive, w.other), "invalid_target"},
		{"no scope", set("scope"), "invalid_scope"},
		{"a scope of another resource", func(form url.Values) { form.Set("resource", w.other) }, "invalid_scope"},
		{"another grant", set("grant_type", "authorization_code"), "unsupported_grant_type"},
		{"no assertion", set("client_assertion"), "invalid_client"},
		{"another kind of assertion", set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"), "invalid_client"},
		{"another client id", set("client_id", "stranger"), "invalid_client"},
		{"signed by another key", with(stranger, nil), "invalid_client"},
		{"for another audience", with(w.clientKey, map[string]any{"aud": w.drive}), "invalid_client"},
		{"for others too", with(w.clientKey, map[string]any{"aud": []string{w.issuer, w.drive}}), "invalid_client"},
		{"of another issuer", with(w.clientKey, map[string]any{"iss": "stranger"}), "invalid_client"},
		{"about another", with(w.clientKey, map[string]any{"sub": "stranger"}), "invalid_client"},
		{"expired", with(w.clientKey, map[string]any{"exp": in(-time.Minute)}), "invalid_client"},
		{"good for an hour", with(w.clientKey, map[string]any{"exp": in(time.Hour)}), "invalid_client"},
		{"without an id", with(w.clientKey, map[string]any{"jti": ""}), "invalid_client"},
	} {
		form := w.form(t)
		test.change(form)
		status := http.StatusBadRequest
		if test.want == "invalid_client" {
			status = http.StatusUnauthorized
		}
		if answer := w.ask(t, form); answer.Error != test.want || answer.Status != status || answer.Token != "" {
			t.Errorf("%s: want %s, got %+v", test.name, test.want, answer)
		}
		if assertion := form.Get("client_assertion"); assertion != "" && strings.Contains(w.said(), assertion) {
			t.Errorf("%s: the terminal shows the assertion", test.name)
		}
	}
	if answer := w.ask(t, w.form(t)); answer.Status != http.StatusOK {
		t.Errorf("the request that all of them change is no good: %+v", answer)
	}
}

func TestAssertionIsGoodOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	form := w.form(t)
	if answer := w.ask(t, form); answer.Status != http.StatusOK {
		t.Fatalf("at first: %+v", answer)
	}
	if answer := w.ask(t, form); answer.Error != "invalid_client" {
		t.Errorf("again: %+v", answer)
	}
	// Another assertion with the same id is the same one, while that could be used.
	form.Set("client_assertion", w.assertion(t, w.clientKey, map[string]any{"jti": "one"}))
	if answer := w.ask(t, form); answer.Status != http.StatusOK {
		t.Fatalf("with another id: %+v", answer)
	}
	w.advance(59 * time.Second)
	form.Set("client_assertion", w.assertion(t, w.clientKey, map[string]any{"jti": "one"}))
	if answer := w.ask(t, form); answer.Error != "invalid_client" {
		t.Errorf("within a minute: %+v", answer)
	}
	w.advance(2 * time.Second)
	form.Set("client_assertion", w.assertion(t, w.clientKey, map[string]any{"jti": "one"}))
	if answer := w.ask(t, form); answer.Status != http.StatusOK {
		t.Errorf("after its time, an id is still kept: %+v", answer)
	}
}
