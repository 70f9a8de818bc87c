package ui_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// authServer is an authorization server, with metadata for the skill's server /mcp. It runs on localhost, so browsers
// treat it as another site than the dashboard on 127.0.0.1.
type authServer struct {
	url string

	mu       sync.Mutex
	issuers  []string       // paths of its issuers; the root if empty
	change   map[string]any // overrides members of the issuers' metadata
	scopes   []string
	refuse   url.Values // response instead of a code
	codes    int
	asked    []url.Values // authorization requests that were allowed
	referers []string     // their Referer headers
	revoked  int
}

func newAuthServer(t *testing.T) *authServer {
	t.Helper()
	as := &authServer{scopes: []string{"files:read", "files:write"}}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	as.url = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", as.resource)
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", as.metadata)
	mux.HandleFunc("GET /.well-known/oauth-authorization-server/{issuer}", as.metadata)
	mux.HandleFunc("POST /register", as.register)
	mux.HandleFunc("GET /authorize", as.authorize)
	mux.HandleFunc("POST /allow", as.allow)
	mux.HandleFunc("POST /token", as.token)
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("POST /revoke", func(http.ResponseWriter, *http.Request) {
		as.mu.Lock()
		defer as.mu.Unlock()
		as.revoked++
	})
	return as
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (as *authServer) resource(w http.ResponseWriter, _ *http.Request) {
	as.mu.Lock()
	defer as.mu.Unlock()
	issuers := []string{as.url}
	if len(as.issuers) > 0 {
		issuers = nil
		for _, path := range as.issuers {
			issuers = append(issuers, as.url+path)
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"resource": as.url + "/mcp", "authorization_servers": issuers, "scopes_supported": as.scopes,
	})
}

func (as *authServer) metadata(w http.ResponseWriter, r *http.Request) {
	as.mu.Lock()
	defer as.mu.Unlock()
	issuer := as.url
	if path := r.PathValue("issuer"); path != "" {
		issuer += "/" + path
	}
	m := map[string]any{
		"issuer": issuer, "authorization_endpoint": as.url + "/authorize?at=" + url.QueryEscape(issuer), "token_endpoint": as.url + "/token",
		"registration_endpoint": as.url + "/register", "revocation_endpoint": as.url + "/revoke",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
	}
	maps.Copy(m, as.change)
	writeJSON(w, http.StatusOK, m)
}

func (as *authServer) register(w http.ResponseWriter, r *http.Request) {
	var client map[string]any
	_ = json.NewDecoder(r.Body).Decode(&client)
	client["client_id"] = "holdpoint-at-fake"
	writeJSON(w, http.StatusCreated, client)
}

// authorize is the page on which a person signs in and consents.
func (as *authServer) authorize(w http.ResponseWriter, r *http.Request) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.referers = append(as.referers, r.Referer())
	w.Header().Set("Content-Type", "text/html")
	_, _ = fmt.Fprintf(w, `<!DOCTYPE html><title>Fake</title><form method="post" action="/allow?%s"><button data-testid="allow">Allow</button></form>`,
		strings.ReplaceAll(r.URL.RawQuery, "&", "&amp;"))
}

func (as *authServer) allow(w http.ResponseWriter, r *http.Request) {
	as.mu.Lock()
	defer as.mu.Unlock()
	query := r.URL.Query()
	as.asked = append(as.asked, query)
	as.codes++
	answer := url.Values{"code": {fmt.Sprintf("code-%d", as.codes)}}
	if as.refuse != nil {
		answer = as.refuse
	}
	answer.Set("state", query.Get("state"))
	answer.Set("iss", query.Get("at"))
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+answer.Encode(), http.StatusSeeOther)
}

func (as *authServer) token(w http.ResponseWriter, r *http.Request) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if r.FormValue("grant_type") != "authorization_code" || r.FormValue("code_verifier") == "" {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"access_token": "secret-access-token", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "secret-refresh-token",
		"scope": strings.Join(as.scopes, " "),
	})
}

func (as *authServer) set(change func(*authServer)) {
	as.mu.Lock()
	defer as.mu.Unlock()
	change(as)
}

// registerGuarded registers the skill that as protects, and assigns it to the agent.
func (w *world) registerGuarded(as *authServer, spec agent.SkillSpec) *agent.Skill {
	w.t.Helper()
	spec.Name, spec.Transport, spec.URL = "guarded", tool.HTTP, as.url+"/mcp"
	_, err := w.agents.Apply(w.t.Context(), audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{spec},
		Agents: []agent.AgentSpec{{Name: "billing", Skills: &[]agent.AssignmentSpec{{Skill: "files"}, {Skill: "open"}, {Skill: "guarded"}}}},
	}, false)
	check(w.t, err)
	skill, err := w.agents.SkillByName(w.t.Context(), "guarded")
	check(w.t, err)
	return skill
}

// refuseRequest makes the skill's server refuse a person's request, as if it had no token.
func (w *world) refuseRequest(skill *agent.Skill, principal uuid.UUID) {
	w.t.Helper()
	_, server, err := w.agents.FreshSkill(w.t.Context(), skill.ID)
	check(w.t, err)
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, server.URL, nil)
	check(w.t, err)
	header := http.Header{"Www-Authenticate": {"Bearer"}}
	_, err = w.oauth.Handler(skillauth.Target(server.For(principal))).Answered(w.t.Context(), r, "tools/list", http.StatusUnauthorized, header, oauthclient.Signed{})
	if err == nil {
		w.t.Fatal("a refusal without a token asks for nothing")
	}
}

// begin presses Connect, and returns the URL of the redirect.
func (v *visitor) begin(skill *agent.Skill, form url.Values) *url.URL {
	v.w.t.Helper()
	a := v.post("/skills/"+skill.ID.String()+"/connect", form)
	to, err := url.Parse(a.find("continue").AttrOr("href", ""))
	check(v.w.t, err)
	if a.status != http.StatusOK || to.Host == "" {
		v.w.t.Fatalf("connect: %d %s", a.status, a.text())
	}
	return to
}

// allowAccess returns the path and query of the authorization response.
func (as *authServer) allowAccess(t *testing.T, to *url.URL) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/allow?"+to.RawQuery, nil)
	answer := httptest.NewRecorder()
	as.allow(answer, r)
	back, err := url.Parse(answer.Header().Get("Location"))
	check(t, err)
	return back.RequestURI()
}
