package agent_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
)

// A host in an http URL that is public at registration is stored as public, however it resolves later. Hosts on the
// operator's network, this machine's names, addresses, and https URLs are not stored.
func TestPublicHostsStayPublic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	public := map[string]bool{"tools.example.com": true, "api.example.com": true}
	p := w.start(agent.Config{IsPublicHost: func(_ context.Context, host string) bool { return public[host] }})
	hosts := func(id uuid.UUID) []string {
		t.Helper()
		_, server, err := p.FreshSkill(t.Context(), id)
		check(t, err)
		return server.PublicHosts
	}
	ids := map[string]uuid.UUID{}
	for name, tt := range map[string]struct {
		url  string
		want []string
	}{
		"outside": {"http://Tools.example.com:8080/mcp", []string{"tools.example.com"}},
		"inside":  {"http://tools.internal/mcp", nil},
		"secure":  {"https://tools.example.com/mcp", nil},
		"local":   {"http://localhost:9/mcp", nil},
		"address": {"http://10.0.0.7/mcp", nil},
	} {
		made, err := p.CreateSkill(t.Context(), operator, agent.SkillSpec{Name: name, Transport: "http", URL: tt.url})
		check(t, err)
		ids[name] = made.ID
		if got := hosts(made.ID); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	public["tools.example.com"], public["tools.internal"] = false, true // each now resolves the other way
	const again, inside, other = "http://tools.example.com/other", "http://tools.internal/other", "http://api.example.com/mcp"
	for name, tt := range map[string]struct {
		url  string
		want []string
	}{
		"outside": {again, []string{"tools.example.com"}},
		"inside":  {inside, nil},
		"secure":  {other, []string{"api.example.com"}},
	} {
		_, err := p.UpdateSkill(t.Context(), operator, ids[name], agent.SkillPatch{URL: &tt.url})
		check(t, err)
		if got := hosts(ids[name]); !slices.Equal(got, tt.want) {
			t.Errorf("%s, changed: %q, want %q", name, got, tt.want)
		}
	}
	spec := agent.Spec{Skills: []agent.SkillSpec{
		{Name: "outside", Transport: "http", URL: again, TrustNewTools: true}, {Name: "applied", Transport: "http", URL: other},
	}}
	_, err := p.Apply(t.Context(), operator, spec, false)
	check(t, err)
	applied, err := p.SkillByName(t.Context(), "applied")
	check(t, err)
	if got := hosts(ids["outside"]); !slices.Equal(got, []string{"tools.example.com"}) {
		t.Errorf("applied: %q", got)
	}
	if got := hosts(applied.ID); !slices.Equal(got, []string{"api.example.com"}) {
		t.Errorf("applied again: %q", got)
	}
}
