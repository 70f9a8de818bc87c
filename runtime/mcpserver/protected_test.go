package mcpserver_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/identity/provider/tokentest"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

var vera = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000002")

// newProtected is a bench whose endpoint accepts access tokens of an authorization server.
func newProtected(t *testing.T, change func(*provider.TokenConfig)) (*bench, *tokentest.Server) {
	t.Helper()
	there := tokentest.New()
	t.Cleanup(there.Close)
	cfg := provider.TokenConfig{Issuer: there.URL}
	if change != nil {
		change(&cfg)
	}
	issuer, err := provider.NewTokenIssuer(cfg, provider.Surroundings{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(issuer.Close)
	b := newBench(t, func(c *mcpserver.Config) { c.Tokens = provider.TokenIssuers{issuer} })
	b.people[there.URL+" vera"] = identity.Access{Person: identity.Person{ID: vera}}
	return b, there
}

func claimsFor(there *tokentest.Server, agent string, change map[string]any) map[string]any {
	now := time.Now().Unix()
	all := map[string]any{
		"iss": there.URL, "sub": "vera", "aud": "https://hold.example.com/agents/" + agent + "/mcp", "client_id": "desk",
		"exp": now + 300, "iat": now, "agent": agent,
	}
	maps.Copy(all, change)
	return all
}

const metadataOf = `Bearer resource_metadata="https://hold.example.com/.well-known/oauth-protected-resource/agents/`

func TestAccessTokens(t *testing.T) {
	t.Parallel()
	b, there := newProtected(t, func(c *provider.TokenConfig) { c.Scopes = []string{"call"} })
	scope := map[string]any{"scope": "call"}
	with := func(change map[string]any) map[string]any {
		all := maps.Clone(scope)
		maps.Copy(all, change)
		return all
	}
	for _, c := range []struct {
		name, agent string
		token       string
		status      int
		challenge   string // after the metadata's URL
		principal   uuid.UUID
	}{
		{"a person's", "billing", there.Sign("at+jwt", claimsFor(there, "billing", scope)), 200, "", vera},
		{"a client's own", "billing", there.Sign("at+jwt", claimsFor(there, "billing", with(map[string]any{"sub": "desk"}))), 200, "", uuid.Nil},
		{"of a blocked person", "billing", there.Sign("at+jwt", claimsFor(there, "billing", with(map[string]any{"sub": "blocked"}))), 403, ``, uuid.Nil},
		{"without scopes", "billing", there.Sign("at+jwt", claimsFor(there, "billing", nil)), 403, `, error="insufficient_scope", scope="call"`, uuid.Nil},
		{
			"for another agent's path", "other", there.Sign("at+jwt", claimsFor(there, "billing", scope)), 401,
			`, error="invalid_token", error_description="the token's audience is not https://hold.example.com/agents/other/mcp", scope="call"`, uuid.Nil,
		},
		{"that may act as another", "billing", there.Sign("at+jwt", claimsFor(there, "billing", with(map[string]any{"agent": "other"}))), 403, ``, uuid.Nil},
		{"that may act as one that does not exist", "nobody", there.Sign("at+jwt", claimsFor(there, "nobody", scope)), 403, ``, uuid.Nil},
		{"that may not act as one that does not exist", "nobody", there.Sign("at+jwt", claimsFor(there, "nobody", with(map[string]any{"agent": "billing"}))), 403, ``, uuid.Nil},
		{
			"expired", "billing", there.Sign("at+jwt", claimsFor(there, "billing", with(map[string]any{"exp": 1}))), 401,
			`, error="invalid_token", error_description="the token has expired", scope="call"`, uuid.Nil,
		},
		{
			"an ID token", "billing", there.Sign("JWT", claimsFor(there, "billing", with(map[string]any{"nonce": "n"}))), 401,
			`, error="invalid_token", error_description="this is an ID token, not an access token", scope="call"`, uuid.Nil,
		},
		{"opaque", "billing", "opaque", 401, `, error="invalid_token", error_description="the credential is unknown here", scope="call"`, uuid.Nil},
	} {
		b.calls.submitted = nil
		r := b.newRequest(t.Context(), callBody("1", "echo", `{}`), "Authorization", "Bearer "+c.token,
			"X-Org-Id", "1", "X-Holdpoint-Principal", ann.String())
		r.URL.Path = "/agents/" + c.agent + "/mcp"
		a := b.sendRequest(r)
		if a.status != c.status || strings.Contains(a.body, c.token) {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
			continue
		}
		if c.status == http.StatusOK {
			if got := b.calls.submitted[0].PrincipalID; got != c.principal {
				t.Errorf("%s: principal %s", c.name, got)
			}
			continue
		}
		if got, want := a.header.Get("WWW-Authenticate"), metadataOf+c.agent+`/mcp"`+c.challenge; got != want || len(b.calls.submitted) != 0 {
			t.Errorf("%s: %s\nwant %s", c.name, got, want)
		}
		if c.status == http.StatusForbidden && c.challenge == "" && a.body != "this token may not act as this agent\n" {
			t.Errorf("%s: %s", c.name, a.body)
		}
	}
	if log := b.log.String(); strings.Contains(log, "eyJ") {
		t.Errorf("a token is in the log: %s", log)
	}
	if a := b.sendRequest(b.newRequest(t.Context(), callBody("1", "echo", `{}`), "Authorization", "")); a.status != 401 ||
		a.header.Get("WWW-Authenticate") != metadataOf+`billing/mcp", scope="call"` {
		t.Errorf("without a token: %d %v", a.status, a.header)
	}
	for _, key := range [][]string{{"Authorization", "Bearer key-billing"}, {"Authorization", "Bearer token-ann"}, {"Authorization", "", "X-Agent-API-Key", "key-billing"}} {
		if a := b.sendRequest(b.newRequest(t.Context(), callBody("1", "echo", `{}`), key...)); a.status != 200 {
			t.Errorf("%v: %d %s", key, a.status, a.body)
		}
	}
	token := there.Sign("at+jwt", claimsFor(there, "billing", scope))
	if a := b.sendRequest(b.newRequest(t.Context(), callBody("1", "echo", `{}`), "Authorization", "", "X-Agent-API-Key", token)); a.status != 401 {
		t.Errorf("a token as a key: %d", a.status)
	}
}

func TestAuthorizationServerIsAway(t *testing.T) {
	t.Parallel()
	b, there := newProtected(t, nil)
	there.Down.Store(true)
	a := b.post(callBody("1", "echo", `{}`), "Authorization", "Bearer "+there.Sign("at+jwt", claimsFor(there, "billing", nil)))
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || a.header.Get("WWW-Authenticate") != "" || len(b.calls.submitted) != 0 {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}

func TestMetadataNamesAuthorizationServers(t *testing.T) {
	t.Parallel()
	b, there := newProtected(t, func(c *provider.TokenConfig) { c.Scopes = []string{"call"} })
	for _, name := range []string{"billing", "nobody"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://hold.example.com/.well-known/oauth-protected-resource/agents/"+name+"/mcp", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"resource": "https://hold.example.com/agents/" + name + "/mcp", "resource_name": "Holdpoint: " + name,
			"bearer_methods_supported": []any{"header"}, "authorization_servers": []any{there.URL}, "scopes_supported": []any{"call"},
		}
		if diff := cmp.Diff(want, decodeJSON(t, b.sendRequest(r).body)); diff != "" {
			t.Error(diff)
		}
	}
}
