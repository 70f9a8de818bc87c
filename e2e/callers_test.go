package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/holdpoint/holdpoint/e2e/internal/authserver"
	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/identity/provider/tokentest"
)

// recordingSkill is a skill server that records the headers of requests.
type recordingSkill struct {
	*skill.Ledger
	URL string

	mu    sync.Mutex
	calls []http.Header // headers of tools/call requests
	all   []http.Header
}

func startRecording(t *testing.T) *recordingSkill {
	t.Helper()
	l := &recordingSkill{Ledger: skill.NewLedger()}
	server := skill.CountingServer(l.Ledger)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		l.mu.Lock()
		l.all = append(l.all, r.Header.Clone())
		if strings.Contains(string(body), `"tools/call"`) {
			l.calls = append(l.calls, r.Header.Clone())
		}
		l.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		l.Release()
		there.CloseClientConnections()
		there.Close()
	})
	l.URL = there.URL
	return l
}

// forgedHeaders returns headers with which a client could try to act as another.
func forgedHeaders() http.Header {
	return http.Header{
		"X-Org-Id": {"forged"}, "X-Tenant-Id": {"forged"}, "X-Holdpoint-Principal": {"forged"}, "X-Holdpoint-Agent": {"forged"},
		"X-Holdpoint-Call": {"forged"}, "Forwarded": {"for=forged"}, "X-Forwarded-User": {"forged"}, "Cookie": {"forged=1"},
	}
}

// mustNotHear checks that the skill server got neither headers nor credentials of clients.
func (l *recordingSkill) mustNotHear(t *testing.T, secrets ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, header := range l.all {
		text := fmt.Sprint(header)
		for _, never := range append([]string{"forged"}, secrets...) {
			if strings.Contains(text, never) {
				t.Errorf("the skill's server heard %q: %s", never, text)
			}
		}
	}
}

// oauthWorld is a server that accepts access tokens for its agent worker.
type oauthWorld struct {
	*world
	p        *holdpoint.Process
	skill    *recordingSkill
	endpoint string
}

func newOAuthWorld(t *testing.T, settings, config string) *oauthWorld {
	t.Helper()
	w := &oauthWorld{world: newWorld(t), skill: startRecording(t)}
	o := w.serverOptions()
	o.Port = holdpoint.FreePort(t)
	w.endpoint = fmt.Sprintf("http://127.0.0.1:%d/agents/worker/mcp", o.Port)
	config = strings.ReplaceAll(config, "ENDPOINT", w.endpoint)
	o.Args = []string{"--trusted-hosts", "127.0.0.1", "--agent-oauth-config", writeFile(t, "agents-oauth.yaml", config)}
	w.p = program.Serve(t, o)
	w.applyManifest(w.p, oneSkill(w.skill.URL, settings))
	return w
}

// carrying adds headers to each request.
type carrying http.Header

func (c carrying) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, http.Header(c))
	return http.DefaultTransport.RoundTrip(r)
}

// TestOAuthClientFindsItsWay: the official SDK's client knows only the endpoint's URL. The call's principal is the
// person who signed in, who may not decide it.
func TestOAuthClientFindsItsWay(t *testing.T) {
	t.Parallel()
	as := authserver.Start(t, authserver.Config{Registration: true})
	w := newOAuthWorld(t, "identity_headers: true\n",
		"- issuer: "+as.Issuer+"\n  scopes: [tools]\n  agent_claim: aud\n  agents: {\"ENDPOINT\": [worker]}\n")
	as.AddResource(t, w.endpoint, authserver.DefaultScopes...)
	ada := as.NewPerson(t, "ada")
	const redirect = "http://127.0.0.1:1/callback"
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "sdk", RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}},
		RedirectURL: redirect,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			back, err := ada.Authorize(ctx, args.URL)
			if err != nil {
				return nil, err
			}
			q := back.Query()
			if q.Get("code") == "" {
				return nil, fmt.Errorf("the authorization server answers %s", back)
			}
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.endpoint, OAuthHandler: handler, HTTPClient: &http.Client{Transport: carrying(forgedHeaders())},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	answered := make(chan string, 1)
	go func() {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "counting__record", Arguments: map[string]any{"n": 1}})
		text, _ := json.Marshal(result)
		answered <- fmt.Sprint(string(text), " ", err)
	}()
	waiting, err := pendingFor(t.Context(), "1", w.p)
	if err != nil {
		t.Fatal(err)
	}
	own := w.tokenOf(as.Issuer, "ada")
	wantProblem(t, holdpoint.API{URL: w.p.URL, Token: own}.Approve(t.Context(), waiting), http.StatusForbidden, "self_approval")
	if err := operatorAPI(w.p).Approve(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	<-answered // the answer or a notice that the call waits
	awaitCall(t, operatorAPI(w.p), waiting.CallID, hasStatus("succeeded"))
	w.skill.mustNotHear(t, as.Secrets()...)
	heard := w.skill.calls[len(w.skill.calls)-1]
	for name, want := range map[string]string{
		"X-Holdpoint-Agent": "worker", "X-Holdpoint-Call": waiting.CallID, "X-Holdpoint-Principal": as.Issuer + "#ada",
	} {
		if got := heard.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, secret := range as.Secrets() {
		if strings.Contains(w.p.Output(), secret) {
			t.Error("a token is in the log")
		}
	}
}

// tokenOf returns the token of a reviewer whom an operator linked to a known person.
func (w *oauthWorld) tokenOf(issuer, subject string) string {
	w.t.Helper()
	const name = "here"
	token := w.invitePerson(w.p, name, "reviewer")
	people, err := holdpoint.List[struct{ ID, Issuer, Subject string }](w.t.Context(), operatorAPI(w.p), "people", "")
	if err != nil {
		w.t.Fatal(err)
	}
	here, there := "", ""
	for _, one := range people {
		switch {
		case one.Subject == name:
			here = one.ID
		case one.Issuer == issuer && one.Subject == subject:
			there = one.ID
		}
	}
	err = operatorAPI(w.p).Do(w.t.Context(), http.MethodPost, "people/"+here+"/link", map[string]any{"same_as": there}, nil)
	if err != nil {
		w.t.Fatalf("link %s to %s of %s: %v", here, subject, issuer, err)
	}
	return token
}

// callWithToken sends a tools/call with a token to an agent's path.
func (w *oauthWorld) callWithToken(agent, token string, n int) *http.Response {
	w.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"counting__record","arguments":{"n":%d}}}`, n)
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.p.URL+"/agents/"+agent+"/mcp", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = forgedHeaders()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	response.Body.Close()
	response.Body = io.NopCloser(strings.NewReader(string(text)))
	return response
}

// TestForgedAccessTokens: only a valid token of this issuer for this agent can make a call.
func TestForgedAccessTokens(t *testing.T) {
	t.Parallel()
	there, other := tokentest.New(), tokentest.New()
	t.Cleanup(there.Close)
	t.Cleanup(other.Close)
	w := newOAuthWorld(t, "auto_approve: true\n", "- issuer: "+there.URL+"\n  scopes: [tools]\n")
	now := time.Now().Unix()
	claims := func(change map[string]any) map[string]any {
		all := map[string]any{
			"iss": there.URL, "sub": "ada", "aud": w.endpoint, "client_id": "desk", "exp": now + 300, "iat": now, "agent": "worker", "scope": "tools",
		}
		maps.Copy(all, change)
		return all
	}
	_, id := there.Key()
	metadata := `Bearer resource_metadata="` + w.p.URL + `/.well-known/oauth-protected-resource/agents/`
	n := 0
	for _, c := range []struct {
		name, agent, token string
		status             int
		challenge          string
	}{
		{"good", "worker", there.Sign("at+jwt", claims(nil)), 200, ""},
		{"wrong audience", "worker", there.Sign("at+jwt", claims(map[string]any{"aud": w.p.URL})), 401, `error="invalid_token"`},
		{"another agent's path", "other", there.Sign("at+jwt", claims(nil)), 401, `error="invalid_token"`},
		{"another agent", "worker", there.Sign("at+jwt", claims(map[string]any{"agent": "other"})), 403, ""},
		{"wrong issuer", "worker", other.Sign("at+jwt", claims(map[string]any{"iss": other.URL})), 401, `error="invalid_token"`},
		{"another's signature", "worker", other.Sign("at+jwt", claims(nil)), 401, `error="invalid_token"`},
		{"algorithm none", "worker", tokentest.Unsigned("at+jwt", claims(nil)), 401, `error="invalid_token"`},
		{"HS256 with the public key", "worker", tokentest.SignWith(jose.HS256, there.PublicAsSecret(), id, "at+jwt", claims(nil)), 401, `error="invalid_token"`},
		{"expired", "worker", there.Sign("at+jwt", claims(map[string]any{"exp": now - 60})), 401, `error_description="the token has expired"`},
		{"not yet valid", "worker", there.Sign("at+jwt", claims(map[string]any{"nbf": now + 3600})), 401, `error="invalid_token"`},
		{"an ID token", "worker", there.Sign("JWT", claims(map[string]any{"nonce": "n"})), 401, `error="invalid_token"`},
		{"no scopes", "worker", there.Sign("at+jwt", claims(map[string]any{"scope": ""})), 403, `error="insufficient_scope", scope="tools"`},
	} {
		n++
		response := w.callWithToken(c.agent, c.token, n)
		text, _ := io.ReadAll(response.Body)
		challenge := response.Header.Get("WWW-Authenticate")
		good := c.status == http.StatusOK
		if response.StatusCode != c.status || !good && (!strings.HasPrefix(challenge, metadata+c.agent+`/mcp"`) || !strings.Contains(challenge, c.challenge)) {
			t.Errorf("%s: %d %s %s", c.name, response.StatusCode, challenge, text)
		}
		if executed := w.skill.Count(strconv.Itoa(n)) > 0; executed != good {
			t.Errorf("%s: executed: %v: %s", c.name, executed, text)
		}
	}
	w.skill.mustNotHear(t, "eyJ", "X-Holdpoint")
	if strings.Contains(w.p.Output(), "eyJ") {
		t.Error("a token is in the log")
	}
}

// TestAccessTokensOfMachines: a client's own token has no principal. A token for another resource is refused, as is
// every token while the authorization server's keys are unavailable.
func TestAccessTokensOfMachines(t *testing.T) {
	t.Parallel()
	as := authserver.Start(t, authserver.Config{
		Clients:   []authserver.Client{{ID: "batch", Secret: machineSecret}},
		Resources: map[string][]string{"https://elsewhere.example/mcp": {"tools"}},
	})
	w := newOAuthWorld(t, "auto_approve: true\nidentity_headers: true\n",
		"- issuer: "+as.Issuer+"\n  agent_claim: client_id\n  agents: {batch: [worker]}\n")
	as.AddResource(t, w.endpoint, "tools")
	get := func(resource string) string {
		form := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}, "scope": {"tools"}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, as.Issuer+"/token", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("batch", url.QueryEscape(machineSecret))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Token string `json:"access_token"`
		}
		if err := json.Unmarshal(text, &answer); err != nil || answer.Token == "" {
			t.Fatalf("no token: %s %s", response.Status, text)
		}
		return answer.Token
	}
	token, elsewhere := get(w.endpoint), get("https://elsewhere.example/mcp")
	as.Stop()
	if a := w.callWithToken("worker", token, 1); a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
		t.Errorf("while the authorization server is away: %s %v", a.Status, a.Header)
	}
	as.Restart(t)
	eventually.Succeeds(t, patience, "the call", func() error {
		if a := w.callWithToken("worker", token, 2); a.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", a.Status)
		}
		return nil
	})
	if a := w.callWithToken("worker", elsewhere, 3); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("for another resource: %s", a.Status)
	}
	if w.skill.Count("1") != 0 || w.skill.Count("2") == 0 || w.skill.Count("3") != 0 {
		t.Error("other calls were made")
	}
	heard := w.skill.calls[len(w.skill.calls)-1]
	if heard.Get("X-Holdpoint-Agent") != "worker" || heard.Get("X-Holdpoint-Call") == "" || heard["X-Holdpoint-Principal"] != nil {
		t.Errorf("the skill's server was told %v", heard)
	}
	w.skill.mustNotHear(t, "eyJ")
}

// TestLimitsHoldOverServers: two servers share the limit of an agent. The slots of a killed server become free.
func TestLimitsHoldOverServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	a, b := w.startServer(), w.startServer()
	w.applyManifest(a, strings.Replace(oneSkill(counting.URL, "auto_approve: true\n"), "    wait_budget: 20s\n    limits: {pending: 1000}\n", "    wait_budget: 5m\n    limits: {concurrency: 1}\n", 1))
	agent := w.newAgent(a, "worker")
	counting.Hold()
	first := make(chan error, 1)
	go func() {
		_, err := agent.CallTool(context.WithoutCancel(t.Context()), "counting__record", `{"n":1}`)
		first <- err
	}()
	eventually.Succeeds(t, patience, "the call at its server", func() error {
		if counting.Count("1") == 0 {
			return errors.New("not there yet")
		}
		return nil
	})
	there := agent
	there.URL = b.URL
	call := func() (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, there.URL+"/agents/worker/mcp",
			strings.NewReader(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"counting__record","arguments":{"n":2}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+agent.Key)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Header.Get("Retry-After") + " " + string(text)
	}
	if status, text := call(); status != http.StatusTooManyRequests || !strings.HasPrefix(text, `1 {"jsonrpc":"2.0","id":9,"error":{"code":-32005,`) || counting.Count("2") != 0 {
		t.Errorf("%d %s", status, text)
	}
	if _, err := there.Request(t.Context(), "tools/list", "{}"); err != nil {
		t.Errorf("what does not count is refused: %v", err)
	}
	a.Kill()
	<-first
	counting.Release()
	eventually.Succeeds(t, patience, "a call after the server died that held the place", func() error {
		if status, text := call(); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, text)
		}
		return nil
	})
}
