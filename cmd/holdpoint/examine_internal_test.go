package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

const issuedToken = "1ssued-s3cret"

func answerJSON(body any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body)
	}
}

// newIssuer is an authorization server, and returns its host.
func newIssuer(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	as := httptest.NewServer(mux)
	t.Cleanup(as.Close)
	mux.HandleFunc("/.well-known/oauth-authorization-server", answerJSON(map[string]any{
		"issuer": as.URL, "authorization_endpoint": as.URL + "/authorize", "token_endpoint": as.URL + "/token",
		"registration_endpoint": as.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
		"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code", "client_credentials"},
	}))
	mux.HandleFunc("/token", answerJSON(map[string]any{"access_token": issuedToken, "token_type": "Bearer", "expires_in": 3600}))
	return strings.TrimPrefix(as.URL, "http://")
}

// newProtectedSkill is a skill server that takes tokens of an issuer only, and returns its URL.
func newProtectedSkill(t *testing.T, issuer string) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "ledger", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	mux := http.NewServeMux()
	skill := httptest.NewServer(mux)
	t.Cleanup(skill.Close)
	metadata := "/.well-known/oauth-protected-resource/mcp"
	mux.HandleFunc(metadata, answerJSON(map[string]any{
		"resource": skill.URL + "/mcp", "authorization_servers": []string{"http://" + issuer}, "scopes_supported": []string{"book"},
	}))
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+issuedToken {
			w.Header().Set("Www-Authenticate", `Bearer resource_metadata="`+skill.URL+metadata+`"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
	return skill.URL + "/mcp"
}

// TestDoctorOfASkill: no server runs, and the doctor says at which step it breaks.
func TestDoctorOfASkill(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	key, err := secret.NewKeyset()
	check(t, err)
	issuer := newIssuer(t)
	url := newProtectedSkill(t, issuer)
	agents := joined(t, db, key).Agents
	for _, spec := range []agent.SkillSpec{
		{Name: "person", URL: url},
		{Name: "own", URL: url, Connection: "per_user"},
		{Name: "machine", URL: url, OAuth: &agent.OAuthSpec{Grant: "client_credentials", Issuer: "http://" + issuer, ClientID: "c", ClientSecret: "hush"}},
		{Name: "workload", URL: url, OAuth: &agent.OAuthSpec{Grant: "workload_identity", ClientID: "c", Issuer: "http://" + issuer}},
		{Name: "keyed", URL: url, Headers: map[string]string{"Authorization": "Bearer " + issuedToken}},
		{Name: "gone", URL: "http://127.0.0.1:1/mcp"},
	} {
		spec.Transport = "http"
		_, err := agents.CreateSkill(t.Context(), audit.System(), spec)
		check(t, err)
	}
	token := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(token, []byte("a.b.c"), 0o600))
	trusting := []string{"--trusted-hosts", issuer}
	for _, test := range []struct {
		name, skill string
		args        []string
		code        int
		want        []string
		not         string
	}{
		{"host not trusted", "person", nil, 1, []string{"ok    challenge", "fail  resource metadata", "is not https", "--trusted-hosts"}, "authorization server  "},
		{"nobody connected", "person", trusting, 1, []string{
			"ok    resource metadata", "ok    authorization server", "registered dynamically", "fail  token", "holdpoint connections connect person",
		}, "initialize"},
		{"each person", "own", trusting, 0, []string{"each person has their own connection", "ok    connect "}, "initialize"},
		{"no person", "machine", trusting, 0, []string{"ok    token", "ok    tools/list", "1 tools"}, "fail"},
		{"no token of its own", "workload", trusting, 1, []string{"fail  token", "--workload-token-file"}, "tools/list"},
		{"a token of its own", "workload", append(trusting, "--workload-token-file", token), 0, []string{"ok    way out", "ok    tools/list"}, "fail"},
		{"by a header", "keyed", nil, 0, []string{"ok    tools/list"}, "challenge"},
		{"not reached", "gone", nil, 1, []string{"fail  challenge", "127.0.0.1:1", "check the skill's url"}, "resource metadata"},
		{"no such skill", "nothing", nil, 1, []string{`skill nothing`, "not found"}, "challenge"},
		{"settings", "machine", []string{"--trusted-hosts", "https://x"}, 1, []string{"fail  way out", `must be "host"`}, "challenge"},
		{"public URL", "machine", []string{"--public-url", "x"}, 1, []string{"--public-url"}, "challenge"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, code := command(t, db, key, "", append([]string{"doctor", "--skill", test.skill}, test.args...)...)
			if code != test.code {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
			for _, want := range test.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("it does not say %q:\n%s", want, stdout)
				}
			}
			for _, not := range []string{test.not, issuedToken, "hush", "a.b.c"} {
				if strings.Contains(stdout+stderr, not) {
					t.Errorf("it says %q:\n%s%s", not, stdout, stderr)
				}
			}
		})
	}
}

// TestDoctorOfNothing: where serve never ran there is no skill, and looking makes nothing.
func TestDoctorOfNothing(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	stdout, _, code := command(t, db, "", "", "doctor", "--skill", "ledger")
	if code != 1 || !strings.Contains(stdout, "fail  skill ledger") || !strings.Contains(stdout, "serve has not run") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}
