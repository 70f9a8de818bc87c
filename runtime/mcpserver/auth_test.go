package mcpserver_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestWhoMayCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		name, agent string
		headers     []string
		status      int
		principal   uuid.UUID
	}{
		{"an agent's key", "billing", []string{"Authorization", "Bearer key-billing"}, 200, uuid.Nil},
		{"in lower case", "billing", []string{"Authorization", "bearer key-billing"}, 200, uuid.Nil},
		{"in the other header", "billing", []string{"X-Agent-API-Key", "key-billing"}, 200, uuid.Nil},
		{"in both", "billing", []string{"X-Agent-API-Key", "key-billing", "Authorization", "Bearer key-billing"}, 200, uuid.Nil},
		{"a person's token", "billing", []string{"Authorization", "Bearer token-ann"}, 200, ann},
		{"nothing", "billing", nil, 401, uuid.Nil},
		{"an unknown key", "billing", []string{"Authorization", "Bearer nope"}, 401, uuid.Nil},
		{"another scheme", "billing", []string{"Authorization", "Basic key-billing"}, 401, uuid.Nil},
		{"another agent's key", "billing", []string{"Authorization", "Bearer key-other"}, 401, uuid.Nil},
		{"two different keys", "billing", []string{"X-Agent-API-Key", "key-billing", "Authorization", "Bearer key-other"}, 401, uuid.Nil},
		{"a person's token as a key", "billing", []string{"X-Agent-API-Key", "token-ann"}, 401, uuid.Nil},
		{"a person who may not", "billing", []string{"Authorization", "Bearer token-bert"}, 401, uuid.Nil},
		{"a person, and no such agent", "ghost", []string{"Authorization", "Bearer token-ann"}, 401, uuid.Nil},
		{"a key, and no such agent", "nobody", []string{"Authorization", "Bearer key-billing"}, 401, uuid.Nil},
		{"nothing, and no such agent", "nobody", nil, 401, uuid.Nil},
		{"forged headers", "billing", []string{"Authorization", "Bearer key-billing", "X-Holdpoint-Principal", ann.String(), "X-Org-Id", "1"}, 200, uuid.Nil},
	} {
		b.calls.submitted = nil
		r := b.newRequest(t.Context(), callBody("1", "echo", `{}`), append([]string{"Authorization", ""}, c.headers...)...)
		r.URL.Path = "/agents/" + c.agent + "/mcp"
		a := b.sendRequest(r)
		if a.status != c.status {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
		if c.status == http.StatusOK {
			if got := b.calls.submitted[0].PrincipalID; got != c.principal {
				t.Errorf("%s: principal %s", c.name, got)
			}
			continue
		}
		want := `Bearer resource_metadata="https://hold.example.com/.well-known/oauth-protected-resource/agents/` + c.agent + `/mcp"`
		if len(c.headers) > 0 && strings.HasPrefix(c.headers[len(c.headers)-1], "Bearer ") {
			want += `, error="invalid_token", error_description="the credential is not valid for this endpoint"`
		}
		if got := a.header.Get("WWW-Authenticate"); got != want || len(b.calls.submitted) != 0 {
			t.Errorf("%s: %s", c.name, got)
		}
		if !strings.HasPrefix(a.body, "a key of this agent, or the token of a person who may act as it") {
			t.Errorf("%s: %s", c.name, a.body)
		}
	}
}

func TestAuthenticationFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agents.err = errors.New("no database")
	a := b.post(callBody("1", "echo", `{}`))
	if a.status != http.StatusServiceUnavailable || strings.Contains(a.body, "database") || !strings.Contains(b.log.String(), "no database") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestResourceMetadata(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"billing", "nobody", `a%22b`} {
		r := b.newRequest(t.Context(), "", "Authorization", "")
		r.Method = http.MethodGet
		url := *r.URL
		parsed, err := url.Parse("/.well-known/oauth-protected-resource/agents/" + name + "/mcp")
		if err != nil {
			t.Fatal(err)
		}
		r.URL = parsed
		want := map[string]any{
			"resource":                 "https://hold.example.com/agents/" + name + "/mcp",
			"bearer_methods_supported": []any{"header"}, "resource_name": "Holdpoint: " + strings.ReplaceAll(name, "%22", `"`),
		}
		if diff := cmp.Diff(want, decodeJSON(t, b.sendRequest(r).body)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		name, host string
		headers    []string
		status     int
	}{
		{"a program", "", nil, 200},
		{"our own page", "", []string{"Origin", "https://hold.example.com", "Sec-Fetch-Site", "same-origin"}, 200},
		{"our own host, plain", "", []string{"Origin", "http://hold.example.com"}, 200},
		{"another site", "", []string{"Origin", "https://evil.example.com"}, 403},
		{"another site, as browsers say", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"no origin", "", []string{"Origin", "null"}, 403},
		{"a rebound name", "evil.example.com:8080", []string{"Origin", "http://evil.example.com:8080"}, 403},
		{"a local page", "localhost:8080", []string{"Origin", "http://localhost:8080"}, 200},
		{"a local page by address", "127.0.0.1:8080", []string{"Origin", "http://127.0.0.1:8080"}, 200},
		{"another local page", "localhost:8080", []string{"Origin", "http://localhost:3000"}, 403},
	} {
		r := b.newRequest(t.Context(), callBody("1", "echo", `{}`), c.headers...)
		r.Host = c.host
		if a := b.sendRequest(r); a.status != c.status {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
}
