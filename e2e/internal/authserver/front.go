package authserver

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Request is a recorded request with the status of its response.
type Request struct {
	Method string
	Path   string // below the issuer: "/token"
	Query  url.Values
	Form   url.Values // of a form body
	Body   []byte
	Header http.Header
	Status int // 0: not answered, or not yet
}

// GrantType returns the grant type of a request to the token endpoint.
func (r Request) GrantType() string { return r.Form.Get("grant_type") }

// front serves the address of the issuer. It forwards requests to the provider, unless a fault prevents this, and records requests
// and responses.
type front struct {
	path   string
	proxy  *httputil.ReverseProxy
	faults faults

	mu       sync.Mutex
	requests []*Request
	secrets  map[string]bool
	metadata func(map[string]any)
	asked    func(url.Values)
	hidden   map[string]bool // paths on the host that answer 404
}

// keptKey is the key of a request's *Request in its context.
type keptKey struct{}

// newFront is the front at an address of the provider at another.
func newFront(c Config, address, provider string) *front {
	f := &front{path: c.Path, secrets: map[string]bool{}, hidden: map[string]bool{}}
	f.keepSecret(c.InitialAccessToken)
	for _, client := range c.Clients {
		f.keepSecret(client.Secret)
	}
	f.proxy = &httputil.ReverseProxy{
		Transport: &http.Transport{},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: provider})
			r.Out.Host = address // the provider builds its URLs from it
		},
		ModifyResponse: f.changeResponse,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	return f
}

func (f *front) close() {
	if transport, ok := f.proxy.Transport.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
}

// ServeHTTP implements [http.Handler].
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.isHidden(r.URL.Path) {
		http.NotFound(w, r)
		return
	}
	f.resolveWellKnown(r)
	f.rewriteAsked(r)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		return // the client has disconnected
	}
	kept := f.recordRequest(r, body)
	r = r.WithContext(withKept(r.Context(), kept))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if kept.Path == "/token" && f.faults.interceptRequest(w, r, f) {
		return
	}
	f.proxy.ServeHTTP(w, r)
}

// resolveWellKnown leads the well-known addresses of an issuer with a path to the
// provider's own, which are below the path.
func (f *front) resolveWellKnown(r *http.Request) {
	for _, name := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
		if f.path != "" && r.URL.Path == name+f.path {
			r.URL.Path = f.path + name
		}
	}
}

func (f *front) recordRequest(r *http.Request, body []byte) *Request {
	kept := &Request{
		Method: r.Method, Path: strings.TrimPrefix(r.URL.Path, f.path), Query: r.URL.Query(),
		Body: body, Header: r.Header.Clone(), Form: url.Values{},
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "application/x-www-form-urlencoded" {
		if form, err := url.ParseQuery(string(body)); err == nil {
			kept.Form = form
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, kept)
	return kept
}

// changeResponse records a response of the provider before the client gets it.
func (f *front) changeResponse(response *http.Response) error {
	kept := keptOf(response.Request.Context())
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	f.countStatus(kept, response.StatusCode)
	f.keepSecrets(response, body)
	if strings.Contains(kept.Path, "/.well-known/") {
		body = f.rewriteMetadata(body)
	}
	_ = response.Body.Close() // it was read
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if response.Header.Get("Content-Length") != "" {
		response.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if kept.Path == "/token" && response.StatusCode == http.StatusOK {
		f.faults.holdResponse(response.Request.Context())
	}
	return nil
}

func (f *front) countStatus(kept *Request, status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept.Status = status
}

// keepSecrets keeps the secrets of an answer.
func (f *front) keepSecrets(response *http.Response, body []byte) {
	if location, err := url.Parse(response.Header.Get("Location")); err == nil {
		f.keepSecret(location.Query().Get("code"))
	}
	var answer struct {
		AccessToken             string `json:"access_token"`
		RefreshToken            string `json:"refresh_token"`
		IDToken                 string `json:"id_token"`
		ClientSecret            string `json:"client_secret"`
		RegistrationAccessToken string `json:"registration_access_token"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return // no JSON, so none of ours
	}
	for _, secret := range []string{
		answer.AccessToken, answer.RefreshToken, answer.IDToken, answer.ClientSecret, answer.RegistrationAccessToken,
	} {
		f.keepSecret(secret)
	}
}

func (f *front) keepSecret(secret string) {
	if secret == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secrets[secret] = true
}

func (f *front) rewriteMetadata(body []byte) []byte {
	f.mu.Lock()
	rewrite := f.metadata
	f.mu.Unlock()
	document := map[string]any{}
	if rewrite == nil || json.Unmarshal(body, &document) != nil {
		return body
	}
	rewrite(document)
	changed, err := json.Marshal(document)
	if err != nil {
		return body // it came from JSON
	}
	return changed
}

// rewriteAsked changes an authorization request on its way.
func (f *front) rewriteAsked(r *http.Request) {
	f.mu.Lock()
	rewrite := f.asked
	f.mu.Unlock()
	if rewrite == nil || r.URL.Path != f.path+"/auth" {
		return
	}
	query := r.URL.Query()
	rewrite(query)
	r.URL.RawQuery = query.Encode()
}

func (f *front) isHidden(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hidden[path]
}

// Requests are all that came so far, in their order.
func (s *Server) Requests() []Request {
	s.front.mu.Lock()
	defer s.front.mu.Unlock()
	requests := make([]Request, len(s.front.requests))
	for i, r := range s.front.requests {
		requests[i] = *r
	}
	return requests
}

// RequestsTo are those to a path below the issuer, such as "/token", "/auth", "/reg".
func (s *Server) RequestsTo(path string) []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return r.Path != path })
}

// Asked is how many token requests of a grant type came; of any when it is empty.
func (s *Server) Asked(grantType string) int { return len(s.tokenRequests(grantType)) }

// Granted is how many of them were answered with tokens.
func (s *Server) Granted(grantType string) int {
	return len(slices.DeleteFunc(s.tokenRequests(grantType), func(r Request) bool { return r.Status != http.StatusOK }))
}

func (s *Server) tokenRequests(grantType string) []Request {
	return slices.DeleteFunc(s.RequestsTo("/token"), func(r Request) bool {
		return grantType != "" && r.GrantType() != grantType
	})
}

// Secrets are all that were ever given to clients or are theirs: tokens of every kind,
// authorization codes and client secrets.
func (s *Server) Secrets() []string {
	s.front.mu.Lock()
	defer s.front.mu.Unlock()
	secrets := make([]string, 0, len(s.front.secrets))
	for secret := range s.front.secrets {
		secrets = append(secrets, secret)
	}
	slices.Sort(secrets)
	return secrets
}

// RewriteMetadata changes the discovery document from now on. Nil: unchanged.
func (s *Server) RewriteMetadata(rewrite func(document map[string]any)) {
	s.front.mu.Lock()
	defer s.front.mu.Unlock()
	s.front.metadata = rewrite
}

// RewriteAuthorization changes authorization requests from now on, as an attacker between browser and server could. Nil: unchanged.
func (s *Server) RewriteAuthorization(rewrite func(query url.Values)) {
	s.front.mu.Lock()
	defer s.front.mu.Unlock()
	s.front.asked = rewrite
}

// Hide makes paths of the host answer 404, such as "/.well-known/oauth-authorization-server".
func (s *Server) Hide(paths ...string) {
	s.front.mu.Lock()
	defer s.front.mu.Unlock()
	for _, path := range paths {
		s.front.hidden[path] = true
	}
}
