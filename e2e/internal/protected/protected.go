// Package protected owns the skill server of the tests that is an OAuth resource server, as the
// authorization part of MCP describes it: it takes access tokens that are for it, tells
// who has none where to get one, and records what it saw. It can be told to refuse tokens, and
// to lie about itself.
package protected

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/e2e/internal/skill"
)

// Config is how a server is started.
type Config struct {
	// Issuer is the authorization server whose tokens it takes. It must know the server's URL
	// as a resource.
	Issuer string
	// Path of the endpoint. Empty: "/mcp".
	Path string
	// Scopes are needed for everything. Nil: "tools".
	Scopes []string
	// Tools. Nil: "record", which needs nothing more, and "write", which needs "tools:write".
	Tools []Tool
	// Stateless makes it speak the revision of 2026-07-28 too.
	Stateless bool
}

// Tool is a tool that takes an integer n.
type Tool struct {
	Name  string
	Scope string // it needs this one besides; empty: nothing
}

// Server is a running server. Its ledger counts the arguments n of the calls that were let in.
type Server struct {
	*skill.Ledger
	// URL is the endpoint and the resource indicator.
	URL string

	config   Config
	origin   string
	verifier *oidc.IDTokenVerifier
	mcp      http.Handler

	mu             sync.Mutex
	behaviour      Behaviour
	refused        map[string]bool // tokens
	calls          map[string]int  // by tool
	callers        map[string]caller
	authorizations []string
	tokens         []string
	answers        map[int]int // by status
}

// caller is who made a call.
type caller struct{ token, subject, scope string }

// Start starts a server that ends with the test.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	if c.Path == "" {
		c.Path = "/mcp"
	}
	if c.Scopes == nil {
		c.Scopes = []string{"tools"}
	}
	if c.Tools == nil {
		c.Tools = []Tool{{Name: "record"}, {Name: "write", Scope: "tools:write"}}
	}
	s := &Server{
		Ledger: skill.NewLedger(), config: c, refused: map[string]bool{}, calls: map[string]int{},
		callers: map[string]caller{}, answers: map[int]int{},
	}
	server := s.server()
	s.mcp = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: c.Stateless})

	listening := httptest.NewServer(s)
	s.origin = listening.URL
	s.URL = s.origin + c.Path
	keys := &http.Client{Transport: &http.Transport{}}
	ctx := oidc.ClientContext(context.WithoutCancel(t.Context()), keys)
	s.verifier = oidc.NewVerifier(c.Issuer, oidc.NewRemoteKeySet(ctx, c.Issuer+"/jwks"), &oidc.Config{ClientID: s.URL})
	t.Cleanup(func() {
		s.Release()
		listening.CloseClientConnections()
		listening.Close()
		for session := range server.Sessions() {
			_ = session.Close() // nobody is connected any more
		}
		keys.CloseIdleConnections()
	})
	return s
}

// server has the tools.
func (s *Server) server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "protected", Version: "1"}, nil)
	for _, tool := range s.config.Tools {
		server.AddTool(&mcp.Tool{
			Name: tool.Name, Description: "Records a number.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
		}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			n := skill.ArgumentN(r.Params.Arguments)
			by := s.recordCall(tool.Name, n, r.Extra.Header.Get("Authorization"))
			if held := s.Record(n); held != nil {
				<-held // whatever becomes of the client
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "recorded " + n + " of " + by}}}, nil
		})
	}
	return server
}

// recordCall notes a call, which was let in, and returns whose it was.
func (s *Server) recordCall(tool, n, authorization string) string {
	token := strings.TrimPrefix(authorization, "Bearer ")
	by := caller{token: token}
	if verified, err := s.verifier.Verify(context.Background(), token); err == nil { // it may have expired meanwhile
		by.subject, by.scope = verified.Subject, scopeOf(verified)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[tool]++
	s.callers[n] = by
	return by.subject
}

// Calls is how many calls of a tool were let in.
func (s *Server) Calls(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[tool]
}

// Subject is whose token came with n last; of client credentials it is the client.
func (s *Server) Subject(n string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callers[n].subject
}

// Scope is the scope of the token that came with n last.
func (s *Server) Scope(n string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callers[n].scope
}

// Token is the token that came with n last.
func (s *Server) Token(n string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callers[n].token
}

// Tokens are the distinct tokens that were good, in the order in which they came first.
func (s *Server) Tokens() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tokens)
}

// Authorizations are the distinct Authorization headers that came at all, at any path, good or
// not, in the order in which they came first.
func (s *Server) Authorizations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.authorizations)
}

// Answered is how often the endpoint answered 401 or 403, or a redirect's status.
func (s *Server) Answered(status int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers[status]
}

// Refuse makes tokens revoked, from now on. All that the authorization server has issued so
// far are among its Secrets.
func (s *Server) Refuse(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, token := range tokens {
		s.refused[token] = true
	}
}
