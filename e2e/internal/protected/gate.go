package protected

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
)

const wellKnown = "/.well-known/oauth-protected-resource"

// Behaviour configures faults of the server. The zero value has none.
type Behaviour struct {
	// Resource replaces the URL in the metadata.
	Resource string
	// AuthorizationServers replaces the issuer in the metadata. Empty but not nil: none.
	AuthorizationServers []string
	// Document changes the finished metadata.
	Document func(document map[string]any)

	// MetadataURL replaces the URL of the metadata in the challenge.
	MetadataURL string
	// NoMetadataURL leaves the URL of the metadata out of the challenge.
	NoMetadataURL bool
	// NoScope leaves the scope out of the challenge.
	NoScope bool
	// MetadataAtRoot serves the metadata at the well-known address of the root instead of the endpoint's.
	MetadataAtRoot bool
	// NoMetadata serves no metadata.
	NoMetadata bool

	// MetadataRedirect redirects requests for the metadata (302).
	MetadataRedirect string
	// EndpointRedirect redirects requests to the endpoint (307) before their token is checked.
	EndpointRedirect string
}

// Behave sets the behaviour of later requests.
func (s *Server) Behave(b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaviour = b
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b := s.recordRequest(r)
	switch r.URL.Path {
	case s.config.Path:
		if b.EndpointRedirect != "" {
			s.countStatus(http.StatusTemporaryRedirect)
			http.Redirect(w, r, b.EndpointRedirect, http.StatusTemporaryRedirect)
			return
		}
		s.checkToken(w, r, b)
	case b.metadataPath(s.config.Path):
		if b.MetadataRedirect != "" {
			http.Redirect(w, r, b.MetadataRedirect, http.StatusFound)
			return
		}
		s.serveMetadata(w, b)
	default:
		http.NotFound(w, r)
	}
}

// recordRequest records the Authorization header of a request.
func (s *Server) recordRequest(r *http.Request) Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, value := range r.Header.Values("Authorization") {
		if !slices.Contains(s.authorizations, value) {
			s.authorizations = append(s.authorizations, value)
		}
	}
	return s.behaviour
}

func (b Behaviour) metadataPath(endpoint string) string {
	switch {
	case b.NoMetadata:
		return "" // no request has this path
	case b.MetadataAtRoot:
		return wellKnown
	default:
		return wellKnown + endpoint
	}
}

func (s *Server) serveMetadata(w http.ResponseWriter, b Behaviour) {
	scopes := slices.Clone(s.config.Scopes)
	for _, tool := range s.config.Tools {
		if tool.Scope != "" && !slices.Contains(scopes, tool.Scope) {
			scopes = append(scopes, tool.Scope)
		}
	}
	document := map[string]any{
		"resource": s.URL, "authorization_servers": []string{s.config.Issuer},
		"scopes_supported": scopes, "bearer_methods_supported": []string{"header"},
	}
	if b.Resource != "" {
		document["resource"] = b.Resource
	}
	if b.AuthorizationServers != nil {
		document["authorization_servers"] = b.AuthorizationServers
	}
	if b.Document != nil {
		b.Document(document)
	}
	text, err := json.Marshal(document)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

// checkToken serves a request whose token is valid and has the scopes. It challenges others.
func (s *Server) checkToken(w http.ResponseWriter, r *http.Request, b Behaviour) {
	authorization := r.Header.Get("Authorization")
	if authorization == "" {
		s.writeChallenge(w, b, http.StatusUnauthorized, "", s.config.Scopes)
		return
	}
	token, bearer := strings.CutPrefix(authorization, "Bearer ")
	verified, err := s.verifier.Verify(r.Context(), token)
	if !bearer || err != nil || !s.acceptToken(token) {
		s.writeChallenge(w, b, http.StatusUnauthorized, "invalid_token", s.config.Scopes)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err != nil {
		return // the client has disconnected
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	granted := strings.Fields(scopeOf(verified))
	for _, needed := range [][]string{s.config.Scopes, s.toolScope(body)} {
		if slices.ContainsFunc(needed, func(scope string) bool { return !slices.Contains(granted, scope) }) {
			s.writeChallenge(w, b, http.StatusForbidden, "insufficient_scope", needed)
			return
		}
	}
	s.mcp.ServeHTTP(w, r)
}

// acceptToken records a valid token. It reports whether the test has not refused the token.
func (s *Server) acceptToken(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused[token] {
		return false
	}
	if !slices.Contains(s.tokens, token) {
		s.tokens = append(s.tokens, token)
	}
	return true
}

// toolScope returns the additional scope of the tool that a message calls.
func (s *Server) toolScope(body []byte) []string {
	var message struct {
		Method string `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &message) != nil || message.Method != "tools/call" {
		return nil
	}
	for _, tool := range s.config.Tools {
		if tool.Name == message.Params.Name && tool.Scope != "" {
			return []string{tool.Scope}
		}
	}
	return nil
}

// writeChallenge refuses a request with a challenge.
func (s *Server) writeChallenge(w http.ResponseWriter, b Behaviour, status int, problem string, scopes []string) {
	s.countStatus(status)
	var parameters []string
	add := func(name, value string) { parameters = append(parameters, fmt.Sprintf("%s=%q", name, value)) }
	if problem != "" {
		add("error", problem)
	}
	switch {
	case b.NoMetadataURL:
	case b.MetadataURL != "":
		add("resource_metadata", b.MetadataURL)
	default:
		add("resource_metadata", s.origin+b.metadataPath(s.config.Path))
	}
	if !b.NoScope && len(scopes) > 0 {
		add("scope", strings.Join(scopes, " "))
	}
	challenge := "Bearer"
	if len(parameters) > 0 {
		challenge += " " + strings.Join(parameters, ", ")
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.WriteHeader(status)
}

func (s *Server) countStatus(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[status]++
}

func scopeOf(token *oidc.IDToken) string {
	var claims struct {
		Scope string `json:"scope"`
	}
	if token.Claims(&claims) != nil {
		return ""
	}
	return claims.Scope
}
