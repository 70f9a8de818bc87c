package oauthclient_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// received is a request to a server.
type received struct {
	Method, Path string
	Header       http.Header
	Form         url.Values
	Body         string
}

// server is an HTTP server with replaceable answers that records its requests.
type server struct {
	*httptest.Server
	t        testing.TB
	mu       sync.Mutex
	routes   map[string]http.HandlerFunc // by path; others get the default
	fallback map[string]http.HandlerFunc
	got      []received
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{t: t, routes: map[string]http.HandlerFunc{}, fallback: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	form, _ := url.ParseQuery(string(body))
	s.mu.Lock()
	s.got = append(s.got, received{r.Method, r.URL.EscapedPath(), r.Header.Clone(), form, string(body)})
	answer := s.routes[r.URL.EscapedPath()]
	if answer == nil {
		answer = s.fallback[r.URL.EscapedPath()]
	}
	s.mu.Unlock()
	if answer == nil {
		http.NotFound(w, r)
		return
	}
	r.Form = form
	answer(w, r)
}

// setAnswer replaces the answer at a path; nil restores the default.
func (s *server) setAnswer(path string, answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes[path] = answer
}

// requests returns the requests for a path so far.
func (s *server) requests(path string) []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []received
	for _, r := range s.got {
		if r.Path == path {
			list = append(list, r)
		}
	}
	return list
}

// paths returns the paths of all GET requests so far, in order.
func (s *server) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, r := range s.got {
		if r.Method == http.MethodGet {
			list = append(list, r.Path)
		}
	}
	return list
}

func (s *server) forgetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = nil
}

func (s *server) host() string { return strings.TrimPrefix(s.URL, "http://") }

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// answerDocument answers with a JSON document.
func answerDocument(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, v) }
}

// redirectTo redirects every request.
func redirectTo(address string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", address)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

func answerStatus(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// skillServer is the authorization part of an MCP server.
type skillServer struct {
	*server
	as *authServer

	// challenge makes the WWW-Authenticate of a refusal; nil: the default one.
	challenge func(why string) []string
	// scopes are required of each request.
	scopes []string
	// metadata changes the resource metadata.
	metadata func(map[string]any)
	// nonce is required in proofs, if set.
	nonce string
	proof proofs
}

const resourceWellKnown = "/.well-known/oauth-protected-resource"

func newSkillServer(t testing.TB, as *authServer) *skillServer {
	t.Helper()
	s := &skillServer{server: newServer(t), as: as, proof: proofs{seen: map[string]bool{}}}
	s.fallback["/mcp"] = s.mcp
	s.fallback[resourceWellKnown+"/mcp"] = s.describe
	return s
}

func (s *skillServer) describe(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	m := map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.as.issuer()}}
	if s.metadata != nil {
		s.metadata(m)
	}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, m)
}

// change changes the server during requests.
func (s *skillServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *skillServer) mcp(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	needed, challenge, nonce := s.scopes, s.challenge, s.nonce
	s.mu.Unlock()
	refuse := func(code int, why string) {
		lines := []string{`Bearer resource_metadata="` + s.URL + resourceWellKnown + `/mcp"` + why}
		if challenge != nil {
			lines = challenge(why)
		}
		w.Header()["Www-Authenticate"] = lines
		w.WriteHeader(code)
	}
	kind, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token, ok := s.as.findToken(value)
	switch {
	case value == "":
		refuse(http.StatusUnauthorized, "")
	case !ok || !strings.EqualFold(kind, token.kind):
		refuse(http.StatusUnauthorized, `, error="invalid_token"`)
	case token.kind == "DPoP" && s.proof.check(r, s.URL+"/mcp", value, token.thumbprint) != nil:
		refuse(http.StatusUnauthorized, `, error="invalid_dpop_proof"`)
	case token.kind == "DPoP" && nonce != "" && proofOf(r)["nonce"] != nonce:
		w.Header().Set("DPoP-Nonce", nonce)
		w.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
		w.WriteHeader(http.StatusUnauthorized)
	case !containsAll(token.scopes, needed):
		refuse(http.StatusForbidden, `, error="insufficient_scope", scope="`+strings.Join(needed, " ")+`"`)
	default:
		writeJSON(w, http.StatusOK, map[string]any{})
	}
}

func containsAll(all, wanted []string) bool {
	for _, one := range wanted {
		if !strings.Contains(" "+strings.Join(all, " ")+" ", " "+one+" ") {
			return false
		}
	}
	return true
}

// trap is a listener to which nothing may connect.
type trap struct {
	t        testing.TB
	listener net.Listener
	accepted chan struct{}
}

func newTrap(t testing.TB) *trap {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	p := &trap{t: t, listener: listener, accepted: make(chan struct{}, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
			p.accepted <- struct{}{}
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return p
}

func (p *trap) host() string { return p.listener.Addr().String() }

func (p *trap) port() string {
	_, port, _ := net.SplitHostPort(p.host())
	return port
}

// wantUntouched fails the test if anything connected. Connections are accepted in order, so after the test's
// own connection all earlier ones have been counted.
func (p *trap) wantUntouched() {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.host())
	check(p.t, err)
	_ = conn.Close()
	<-p.accepted
	if more := len(p.accepted); more > 0 {
		p.t.Errorf("%d forbidden connections", more)
	}
}
