// Package protected owns a skill server that is an OAuth resource server, as MCP's authorization describes it. It accepts access tokens
// for its resource, challenges requests without one, and records requests. Tests can make it refuse tokens and publish false metadata.
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

// Config configures a server.
type Config struct {
	// Issuer is the authorization server. It must know the server's URL as a resource.
	Issuer string
	// Path of the endpoint. Empty: "/mcp".
	Path string
	// Scopes are required for all requests. Nil: "tools".
	Scopes []string
	// Tools of the server. Nil: "record" without a scope of its own, and "write" with "tools:write".
	Tools []Tool
	// Stateless adds the revision of 2026-07-28.
	Stateless bool
}

// Tool is a tool that takes an integer n.
type Tool struct {
	Name  string
	Scope string // required in addition; empty: none
}

// Server is a running server. Its ledger counts the arguments n of accepted calls.
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

// caller is the token of a call.
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
	server := s.newMCPServer()
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
			_ = session.Close() // no client is connected
		}
		keys.CloseIdleConnections()
	})
	return s
}

// newMCPServer makes the server of the tools.
func (s *Server) newMCPServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "protected", Version: "1"}, nil)
	for _, tool := range s.config.Tools {
		server.AddTool(&mcp.Tool{
			Name: tool.Name, Description: "Records a number.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
		}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			n := skill.ArgumentN(r.Params.Arguments)
			by := s.recordCall(tool.Name, n, r.Extra.Header.Get("Authorization"))
			if held := s.Record(n); held != nil {
				<-held // even if the client disconnects
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "recorded " + n + " of " + by}}}, nil
		})
	}
	return server
}

// recordCall records an accepted call and returns the subject of its token.
func (s *Server) recordCall(tool, n, authorization string) string {
	token := strings.TrimPrefix(authorization, "Bearer ")
	by := caller{token: token}
	if verified, err := s.verifier.Verify(context.Background(), token); err == nil { // the token may have expired
		by.subject, by.scope = verified.Subject, scopeOf(verified)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[tool]++
	s.callers[n] = by
	return by.subject
}

// Calls returns the number of accepted calls of a tool.
func (s *Server) Calls(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[tool]
}

// Subject returns the subject of the last token with n. For client credentials, it is the client.
func (s *Server) Subject(n string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callers[n].subject
}

// Scope returns the scope of the last token with n.
func (s *Server) Scope(n string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callers[n].scope
}

// Token returns the last token with n.
func (s *Server) Token(n string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callers[n].token
}

// Tokens returns the distinct accepted tokens, in the order of their first use.
func (s *Server) Tokens() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tokens)
}

// Authorizations returns the distinct Authorization headers of all requests, in the order of their first use.
func (s *Server) Authorizations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.authorizations)
}

// Answered returns how often the endpoint answered with a status: 401, 403 or that of a redirect.
func (s *Server) Answered(status int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers[status]
}

// Refuse refuses tokens from now on. The authorization server lists the issued tokens among its Secrets.
func (s *Server) Refuse(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, token := range tokens {
		s.refused[token] = true
	}
}
