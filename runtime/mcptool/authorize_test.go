package mcptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// guard protects a skill server and admits only requests with its newest token.
type guard struct {
	next http.Handler
	url  string // of the skill

	mu      sync.Mutex
	issued  int
	revoked int               // tokens up to this number are refused
	scoped  bool              // tools/call requires the scope "more"
	scopes  map[string]string // by token
	refused int
	saw     []string // Authorization headers of all requests, in order
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource/mcp":
		writeJSON(w, map[string]any{"resource": g.url, "authorization_servers": []string{originOf(g.url)}})
	case "/.well-known/oauth-authorization-server":
		writeJSON(w, map[string]any{
			"issuer": originOf(g.url), "token_endpoint": originOf(g.url) + "/token", "response_types_supported": []string{"code"},
		})
	case "/token":
		g.issue(w, r)
	case "/mcp":
		g.check(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (g *guard) issue(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.FormValue("resource") != g.url {
		w.WriteHeader(http.StatusBadRequest)
		writeJSON(w, map[string]any{"error": "invalid_target"})
		return
	}
	g.issued++
	token := fmt.Sprintf("token-%d", g.issued)
	g.scopes[token] = r.FormValue("scope")
	writeJSON(w, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 3600})
}

func (g *guard) check(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	g.saw = append(g.saw, token)
	var n int
	_, _ = fmt.Sscanf(token, "token-%d", &n)
	status, challenge := http.StatusOK, ""
	switch {
	case n <= g.revoked:
		status, challenge = http.StatusUnauthorized, `Bearer error="invalid_token", scope="some"`
	case g.scoped && r.Header.Get("Mcp-Method") == "tools/call" && !strings.Contains(g.scopes[token], "more"):
		status, challenge = http.StatusForbidden, `Bearer error="insufficient_scope", scope="more"`
	}
	if status != http.StatusOK {
		g.refused++
	}
	g.mu.Unlock()
	if status != http.StatusOK {
		w.Header().Set("WWW-Authenticate", challenge)
		w.WriteHeader(status)
		return
	}
	g.next.ServeHTTP(w, r)
}

// revokeTokens invalidates all tokens issued so far.
func (g *guard) revokeTokens() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.revoked = g.issued
}

func (g *guard) counts() (issued, refused int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.issued, g.refused
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func originOf(address string) string {
	u, _ := url.Parse(address)
	return u.Scheme + "://" + u.Host
}

// serveGuarded serves a script behind a guard, and returns a skill that uses client credentials.
func serveGuarded(t testing.TB, s *script) (*guard, tool.Server) {
	t.Helper()
	g := &guard{next: s, scopes: map[string]string{}}
	h := httptest.NewServer(g)
	t.Cleanup(func() { closeServer(h) })
	g.url = h.URL + "/mcp"
	skill := httpSkill(g.url)
	skill.Authorization = tool.Authorization{Grant: tool.ClientCredentials, ClientID: "holdpoint", ClientSecret: "not-to-be-seen"}
	return g, skill
}

// newOAuth returns a service on its own database. The target of every key is the skill.
func newOAuth(t testing.TB, skill *tool.Server) *oauthclient.Service {
	t.Helper()
	db := postgrestest.New(t)
	box, err := secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	people, err := identity.New(identity.Config{Pool: db.Pool(), Logger: log, Now: time.Now})
	must(t, err)
	s, err := oauthclient.New(oauthclient.Config{
		Pool: db.Pool(), Box: box, Identity: people, Logger: log, Now: time.Now, PublicURL: "http://127.0.0.1:1",
		Target: func(_ context.Context, key oauthclient.Key) (oauthclient.Target, error) {
			return skillauth.Target(skill.For(key.Principal)), nil
		},
	})
	must(t, err)
	t.Cleanup(func() {
		s.Close()
		people.Close()
	})
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestProtectedServerIsUsedWithAToken(t *testing.T) {
	t.Parallel()
	for era, options := range listEras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			g, skill := serveGuarded(t, nil)
			server := echoServer()
			inner := serve(t, server, options)
			target, err := url.Parse(inner.URL)
			must(t, err)
			g.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { forwardRequest(w, r, target) })
			s := newSource(t, mcptool.Config{OAuth: newOAuth(t, &skill)})
			if got := textOf(t, callTool(t, s, skill, "echo", `{"n":1}`)); got != `{"n":1}` {
				t.Fatalf("echoed %s", got)
			}
			if _, err := s.List(t.Context(), skill); err != nil {
				t.Fatal(err)
			}
			if issued, refused := g.counts(); issued != 1 || refused != 1 {
				t.Fatalf("%d tokens issued, %d requests refused; want one of each", issued, refused)
			}
		})
	}
}

// forwardRequest proxies a request and flushes streams.
func forwardRequest(w http.ResponseWriter, r *http.Request, to *url.URL) {
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Scheme, out.URL.Host, out.URL.Path, out.Host = "", to.Scheme, to.Host, "/", to.Host
	response, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	buffer := make([]byte, 4096)
	for {
		n, err := response.Body.Read(buffer)
		_, _ = w.Write(buffer[:n])
		_ = http.NewResponseController(w).Flush()
		if err != nil {
			return
		}
	}
}

// TestRevokedTokenIsRenewedInTheCall: a server that refuses the token did not act, so the call is repeated once with a
// new token.
func TestRevokedTokenIsRenewedInTheCall(t *testing.T) {
	t.Parallel()
	scripted := newModernServer(answerInTurn(`{"resultType":"complete","content":[]}`, `{"resultType":"complete","content":[]}`))
	g, skill := serveGuarded(t, scripted)
	s := newSource(t, mcptool.Config{OAuth: newOAuth(t, &skill)})
	callTool(t, s, skill, "echo", `{}`)
	g.revokeTokens()
	callTool(t, s, skill, "echo", `{}`)
	if n := scripted.countRequests("tools/call"); n != 2 {
		t.Errorf("%d calls arrived, want 2", n)
	}
	if issued, _ := g.counts(); issued != 2 {
		t.Errorf("%d tokens were issued, want 2", issued)
	}
}

// TestServerThatTakesNoToken: requests are not repeated endlessly, and the failure names the reason.
func TestServerThatTakesNoToken(t *testing.T) {
	t.Parallel()
	g, skill := serveGuarded(t, newModernServer(answerInTurn()))
	g.revoked = 1000
	s := newSource(t, mcptool.Config{OAuth: newOAuth(t, &skill)})
	f := failCall(t.Context(), t, s, skill)
	if f.Kind != tool.TransportFailure || f.Effect != tool.EffectNone || f.Connect != nil || !strings.Contains(f.Message, "401") {
		t.Errorf("failure %+v", f)
	}
	if issued, refused := g.counts(); issued > 3 || refused > 4 {
		t.Errorf("%d tokens issued, %d requests refused, want a bounded number", issued, refused)
	}
}

// TestMoreScopeIsGot: a tool requires a scope that the token lacks. The new token has the scopes of both requests.
func TestMoreScopeIsGot(t *testing.T) {
	t.Parallel()
	scripted := newModernServer(answerInTurn(`{"resultType":"complete","content":[]}`))
	g, skill := serveGuarded(t, scripted)
	g.scoped = true
	s := newSource(t, mcptool.Config{OAuth: newOAuth(t, &skill)})
	callTool(t, s, skill, "echo", `{}`)
	g.mu.Lock()
	defer g.mu.Unlock()
	if got := g.scopes[g.saw[len(g.saw)-1]]; got != "some more" {
		t.Errorf("scopes of the last token: %q, want those of both requests", got)
	}
	if n := scripted.countRequests("tools/call"); n != 1 {
		t.Errorf("%d calls arrived, want 1", n)
	}
}

// TestStaticAuthorizationHeader: the operator's own header is kept, and no token is requested.
func TestStaticAuthorizationHeader(t *testing.T) {
	t.Parallel()
	g, skill := serveGuarded(t, newModernServer(answerInTurn()))
	skill.Headers = map[string]string{"Authorization": "Bearer of-the-operator"}
	s := newSource(t, mcptool.Config{OAuth: newOAuth(t, &skill)})
	f := failCall(t.Context(), t, s, skill)
	if !f.Unauthorized || f.Connect != nil {
		t.Errorf("failure %+v", f)
	}
	if issued, _ := g.counts(); issued != 0 {
		t.Errorf("%d tokens were issued", issued)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.ContainsFunc(g.saw, func(token string) bool { return token != "of-the-operator" }) {
		t.Errorf("the server saw %q", g.saw)
	}
}

// TestLaterRoundIsNotSentAgain: a call that asked for input may have had an effect, so it is not restarted when a later
// round is refused and a person connects the skill.
func TestLaterRoundIsNotSentAgain(t *testing.T) {
	t.Parallel()
	var g *guard
	scripted := newModernServer(func(w http.ResponseWriter, _ *http.Request, m message) {
		g.mu.Lock()
		g.revoked = 1000
		g.mu.Unlock()
		writeAnswer(w, m, inputRequired(`"a":`+formatInputRequest(`{"type":"object","properties":{}}`), `"s"`))
	})
	g, skill := serveGuarded(t, scripted)
	s := newSource(t, mcptool.Config{OAuth: newOAuth(t, &skill)})
	f := failCallFor(t.Context(), t, s, skill, giveAnswer(accepted))
	if f.Effect != tool.EffectPossible || f.Connect != nil {
		t.Errorf("failure %+v", f)
	}
	if n := scripted.countRequests("tools/call"); n != 1 {
		t.Errorf("%d calls arrived, want 1", n)
	}
}

// TestPeopleHaveSessionsOfTheirOwn: people with their own connections do not share a session.
func TestPeopleHaveSessionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	scripted := &script{}
	h := scripted.serve(t)
	skill := httpSkill(h.URL)
	skill.PerUser = true
	s := newSource(t, mcptool.Config{})
	for _, person := range []uuid.UUID{uuid.New(), uuid.New()} {
		for range 2 {
			if _, err := s.List(t.Context(), skill.For(person)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := scripted.countRequests("initialize"); n != 2 {
		t.Errorf("%d sessions were opened for two people", n)
	}
}

// A probe that gets no token fails at its last step, authorize.
func TestProbeTellsWhereAuthorizingFails(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*guard, *tool.Server){
		"every token is refused": func(g *guard, _ *tool.Server) { g.revoked = 1000 },
		"a person is needed": func(_ *guard, skill *tool.Server) {
			skill.Authorization = tool.Authorization{Grant: tool.AuthorizationCode}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, skill := serveGuarded(t, newModernServer(answerInTurn()))
			change(g, &skill)
			s := newSource(t, mcptool.Config{OAuth: newOAuth(t, &skill)})
			var steps []tool.Step
			if err := s.Probe(t.Context(), skill, func(step tool.Step) { steps = append(steps, step) }); err == nil {
				t.Fatal("the probe succeeded")
			}
			last := steps[len(steps)-1]
			if last.Name != "authorize" || last.Err == nil {
				t.Errorf("steps %+v", steps)
			}
			for _, step := range steps[:len(steps)-1] {
				if step.Err != nil || step.Name == "initialize" {
					t.Errorf("earlier step %+v", step)
				}
			}
		})
	}
}
