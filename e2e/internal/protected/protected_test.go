package protected_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/e2e/internal/authserver"
	"github.com/holdpoint/holdpoint/e2e/internal/protected"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

const other = "http://127.0.0.1:9/other"

// start starts an authorization server with a client and a server that trusts it.
func start(t *testing.T, c protected.Config) (*authserver.Server, *protected.Server) {
	t.Helper()
	a := authserver.Start(t, authserver.Config{
		Clients:   []authserver.Client{{ID: "machine", Secret: "a-secret"}},
		Resources: map[string][]string{other: {"tools"}},
	})
	c.Issuer = a.Issuer
	s := protected.Start(t, c)
	a.AddResource(t, s.URL, "tools", "tools:write")
	return a, s
}

func TestCallsWithATokenForIt(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"with sessions": false, "stateless": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, s := start(t, protected.Config{Stateless: stateless})
			narrow, wide := token(t, a, s.URL, "tools"), token(t, a, s.URL, "tools tools:write")

			if said, err := call(t, s.URL, narrow, "record", 1); err != nil || said != "recorded 1 of machine" {
				t.Errorf("record: %q, %v", said, err)
			}
			if _, err := call(t, s.URL, narrow, "write", 2); err == nil || s.Answered(http.StatusForbidden) != 1 {
				t.Errorf("write without its scope: %v, %d times 403", err, s.Answered(http.StatusForbidden))
			}
			if _, err := call(t, s.URL, wide, "write", 3); err != nil {
				t.Errorf("write: %v", err)
			}

			if s.Calls("record") != 1 || s.Calls("write") != 1 || s.Count("1") != 1 || s.Count("2") != 0 || s.Count("3") != 1 {
				t.Errorf("%d records, %d writes, ledger %v", s.Calls("record"), s.Calls("write"), s.All())
			}
			if s.Subject("1") != "machine" || s.Token("1") != narrow || s.Token("3") != wide || s.Scope("3") != "tools tools:write" {
				t.Error("a call is not noted as its caller's")
			}
			if !slices.Equal(s.Tokens(), []string{narrow, wide}) ||
				!slices.Equal(s.Authorizations(), []string{"Bearer " + narrow, "Bearer " + wide}) {
				t.Errorf("tokens %v, authorizations %v", s.Tokens(), s.Authorizations())
			}
		})
	}
}

func TestRefusesTokensThatAreNotForIt(t *testing.T) {
	t.Parallel()
	a, s := start(t, protected.Config{})
	good := token(t, a, s.URL, "tools")
	stranger := authserver.Start(t, authserver.Config{
		Clients:   []authserver.Client{{ID: "machine", Secret: "a-secret"}},
		Resources: map[string][]string{s.URL: {"tools"}},
	})
	a.SetAccessTokenSeconds(t, 1)
	short := token(t, a, s.URL, "tools")
	eventually.Succeeds(t, time.Minute, "a token expires", func() error {
		if status, _ := ask(t, http.MethodPost, s.URL, short, initialize); status != http.StatusUnauthorized {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	a.SetAccessTokenSeconds(t, 60)

	header, payload, _ := strings.Cut(good, ".")
	for name, bad := range map[string]string{
		"for another":     token(t, a, other, "tools"),
		"of another":      token(t, stranger, s.URL, "tools"),
		"without a scope": "", // the challenge without a token
		"not a token":     "rubbish",
		"signed wrongly":  header + "." + payload[:len(payload)-8] + "AAAAAAAA",
	} {
		status, answer := ask(t, http.MethodPost, s.URL, bad, initialize)
		want := fmt.Sprintf(`Bearer error="invalid_token", resource_metadata=%q, scope="tools"`, metadataURL(s))
		if bad == "" {
			want = fmt.Sprintf(`Bearer resource_metadata=%q, scope="tools"`, metadataURL(s))
		}
		if got := answer.Get("WWW-Authenticate"); status != http.StatusUnauthorized || got != want {
			t.Errorf("a token %s: %d, challenge %s, want %s", name, status, got, want)
		}
	}
	status, answer := ask(t, http.MethodPost, s.URL, token(t, a, s.URL, "tools:write"), initialize)
	want := fmt.Sprintf(`Bearer error="insufficient_scope", resource_metadata=%q, scope="tools"`, metadataURL(s))
	if got := answer.Get("WWW-Authenticate"); status != http.StatusForbidden || got != want {
		t.Errorf("without the scope: %d, challenge %s, want %s", status, got, want)
	}

	if status, _ := ask(t, http.MethodPost, s.URL, good, initialize); status != http.StatusOK {
		t.Errorf("a good token is answered %d", status)
	}
	s.Refuse(a.Secrets()...)
	if status, _ := ask(t, http.MethodPost, s.URL, good, initialize); status != http.StatusUnauthorized {
		t.Errorf("a revoked token is answered %d", status)
	}
	if status, _ := ask(t, http.MethodPost, s.URL, token(t, a, s.URL, "tools"), initialize); status != http.StatusOK {
		t.Errorf("a token issued after the revocation is answered %d", status)
	}
	if s.Calls("record") != 0 || len(s.All()) != 0 {
		t.Error("a refused call was executed")
	}
	if !slices.Contains(s.Authorizations(), "Bearer rubbish") || slices.Contains(s.Tokens(), "rubbish") {
		t.Error("what was refused is not noted as it came")
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	s := protected.Start(t, protected.Config{Issuer: "http://127.0.0.1:9"})
	origin := strings.TrimSuffix(s.URL, "/mcp")
	atRoot := origin + "/.well-known/oauth-protected-resource"

	status, document := metadata(t, metadataURL(s))
	if status != http.StatusOK || document.Resource != s.URL || !slices.Equal(document.AuthorizationServers, []string{"http://127.0.0.1:9"}) ||
		!slices.Equal(document.Scopes, []string{"tools", "tools:write"}) {
		t.Errorf("metadata: %d %+v", status, document)
	}
	if status, _ := metadata(t, atRoot); status != http.StatusNotFound {
		t.Errorf("metadata at the root: %d", status)
	}

	s.Behave(protected.Behaviour{MetadataAtRoot: true, Resource: "http://evil", AuthorizationServers: []string{}})
	if status, document := metadata(t, atRoot); status != http.StatusOK || document.Resource != "http://evil" || len(document.AuthorizationServers) != 0 {
		t.Errorf("metadata that lie: %d %+v", status, document)
	}
	s.Behave(protected.Behaviour{Document: func(d map[string]any) { d["resource"] = "http://late" }})
	if _, document := metadata(t, metadataURL(s)); document.Resource != "http://late" {
		t.Errorf("metadata that were changed: %+v", document)
	}
	s.Behave(protected.Behaviour{NoMetadata: true})
	if status, _ := metadata(t, metadataURL(s)); status != http.StatusNotFound {
		t.Errorf("metadata that are nowhere: %d", status)
	}

	for want, b := range map[string]protected.Behaviour{
		"Bearer": {NoMetadataURL: true, NoScope: true},
		`Bearer resource_metadata="http://evil/m", scope="tools"`: {MetadataURL: "http://evil/m"},
		`Bearer scope="tools"`: {NoMetadataURL: true},
	} {
		s.Behave(b)
		if status, answer := ask(t, http.MethodPost, s.URL, "", initialize); status != http.StatusUnauthorized || answer.Get("WWW-Authenticate") != want {
			t.Errorf("challenge %d %s, want %s", status, answer.Get("WWW-Authenticate"), want)
		}
	}

	s.Behave(protected.Behaviour{MetadataRedirect: "http://evil/m", EndpointRedirect: "http://evil/e"})
	if status, answer := ask(t, http.MethodGet, metadataURL(s), "", ""); status != http.StatusFound || answer.Get("Location") != "http://evil/m" {
		t.Errorf("metadata elsewhere: %d %s", status, answer.Get("Location"))
	}
	if status, answer := ask(t, http.MethodPost, s.URL, "a", initialize); status != http.StatusTemporaryRedirect ||
		answer.Get("Location") != "http://evil/e" || s.Answered(http.StatusTemporaryRedirect) != 1 {
		t.Errorf("endpoint elsewhere: %d %s", status, answer.Get("Location"))
	}
}

func TestHeldCallsAreInFlight(t *testing.T) {
	t.Parallel()
	a, s := start(t, protected.Config{Tools: []protected.Tool{{Name: "slow"}}})
	s.Hold()
	done := make(chan error, 1)
	good := token(t, a, s.URL, "tools")
	go func() {
		_, err := call(t, s.URL, good, "slow", 1)
		done <- err
	}()
	eventually.Succeeds(t, time.Minute, "the call arrives", func() error {
		if s.Count("1") != 1 {
			return fmt.Errorf("ledger %v", s.All())
		}
		return nil
	})
	if len(done) != 0 {
		t.Error("a held call was answered")
	}
	s.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

func metadataURL(s *protected.Server) string {
	return strings.TrimSuffix(s.URL, "/mcp") + "/.well-known/oauth-protected-resource/mcp"
}

// bearer is a transport that adds a token to each request.
type bearer struct {
	token string
	base  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.base.RoundTrip(r)
}

// call makes one call over its own connection. Goroutines may use it.
func call(t *testing.T, endpoint, token, tool string, n int) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: &http.Client{Transport: bearer{token, transport}}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return "", err
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]int{"n": n}})
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

// token gets a token by client credentials.
func token(t *testing.T, a *authserver.Server, resource, scope string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}, "scope": {scope}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.Issuer+"/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth("machine", "a-secret")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.AccessToken == "" {
		t.Fatalf("no token: %s, %v", response.Status, err)
	}
	return answer.AccessToken
}

var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ask sends a raw request, with a token unless it is empty.
func ask(t *testing.T, method, address, token, body string) (int, http.Header) {
	t.Helper()
	response := do(t, method, address, token, body)
	response.Body.Close()
	return response.StatusCode, response.Header
}

type document struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported"`
}

func metadata(t *testing.T, address string) (int, document) {
	t.Helper()
	response := do(t, http.MethodGet, address, "", "")
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
	}
	return response.StatusCode, d
}

func do(t *testing.T, method, address, token, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}
