package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

const (
	// tokenType tells access tokens from other JWTs (RFC 9068 section 2.1).
	tokenType = "at+jwt"

	maxMCPRequest = 1 << 20
)

// Guard passes requests to an MCP server if they have a token that was issued for it.
type Guard struct {
	GuardConfig

	tokens *oidc.IDTokenVerifier

	mu   sync.Mutex
	last string // id of the last accepted token
}

// GuardConfig configures a [Guard]. All fields are required.
type GuardConfig struct {
	Name     string // of the server, for the terminal
	Resource string // its URL
	Issuer   string // its authorization server
	Scope    string // needed by each request
	Call     string // scope that calls of tools also need
	Next     http.Handler
	Now      func() time.Time
	Say      func(line string) // writes a line to the terminal
}

// NewGuard makes a guard.
func NewGuard(cfg GuardConfig) *Guard {
	return &Guard{GuardConfig: cfg, tokens: newVerifier(cfg.Issuer, jwksURL(cfg.Issuer), cfg.Resource, cfg.Now)}
}

// Mount adds the server, and the metadata that names its authorization server (RFC 9728) and the scope of requests. The
// scope of calls is asked for only when a call needs it.
func (g *Guard) Mount(mux *http.ServeMux) {
	metadata := auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: g.Resource, AuthorizationServers: []string{g.Issuer}, ScopesSupported: []string{g.Scope},
		BearerMethodsSupported: []string{"header"},
	})
	mux.HandleFunc("GET "+urlPath(g.metadataURL()), func(w http.ResponseWriter, r *http.Request) {
		g.sayf("named its authorization server: %s", g.Issuer)
		metadata.ServeHTTP(w, r)
	})
	mux.Handle(urlPath(g.Resource), g)
}

func (g *Guard) metadataURL() string {
	u, err := url.Parse(g.Resource)
	if err != nil {
		return ""
	}
	u.Path = "/.well-known/oauth-protected-resource" + u.Path
	return u.String()
}

func (g *Guard) sayf(format string, args ...any) {
	g.Say(fmt.Sprintf("%-8s ", g.Name) + fmt.Sprintf(format, args...))
}

// ServeHTTP implements [http.Handler].
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := r.Header.Get("Authorization")
	if header == "" {
		g.sayf("refused a request without a token (401), and named its metadata: %s", g.metadataURL())
		g.refuseRequest(w, http.StatusUnauthorized, "", g.Scope)
		return
	}
	id, scopes, err := g.verifyToken(r.Context(), header)
	if err != nil {
		g.sayf("refused a request (401): %s", err)
		g.refuseRequest(w, http.StatusUnauthorized, "invalid_token", g.Scope)
		return
	}
	isCall, err := isToolCall(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	kind, needed := "a request", []string{g.Scope}
	if isCall {
		kind, needed = "a call", append(needed, g.Call)
	}
	for _, scope := range needed {
		if !slices.Contains(scopes, scope) {
			g.sayf("refused %s (403): its token lacks the scope %s", kind, scope)
			g.refuseRequest(w, http.StatusForbidden, "insufficient_scope", strings.Join(needed, " "))
			return
		}
	}
	g.mu.Lock()
	isNew := g.last != id
	g.last = id
	g.mu.Unlock()
	if isNew {
		g.sayf("accepted %s: its token is valid", kind)
	}
	g.Next.ServeHTTP(w, r)
}

// refuseRequest answers with a challenge (RFC 6750 section 3, RFC 9728 section 5.1).
func (g *Guard) refuseRequest(w http.ResponseWriter, status int, code, scope string) {
	challenge := fmt.Sprintf(`Bearer resource_metadata=%q, scope=%q`, g.metadataURL(), scope)
	if code != "" {
		challenge += fmt.Sprintf(`, error=%q`, code)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, http.StatusText(status), status)
}

// verifyToken returns a token's id and scopes. Errors do not quote the token.
func (g *Guard) verifyToken(ctx context.Context, header string) (id string, scopes []string, err error) {
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil, errors.New("its credential is not a bearer token")
	}
	token, err := g.tokens.Verify(ctx, text)
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired {
		return "", nil, errors.New("its token has expired")
	}
	if err != nil || !isAccessToken(text) {
		return "", nil, errors.New("its token is not valid for this server")
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return "", nil, errors.New("its token is not valid for this server")
	}
	return c.ID, strings.Fields(c.Scope), nil
}

// isAccessToken reports whether a JWT says that it is an access token, and no other kind by the same issuer.
func isAccessToken(text string) bool {
	parsed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256})
	return err == nil && len(parsed.Signatures) == 1 && parsed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType] == tokenType
}

// isToolCall reports whether a request calls a tool. It reads the body as the MCP server will, and restores it.
func isToolCall(w http.ResponseWriter, r *http.Request) (bool, error) {
	if r.Method != http.MethodPost {
		return false, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMCPRequest))
	if err != nil {
		return false, fmt.Errorf("read the request: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	message, err := jsonrpc.DecodeMessage(body)
	if err != nil || !json.Valid(body) { // the decoder ignores text after a message
		return false, errors.New("the body must be one JSON-RPC message")
	}
	request, ok := message.(*jsonrpc.Request)
	return ok && request.Method == "tools/call", nil
}
