package cli_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/identity/provider/tokentest"
)

func openTokenIssuers(t *testing.T, text string) (provider.TokenIssuers, error) {
	t.Helper()
	settings := cli.TokenIssuers{File: writeFile(t, "agents-oauth.yaml", text)}
	opened, err := settings.Open(func(string) string { return "" }, provider.Surroundings{PublicURL: "https://holdpoint.example", Now: time.Now})
	t.Cleanup(func() {
		for _, one := range opened {
			one.Close()
		}
	})
	return opened, err
}

func TestTokenIssuers(t *testing.T) {
	t.Parallel()
	opened, err := openTokenIssuers(t, `
- issuer: https://login.example.com/corp
  scopes: [holdpoint.call]
  agent_claim: client_id
  agents: {desk: [billing, clerk], lab: ["*"]}
  service_clients: [batch]
- issuer: https://partners.example
  audience: https://gate.example.com
  principal: none
`)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(opened.Issuers(), []string{"https://login.example.com/corp", "https://partners.example"}) ||
		!slices.Equal(opened.Scopes(), []string{"holdpoint.call"}) {
		t.Errorf("opened %v, %v", opened.Issuers(), opened.Scopes())
	}
	if none, err := (&cli.TokenIssuers{}).Open(nil, provider.Surroundings{}); none != nil || err != nil {
		t.Errorf("without a file: %v, %v", none, err)
	}
}

// The claim that the file names says who the person of a token is.
func TestClaimsOfTokenIssuers(t *testing.T) {
	t.Parallel()
	there := tokentest.New()
	t.Cleanup(there.Close)
	opened, err := openTokenIssuers(t, "- issuer: "+there.URL+"\n  identity_claim: oid\n")
	if err != nil {
		t.Fatal(err)
	}
	token := there.Sign("at+jwt", map[string]any{
		"iss": there.URL, "aud": "https://holdpoint.example/mcp", "sub": "pairwise", "oid": "o-1", "client_id": "app",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "jti": "1",
	})
	if found, err := opened.Verify(t.Context(), token, "https://holdpoint.example/mcp"); err != nil || found.Subject != "o-1" {
		t.Errorf("token of %+v, %v", found, err)
	}
}

func TestTokenIssuersAreReadStrictly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"no list":      {"issuer: https://a.example\n", "agents-oauth.yaml:1:1: must be a list"},
		"unknown key":  {"- isuer: b\n", `unknown key "isuer"`},
		"no issuer":    {"- scopes: [a]\n", "[0].issuer: must be the provider's URL"},
		"twice":        {"- issuer: https://a.example\n- issuer: https://a.example\n", "agents-oauth.yaml:2:3: [1].issuer: another entry has it"},
		"principal":    {"- issuer: https://a.example\n  principal: me\n", "agents-oauth.yaml:2:3: [0].principal: must be subject or none"},
		"no agents":    {"- issuer: https://a.example\n  agents: {x: []}\n", "[0].agents: must be names of agents"},
		"email as id":  {"- issuer: https://a.example\n  identity_claim: email\n", `[0].identity_claim: "email": must be a claim`},
		"a wide scope": {"- issuer: https://a.example\n  scopes: [a b]\n", "[0].scopes: must be scope tokens"},
	} {
		if _, err := openTokenIssuers(t, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
