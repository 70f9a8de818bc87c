package provider_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/identity/provider/providertest"
	"github.com/holdpoint/holdpoint/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

const secret = "s3cr3t-of-the-client"

func claimsOfPerson() map[string]any {
	return map[string]any{"name": "Vera", "email": "vera@example.com", "groups": []string{"tool-reviewers", "team-payments"}}
}

func newConfig(issuer string) provider.Config {
	return provider.Config{
		Name: "Company", Issuer: issuer, ClientID: "holdpoint", ClientSecret: secret,
		Roles: map[identity.Role][]string{identity.Reviewer: {"tool-reviewers"}, identity.Operator: {"platform", "admins"}},
	}
}

func startProvider(t *testing.T, change func(*provider.Config)) (*providertest.Provider, *provider.Provider) {
	t.Helper()
	there := providertest.New("holdpoint", secret)
	t.Cleanup(there.Close)
	there.Lie(providertest.Lies{Claims: claimsOfPerson()})
	cfg := newConfig(there.URL)
	if change != nil {
		change(&cfg)
	}
	there.ClientSecret = cfg.ClientSecret
	p, err := provider.New(cfg, provider.Surroundings{PublicURL: "https://holdpoint.example/", Now: time.Now})
	check(t, err)
	t.Cleanup(p.Close)
	return there, p
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// followRedirect follows the authorization request as a browser does, and returns the response.
func followRedirect(t *testing.T, to string) url.Values {
	t.Helper()
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	check(t, err)
	response, err := client.Do(r)
	check(t, err)
	check(t, response.Body.Close())
	back, err := response.Location()
	check(t, err)
	if !strings.HasPrefix(back.String(), "https://holdpoint.example/sign-in/callback?") {
		t.Fatalf("the provider sends to %s", back)
	}
	return back.Query()
}

func signIn(t *testing.T, p *provider.Provider, again bool) (provider.Answer, error) {
	t.Helper()
	to, flow, err := p.Begin(t.Context(), again)
	check(t, err)
	return p.Finish(t.Context(), flow, followRedirect(t, to))
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*provider.Config){
		"confidential client": nil,
		"public client":       func(c *provider.Config) { c.ClientSecret = "" },
	} {
		there, p := startProvider(t, change)
		to, flow, err := p.Begin(t.Context(), false)
		check(t, err)
		asked, err := url.Parse(to)
		check(t, err)
		q := asked.Query()
		if q.Get("response_type") != "code" || q.Get("scope") != "openid profile email" || q.Get("code_challenge_method") != "S256" || q.Get("max_age") != "2592000" ||
			len(q.Get("state")) < 26 || len(q.Get("nonce")) < 26 || q.Get("state") == q.Get("nonce") || strings.Contains(to, flow.Verifier) {
			t.Errorf("%s: asked %s", name, to)
		}
		answer, err := p.Finish(t.Context(), flow, followRedirect(t, to))
		check(t, err)
		if answer.Issuer != there.URL || answer.Subject != "4711" || answer.Name != "Vera" || answer.Email != "vera@example.com" ||
			!slices.Equal(answer.Roles, []identity.Role{identity.Reviewer}) || !slices.Equal(answer.Teams, []string{"team-payments", "tool-reviewers"}) {
			t.Errorf("%s: %+v", name, answer.Claims)
		}
		if answer.IDToken == "" || !strings.HasPrefix(answer.RefreshToken, "refresh-") || len(there.Redeemed()) != 1 {
			t.Errorf("%s: tokens are missing, or the code was redeemed %d times", name, len(there.Redeemed()))
		}
	}
}

func TestSecretInTheBodyWhereTheProviderWantsIt(t *testing.T) {
	t.Parallel()
	there, p := startProvider(t, nil)
	there.Lie(providertest.Lies{Metadata: func(m map[string]any) { m["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"} }})
	if _, err := signIn(t, p, false); err == nil { // the fake accepts the secret only in the header
		t.Error("the secret went where it should not")
	}
	if sent := there.Redeemed(); len(sent) != 1 || sent[0].Get("client_secret") != secret {
		t.Errorf("sent %v", sent)
	}
}

// Each case is an attack or an incorrect provider.
func TestLiesAreNotBelieved(t *testing.T) {
	t.Parallel()
	claim := func(name string, value any) providertest.Lies {
		return providertest.Lies{Claims: claimsOfPerson(), IDToken: func(c map[string]any) {
			if value == nil {
				delete(c, name)
				return
			}
			c[name] = value
		}}
	}
	answer := func(name, value string) providertest.Lies {
		return providertest.Lies{Claims: claimsOfPerson(), Answer: func(v url.Values) {
			v.Del(name)
			if value != "" {
				v.Set(name, value)
			}
		}}
	}
	for name, lies := range map[string]providertest.Lies{
		"another nonce":       claim("nonce", "another"),
		"an empty nonce":      claim("nonce", ""),
		"no nonce":            claim("nonce", nil),
		"another issuer":      claim("iss", "https://evil.example"),
		"another audience":    claim("aud", "somebody"),
		"another party":       claim("azp", "somebody"),
		"audiences, no party": claim("aud", []string{"holdpoint", "somebody"}),
		"expired":             claim("exp", time.Now().Add(-time.Minute).Unix()),
		"no subject":          claim("sub", nil),
		"another key":         {Claims: claimsOfPerson(), Key: providertest.NewKey()},
		"another at_hash":     claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"),
		"groups of nonsense":  claim("groups", map[string]any{"a": 1}),
		"groups elsewhere": {Claims: map[string]any{
			"name": "V", "_claim_names": map[string]string{"groups": "s"}, "_claim_sources": map[string]any{"s": map[string]string{"endpoint": "https://e.example"}},
		}},
		"another state":     answer("state", "another"),
		"an empty state":    answer("state", ""),
		"no code":           answer("code", ""),
		"another code":      answer("code", "another"),
		"no iss":            answer("iss", ""),
		"another iss":       answer("iss", "https://evil.example"),
		"two codes":         {Answer: func(v url.Values) { v.Add("code", "another") }},
		"no ID token":       {Token: func(m map[string]any) { delete(m, "id_token") }},
		"unsigned ID token": {Token: func(m map[string]any) { m["id_token"] = "eyJhbGciOiJub25lIn0.e30." }},
		"userinfo of another": {UserInfo: map[string]any{
			"sub": "4712", "groups": []string{"admins"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there, p := startProvider(t, nil)
			there.Lie(lies)
			got, err := signIn(t, p, false)
			var known *provider.Error
			if !errors.As(err, &known) || known.Text == "" {
				t.Fatalf("%+v, %v", got.Claims, err)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

func TestIssuerIsOptionalWhereItIsNotAnnounced(t *testing.T) {
	t.Parallel()
	there, p := startProvider(t, nil)
	silent := func(m map[string]any) { delete(m, "authorization_response_iss_parameter_supported") }
	there.Lie(providertest.Lies{Claims: claimsOfPerson(), Metadata: silent, Answer: func(v url.Values) { v.Del("iss") }})
	_, err := signIn(t, p, false)
	check(t, err)
	there.Lie(providertest.Lies{Claims: claimsOfPerson(), Metadata: silent, Answer: func(v url.Values) { v.Set("iss", "https://evil.example") }})
	if _, err := signIn(t, p, false); err == nil {
		t.Error("another issuer is believed")
	}
}

func TestFlowsAreNotMixed(t *testing.T) {
	t.Parallel()
	_, p := startProvider(t, nil)
	to, _, err := p.Begin(t.Context(), false)
	check(t, err)
	_, other, err := p.Begin(t.Context(), false)
	check(t, err)
	back := followRedirect(t, to)
	for name, flow := range map[string]provider.Flow{
		"another flow": other, "an empty flow": {}, "another provider's": {Provider: "x", State: back.Get("state"), Nonce: "n", Verifier: "v"},
	} {
		if _, err := p.Finish(t.Context(), flow, back); err == nil {
			t.Errorf("%s is believed", name)
		}
	}
}

func TestWhatTheProviderSaysOfARefusal(t *testing.T) {
	t.Parallel()
	there, p := startProvider(t, nil)
	there.Lie(providertest.Lies{Answer: func(v url.Values) {
		v.Del("code")
		v.Set("error", "access_denied")
		v.Set("error_description", "<b>no\u202e</b>")
	}})
	_, err := signIn(t, p, false)
	var known *provider.Error
	if !errors.As(err, &known) || known.Said != "access_denied: <b>no\u202e</b>" || strings.Contains(err.Error(), "\u202e") {
		t.Errorf("%#v", err)
	}
	there.Lie(providertest.Lies{Answer: func(v url.Values) { v.Set("code", "x") }})
	if _, err = signIn(t, p, false); !errors.As(err, &known) || known.Said != "invalid_grant: not so" {
		t.Errorf("%#v", err)
	}
}

func TestProvingAgain(t *testing.T) {
	t.Parallel()
	there, p := startProvider(t, nil)
	to, _, err := p.Begin(t.Context(), true)
	check(t, err)
	if !strings.Contains(to, "max_age=0") || !strings.Contains(to, "prompt=login") {
		t.Errorf("asked %s", to)
	}
	if _, err := signIn(t, p, true); err != nil {
		t.Error(err)
	}
	for name, auth := range map[string]any{"long ago": time.Now().Add(-time.Hour).Unix(), "never": nil, "nonsense": "yesterday"} {
		there.Lie(providertest.Lies{Claims: claimsOfPerson(), IDToken: func(c map[string]any) {
			if c["auth_time"] = auth; auth == nil {
				delete(c, "auth_time")
			}
		}})
		if _, err := signIn(t, p, true); err == nil {
			t.Errorf("%s is good enough", name)
		}
	}
}

// The provider may sign a person in with a session of hours ago, and states that age.
func TestAgeOfTheProof(t *testing.T) {
	t.Parallel()
	there, p := startProvider(t, nil)
	said := func(auth any) *time.Duration {
		t.Helper()
		there.Lie(providertest.Lies{
			Claims: claimsOfPerson(), UserInfo: map[string]any{"auth_time": time.Now().Unix()},
			IDToken: func(c map[string]any) {
				delete(c, "name") // so that the unsigned userinfo is read too
				if c["auth_time"] = auth; auth == nil {
					delete(c, "auth_time")
				}
			},
		})
		answer, err := signIn(t, p, false)
		check(t, err)
		return answer.ProofAge
	}
	if age := said(nil); age != nil {
		t.Errorf("of a proof nobody knows of: %v", *age)
	}
	if age := said(time.Now().Add(-8 * time.Hour).Unix()); age == nil || *age < 8*time.Hour || *age > 9*time.Hour {
		t.Errorf("of a proof from this morning: %v", age)
	}
	if age := said(time.Now().Add(time.Hour).Unix()); age == nil || *age != 0 {
		t.Errorf("of a proof by a clock that is ahead: %v", age)
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	reviewer, operator := identity.Reviewer, identity.Operator
	for name, tt := range map[string]struct {
		claims, info map[string]any
		change       func(*provider.Config)
		roles        []identity.Role
		teams        []string
		called       string
	}{
		"one group": {claims: map[string]any{"name": "V", "groups": "platform"}, roles: []identity.Role{operator}, teams: []string{"platform"}, called: "V"},
		"both":      {claims: map[string]any{"name": "V", "groups": []string{"admins", "tool-reviewers"}}, roles: []identity.Role{operator, reviewer}, teams: []string{"admins", "tool-reviewers"}, called: "V"},
		"none":      {claims: map[string]any{"preferred_username": "vera"}, called: "vera"},
		"by userinfo": {
			claims: map[string]any{"email": "from the token"}, info: map[string]any{"name": "V", "email": "from userinfo", "groups": []string{"admins"}},
			roles: []identity.Role{operator}, teams: []string{"admins"}, called: "V",
		},
		"default role": {
			claims: map[string]any{"email": "v@example.com"}, called: "v@example.com", roles: []identity.Role{reviewer},
			change: func(c *provider.Config) { c.DefaultRoles = []identity.Role{reviewer} },
		},
		"a path": {
			claims: map[string]any{"name": "V", "realm_access": map[string]any{"roles": []string{"admins"}}}, called: "V",
			roles: []identity.Role{operator}, teams: []string{"admins"},
			change: func(c *provider.Config) { c.GroupsClaim = "realm_access.roles" },
		},
		"a URL": {
			claims: map[string]any{"name": "V", "https://example.com/groups": []string{"admins"}}, called: "V",
			roles: []identity.Role{operator}, teams: []string{"admins"},
			change: func(c *provider.Config) { c.GroupsClaim = "https://example.com/groups" },
		},
		"teams by prefix": {
			claims: map[string]any{"name": "V", "groups": []string{"team-a", "team-", "x"}}, called: "V", teams: []string{"a"},
			change: func(c *provider.Config) { c.Teams.Prefix = "team-" },
		},
		"teams by groups": {
			claims: map[string]any{"name": "V", "groups": []string{"g1", "x"}}, called: "V", teams: []string{"payments"},
			change: func(c *provider.Config) {
				c.Teams.Groups = map[string][]string{"payments": {"g1", "g2"}, "other": {"g3"}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there, p := startProvider(t, tt.change)
			there.Lie(providertest.Lies{Claims: maps.Clone(tt.claims), UserInfo: tt.info})
			got, err := signIn(t, p, false)
			check(t, err)
			if !slices.Equal(got.Roles, tt.roles) || !slices.Equal(got.Teams, tt.teams) || got.Name != tt.called {
				t.Errorf("%+v", got.Claims)
			}
			if tt.info != nil && got.Email != "from the token" {
				t.Errorf("the userinfo overrules the ID token: %q", got.Email)
			}
		})
	}
}

func TestProviderThatIsAway(t *testing.T) {
	t.Parallel()
	there, p := startProvider(t, nil)
	there.Hide(true)
	if _, _, err := p.Begin(t.Context(), false); !errors.Is(err, provider.ErrUnreachable) || p.Failure() == nil {
		t.Errorf("away: %v, %v", err, p.Failure())
	}
	there.Hide(false)
	if _, err := signIn(t, p, false); err != nil || p.Failure() != nil {
		t.Errorf("back: %v, %v", err, p.Failure())
	}
}

func TestMetadataIsJudged(t *testing.T) {
	t.Parallel()
	set := func(name string, value any) func(map[string]any) { return func(m map[string]any) { m[name] = value } }
	for name, lie := range map[string]func(map[string]any){
		"another issuer":            set("issuer", "https://evil.example"),
		"no authorization endpoint": set("authorization_endpoint", ""),
		"a script to go to":         set("authorization_endpoint", "javascript:alert(1)"),
		"a plain token endpoint":    set("token_endpoint", "http://10.0.0.1/token"),
		"plain keys":                set("jwks_uri", "http://192.0.2.1/jwks"),
		"plain userinfo":            set("userinfo_endpoint", "http://192.0.2.1/userinfo"),
		"nonsense":                  set("id_token_signing_alg_values_supported", "ES256"),
	} {
		there, p := startProvider(t, nil)
		there.Lie(providertest.Lies{Metadata: lie})
		if to, _, err := p.Begin(t.Context(), false); !errors.Is(err, provider.ErrUnreachable) {
			t.Errorf("%s: %s, %v", name, to, err)
		}
	}
	there, p := startProvider(t, nil)
	there.Lie(providertest.Lies{Claims: claimsOfPerson(), Metadata: set("token_endpoint", "https://127.0.0.1:1/token")})
	if _, err := signIn(t, p, false); err == nil || !strings.Contains(err.Error(), "private addresses are not allowed") {
		t.Errorf("an address of the inner network: %v", err)
	}
}

func TestWarmWaitsForNothing(t *testing.T) {
	t.Parallel()
	there, p := startProvider(t, nil)
	there.Hide(true)
	ctx, cancel := context.WithCancel(t.Context())
	p.Warm(ctx)
	cancel()
	for p.Failure() == nil {
		select {
		case <-t.Context().Done():
			t.Fatal("it was not asked")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*provider.Config){
		"name":      func(c *provider.Config) { c.Name = "a\u202eb" },
		"issuer":    func(c *provider.Config) { c.Issuer = "login.example.com" },
		"client_id": func(c *provider.Config) { c.ClientID = "" },
		"session":   func(c *provider.Config) { c.Session = time.Second },
		"roles":     func(c *provider.Config) { c.Roles = nil },
		"teams":     func(c *provider.Config) { c.Teams = provider.Teams{Prefix: "a", Groups: map[string][]string{"a": nil}} },
	} {
		cfg := newConfig("https://login.example.com")
		change(&cfg)
		_, err := provider.New(cfg, provider.Surroundings{PublicURL: "https://holdpoint.example", Now: time.Now})
		var invalid *fault.InvalidError
		if !errors.As(err, &invalid) || invalid.Fields[0].Name != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
