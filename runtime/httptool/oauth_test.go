package httptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// guarded is an API that accepts only the newest token of its own authorization server.
type guarded struct {
	*httptest.Server
	mu       sync.Mutex
	issued   int
	revoked  int
	requests []string // "METHOD token body" of each request
}

func newGuarded(t testing.TB) *guarded {
	t.Helper()
	g := &guarded{}
	g.Server = httptest.NewServer(g)
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource/v1":
		answer(map[string]any{"resource": g.URL + "/v1", "authorization_servers": []string{g.URL}})
	case "/.well-known/oauth-authorization-server":
		answer(map[string]any{"issuer": g.URL, "token_endpoint": g.URL + "/token", "response_types_supported": []string{"code"}})
	case "/token":
		g.issued++
		answer(map[string]any{"access_token": fmt.Sprintf("token-%d", g.issued), "token_type": "Bearer", "expires_in": 3600})
	default:
		body, _ := io.ReadAll(r.Body)
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		g.requests = append(g.requests, r.Method+" "+token+" "+string(body))
		if token != fmt.Sprintf("token-%d", g.issued) || g.issued <= g.revoked {
			w.Header().Set("Www-Authenticate", `Bearer error="invalid_token"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer(map[string]any{"token": token})
	}
}

func (g *guarded) listRequests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.requests...)
}

func (g *guarded) revokeTokens() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.revoked = g.issued
}

// newOAuth returns a service on its own database. The target of every key is the skill.
func newOAuth(t testing.TB, server *tool.Server) *oauthclient.Service {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db := postgrestest.New(t)
	box, err := secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	must(err)
	log := slog.New(slog.DiscardHandler)
	people, err := identity.New(identity.Config{Pool: db.Pool(), Logger: log, Now: time.Now})
	must(err)
	s, err := oauthclient.New(oauthclient.Config{
		Pool: db.Pool(), Box: box, Identity: people, Logger: log, Now: time.Now, PublicURL: "http://127.0.0.1:1",
		Target: func(_ context.Context, key oauthclient.Key) (oauthclient.Target, error) {
			return skillauth.Target(server.For(key.Principal)), nil
		},
	})
	must(err)
	t.Cleanup(func() {
		s.Close()
		people.Close()
	})
	return s
}

// TestOAuth: a refused request had no effect, so it is sent again with a new token.
func TestOAuth(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	server := skillAt(g.URL + "/v1")
	server.Authorization = tool.Authorization{Grant: tool.ClientCredentials, ClientID: "holdpoint", ClientSecret: "client-secret"}
	s := newSource(t, httptool.Config{OAuth: newOAuth(t, &server)})
	told, err := s.Outgoing(server, newRequest(defineTool(t, writeBinding(), nil), `{"a":1}`))
	if err != nil || !strings.Contains(encodeJSON(t, told), `{"name":"Authorization","secret":true}`) {
		t.Errorf("%+v, %v", told, err)
	}
	r := callTool(t, s, server, writeBinding(), `{"a":1}`)
	if r.IsError || r.text() != `{"token":"…"}` {
		t.Errorf("%s", r.Raw)
	}
	g.revokeTokens()
	if r := callTool(t, s, server, writeBinding(), `{"a":2}`); r.IsError {
		t.Errorf("%s", r.Raw)
	}
	want := []string{`POST  {"a":1}`, `POST token-1 {"a":1}`, `POST token-1 {"a":2}`, `POST token-2 {"a":2}`}
	if got := g.listRequests(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
}

// TestOAuthOfPerson: a call without a connection asks for one and executes nothing.
func TestOAuthOfPerson(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	server := skillAt(g.URL + "/v1")
	server.Authorization = tool.Authorization{Grant: tool.AuthorizationCode, ClientID: "holdpoint", ClientSecret: "client-secret"}
	server.PerUser = true
	s := newSource(t, httptool.Config{OAuth: newOAuth(t, &server)})
	f := failCall(t, s, server.For(uuid.Nil), newRequest(defineTool(t, writeBinding(), nil), `{"a":1}`))
	if f.Connect == nil && f.Effect != tool.EffectNone {
		t.Errorf("%+v", f)
	}
	if f.Effect != tool.EffectNone || len(g.listRequests()) != 1 {
		t.Errorf("%+v, %q", f, g.listRequests())
	}
}

// TestUnauthorizedWithoutOAuth: without OAuth, status 401 is an ordinary answer.
func TestUnauthorizedWithoutOAuth(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	server := skillAt(g.URL + "/v1")
	s := newSource(t, httptool.Config{OAuth: newOAuth(t, &server)})
	if r := callTool(t, s, server, writeBinding(), `{"a":1}`); !r.IsError || r.text() != "Upstream API returned 401: Unauthorized" {
		t.Errorf("%s", r.Raw)
	}
	told, err := s.Outgoing(server, newRequest(defineTool(t, writeBinding(), nil), `{"a":1}`))
	if err != nil || strings.Contains(encodeJSON(t, told), "Authorization") {
		t.Errorf("%+v, %v", told, err)
	}
}
