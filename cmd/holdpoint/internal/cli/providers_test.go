package cli_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/identity/provider/providertest"
)

func openProviders(t *testing.T, text string) ([]*provider.Provider, error) {
	t.Helper()
	p := cli.Providers{File: writeFile(t, "oidc.yaml", text)}
	getenv := func(name string) string { return map[string]string{"SECRET": "s3cret"}[name] }
	opened, err := p.Open(getenv, provider.Surroundings{PublicURL: "https://holdpoint.example", Now: time.Now})
	t.Cleanup(func() {
		for _, one := range opened {
			one.Close()
		}
	})
	return opened, err
}

func TestProviders(t *testing.T) {
	t.Parallel()
	opened, err := openProviders(t, `
- name: Company
  issuer: https://login.example.com/realms/all
  client_id: holdpoint
  client_secret_env: SECRET
  scopes: [openid, groups]
  groups_claim: realm_access.roles
  roles: {reviewer: [tool-reviewers], operator: [platform, admins]}
  teams: {prefix: team-}
  session: 12h
- name: Partners
  issuer: https://partners.example
  client_id: 4711
  default_roles: [reviewer]
  teams: {groups: {payments: [a, b]}}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(opened) != 2 || opened[0].Name() != "Company" || opened[0].Session() != 12*time.Hour || opened[1].ClientID() != "4711" ||
		opened[1].Session() != 24*time.Hour || opened[1].Issuer() != "https://partners.example" {
		t.Errorf("opened %+v", opened)
	}
	if none, err := (&cli.Providers{}).Open(nil, provider.Surroundings{}); none != nil || err != nil {
		t.Errorf("without a file: %v, %v", none, err)
	}
}

// The file's rules for claims apply to people who sign in.
func TestClaimsOfProviders(t *testing.T) {
	t.Parallel()
	there := providertest.New("holdpoint", "")
	t.Cleanup(there.Close)
	there.Lie(providertest.Lies{Claims: map[string]any{"oid": "o-1", "email": "vera@example.com"}})
	for settings, want := range map[string]identity.Claims{
		"": {Subject: "4711"}, "identity_claim: oid\n  trust_email: true": {Subject: "o-1", EmailVerified: true},
	} {
		opened, err := openProviders(t, fmt.Sprintf("- name: A\n  issuer: %s\n  client_id: holdpoint\n  default_roles: [reviewer]\n  %s\n", there.URL, settings))
		if err != nil {
			t.Fatal(err)
		}
		to, flow, err := opened[0].Begin(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := opened[0].Finish(t.Context(), flow, comeBack(t, to))
		if err != nil || answer.Subject != want.Subject || answer.EmailVerified != want.EmailVerified {
			t.Errorf("%q: %+v, %v", settings, answer.Claims, err)
		}
	}
}

// comeBack follows a redirect to the provider like a browser, and returns the query of the redirect back.
func comeBack(t *testing.T, to string) url.Values {
	t.Helper()
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // nothing is read from it
	back, err := response.Location()
	if err != nil {
		t.Fatal(err)
	}
	return back.Query()
}

func TestProvidersAreReadStrictly(t *testing.T) {
	t.Parallel()
	const good = "- name: A\n  issuer: https://a.example\n  client_id: x\n  default_roles: [reviewer]\n"
	for name, tt := range map[string]struct{ text, want string }{
		"no list":           {"name: A\n", "oidc.yaml:1:1: must be a list"},
		"unknown key":       {"- name: A\n  isuer: b\n", `oidc.yaml:2:3: [0]: unknown key "isuer"`},
		"unknown role":      {"- name: A\n  roles: {admin: [x]}\n", `oidc.yaml:2:11: [0].roles: unknown key "admin"`},
		"unknown default":   {strings.Replace(good, "reviewer", "admin", 1), `oidc.yaml:4:3: [0].default_roles: "admin" is neither reviewer nor operator`},
		"no secret":         {"- name: A\n  client_secret_env: NOPE\n", "oidc.yaml:2:22: [0].client_secret_env: the variable NOPE is not set on this machine"},
		"no issuer":         {"- name: A\n  client_id: x\n  default_roles: [reviewer]\n", "oidc.yaml:1:3: [0].issuer: must be the provider's URL"},
		"nobody gets in":    {"- name: A\n  issuer: https://a.example\n  client_id: x\n", "oidc.yaml:1:3: [0].roles: must name at least one"},
		"twice the name":    {good + strings.Replace(good, "a.example", "b.example", 1), "oidc.yaml:5:3: [1].name: another provider has it"},
		"twice the issuer":  {good + strings.Replace(good, "A", "B", 1), "oidc.yaml:6:3: [1].issuer: another provider has it"},
		"editable claim":    {good + "  identity_claim: email\n", `oidc.yaml:5:3: [0].identity_claim: "email": must be a claim that is unique`},
		"session too short": {good + "  session: 1s\n", "oidc.yaml:5:3: [0].session: must be between 1m and 720h"},
	} {
		if _, err := openProviders(t, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}
