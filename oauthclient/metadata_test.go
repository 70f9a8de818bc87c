package oauthclient_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/oauthclient"
)

// The places of resource metadata, in order.
func TestPlacesOfResourceMetadata(t *testing.T) {
	t.Parallel()
	const path, root = resourceWellKnown + "/mcp", resourceWellKnown
	tests := map[string]struct {
		challenged string // path of the document in the challenge; empty: none
		there      string // where the document is
		asked      []string
	}{
		"challenge":           {"/elsewhere", "/elsewhere", []string{"/elsewhere"}},
		"path":                {"", path, []string{path}},
		"root":                {"", root, []string{path, root}},
		"challenge, not path": {"/elsewhere", path, []string{"/elsewhere"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.skill.setAnswer(path, http.NotFound)
			w.skill.setAnswer(test.there, w.skill.describe)
			w.skill.challenge = func(string) []string {
				if test.challenged == "" {
					return []string{"Bearer"}
				}
				return []string{`Bearer resource_metadata="` + w.skill.URL + test.challenged + `"`}
			}
			err := w.sendRequest().err
			if test.challenged != "" && test.challenged != test.there {
				wantError(t, err, "HTTP 404", test.challenged)
			} else {
				wantNeed(t, err, oauthclient.NeedConsent)
			}
			if got := w.skill.paths(); !slices.Equal(got, test.asked) {
				t.Errorf("asked for %v, want %v", got, test.asked)
			}
		})
	}
}

// A document may be about the skill's URL or, if the operator trusts the origin, about a URL above it.
func TestResourceOfMetadata(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for name, test := range map[string]struct {
		resource string // ORIGIN is the skill's
		ok       bool
		origin   bool // only if the operator trusts the origin
	}{
		"itself":           {"ORIGIN/mcp", true, false},
		"slash after it":   {"ORIGIN/mcp/", true, false},
		"origin":           {"ORIGIN", true, true},
		"origin and slash": {"ORIGIN/", true, true},
		"below":            {"ORIGIN/mcp/x", false, false},
		"beside":           {"ORIGIN/mcp2", false, false},
		"prefix":           {"ORIGIN/mc", false, false},
		"other host":       {"https://other.example/mcp", false, false},
		"other port":       {"http://127.0.0.1:1/mcp", false, false},
		"other scheme":     {"SECURE/mcp", false, false},
		"nothing":          {"", false, false},
		"relative":         {"/mcp", false, false},
		"with a fragment":  {"ORIGIN#x", false, false},
		"with a query":     {"ORIGIN?x", false, false},
		"with a user":      {"USER/mcp", false, false},
		"upper-case path":  {"ORIGIN/MCP", false, false},
		"encoded path":     {"ORIGIN/%6dcp", false, false},
		"not a URL":        {"::::", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t)
			resource := strings.NewReplacer("ORIGIN", w.skill.URL, "SECURE", "https://"+w.skill.host(), "USER", "http://u:p@"+w.skill.host()).Replace(test.resource)
			w.skill.metadata = func(m map[string]any) { m["resource"] = resource }
			if test.origin {
				wantError(t, w.sendRequest().err, `"`+w.url+`"`, `"`+resource+`"`, "oauth.trust_origin")
				w = b.newWorld(t)
				w.settings.TrustOrigin = true
				resource = strings.Replace(test.resource, "ORIGIN", w.skill.URL, 1)
				w.skill.metadata = func(m map[string]any) { m["resource"] = resource }
			}
			err := w.sendRequest().err
			if !test.ok {
				wantError(t, err, `"`+w.url+`"`, `"`+resource+`"`)
				return
			}
			wantNeed(t, err, oauthclient.NeedConsent)
			u, err := w.beginConnection()
			check(t, err)
			if got := u.Query().Get("resource"); got != resource {
				t.Errorf("asked for %q, want the identifier of the document %q", got, resource)
			}
			check(t, w.receiveCallback(w.as.giveConsent(t, u)))
			w.mustSend()
		})
	}
}

func TestIssuerOfMetadata(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for name, test := range map[string]struct {
		path, issuer string // issuer in the metadata; ISSUER is the correct one
		ok           bool
	}{
		"right":           {"", "ISSUER", true},
		"slash after it":  {"", "ISSUER/", true},
		"other":           {"", "https://other.example", false},
		"below":           {"", "ISSUER/tenant", false},
		"nothing":         {"", "", false},
		"other case":      {"/tenant", "ISSUER-UPPER", false},
		"path":            {"/tenant", "ISSUER", true},
		"path and slash":  {"/tenant", "ISSUER/", false},
		"path of another": {"/tenant", "ORIGIN/tenant2", false},
		"path left out":   {"/tenant", "ORIGIN", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t)
			w.as.path = test.path
			issuer := strings.NewReplacer("ISSUER-UPPER", strings.ToUpper(w.as.issuer()), "ISSUER", w.as.issuer(), "ORIGIN", w.as.URL).Replace(test.issuer)
			w.as.setAnswer("/.well-known/oauth-authorization-server"+test.path, w.as.describe)
			w.as.set("issuer", issuer)
			err := w.sendRequest().err
			if !test.ok {
				wantError(t, err, `"`+issuer+`"`, `"`+w.as.issuer()+`"`)
				return
			}
			wantNeed(t, err, oauthclient.NeedConsent)
		})
	}
}

// The places of authorization server metadata, in order.
func TestPlacesOfServerMetadata(t *testing.T) {
	t.Parallel()
	places := map[string][]string{
		"":     {"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"},
		"/a/b": {"/.well-known/oauth-authorization-server/a/b", "/.well-known/openid-configuration/a/b", "/a/b/.well-known/openid-configuration"},
	}
	b := newBase(t)
	for path, all := range places {
		for i, place := range all {
			t.Run(place, func(t *testing.T) {
				w := b.newWorld(t)
				w.as.path = path
				w.as.setAnswer("/.well-known/oauth-authorization-server", http.NotFound)
				w.as.setAnswer(place, w.as.describe)
				wantNeed(t, w.sendRequest().err, oauthclient.NeedConsent)
				if got := w.as.paths(); !slices.Equal(got, all[:i+1]) {
					t.Errorf("asked for %v, want %v", got, all[:i+1])
				}
			})
		}
		t.Run("nowhere"+path, func(t *testing.T) {
			w := b.newWorld(t)
			w.as.path = path
			w.as.setAnswer("/.well-known/oauth-authorization-server", http.NotFound)
			wantError(t, w.sendRequest().err, "has no metadata", w.as.issuer())
			if got := w.as.paths(); !slices.Equal(got, all) {
				t.Errorf("asked for %v, want %v", got, all)
			}
		})
	}
}

func TestUnusableServerMetadata(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for name, test := range map[string]struct {
		field string
		value any
		gist  string
	}{
		"PKCE not mentioned":        {"code_challenge_methods_supported", nil, "PKCE"},
		"PKCE empty":                {"code_challenge_methods_supported", []string{}, "PKCE"},
		"PKCE plain only":           {"code_challenge_methods_supported", []string{"plain"}, "S256"},
		"PKCE in lower case":        {"code_challenge_methods_supported", []string{"s256"}, "S256"},
		"no token endpoint":         {"token_endpoint", nil, "token_endpoint"},
		"no authorization endpoint": {"authorization_endpoint", nil, "authorization_endpoint"},
		"long endpoint":             {"token_endpoint", "https://x.example/" + strings.Repeat("x", 5000), "longer than"},
		"endpoint with a fragment":  {"authorization_endpoint", "https://x.example/#x", "fragment"},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t)
			w.as.set(test.field, test.value)
			wantError(t, w.sendRequest().err, test.gist)
			_, err := w.beginConnection()
			wantError(t, err, test.gist)
		})
	}
	t.Run("no authorization server", func(t *testing.T) {
		w := b.newWorld(t)
		w.skill.metadata = func(m map[string]any) { delete(m, "authorization_servers") }
		wantError(t, w.sendRequest().err, "names no authorization server")
	})
}

func TestSeveralAuthorizationServers(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	other := newAuthServer(t, b.known)
	w := b.newWorld(t, func(c *oauthclient.Config) { c.TrustedHosts = append(c.TrustedHosts, other.host()) })
	w.skill.metadata = func(m map[string]any) { m["authorization_servers"] = []string{other.issuer(), w.as.issuer()} }
	wantNeed(t, w.sendRequest().err, oauthclient.NeedIssuer)
	if c := w.loadConnection(); !slices.Equal(c.Issuers, []string{other.issuer(), w.as.issuer()}) {
		t.Errorf("to choose from: %v", c.Issuers)
	}
	_, err := w.beginConnection()
	wantNeed(t, err, oauthclient.NeedIssuer)
	if _, err = w.beginAs(w.alice, "https://elsewhere.example"); err == nil || !strings.Contains(err.Error(), "is not one that the skill's server names") {
		t.Errorf("choosing an issuer that is not offered: %v", err)
	}
	u, err := w.beginAs(w.alice, w.as.issuer())
	check(t, err)
	check(t, w.receiveCallback(w.as.giveConsent(t, u)))
	w.mustSend()
	if c := w.loadConnection(); c.Issuer != w.as.issuer() {
		t.Errorf("connected at %s", c.Issuer)
	}
	// The choice is kept when the token is renewed.
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	w.mustSend()
	if n := len(w.as.tokenRequests("refresh_token")); n != 1 {
		t.Errorf("%d renewals", n)
	}
	if n := len(other.requests("/token")); n != 0 {
		t.Errorf("the other was sent %d token requests", n)
	}
	// The settings name one of the issuers, or another one.
	w.settings.Issuer = "https://elsewhere.example"
	w.revision++
	w.as.dropAccess()
	wantError(t, w.sendRequest().err, "is not one that the skill's server names", "https://elsewhere.example")
}

// The issuer in the authorization response (RFC 9207).
func TestIssuerInAnswer(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for name, test := range map[string]struct {
		promised bool
		iss      func(right string) []string
		gist     string // empty: the response is accepted
	}{
		"right":                   {true, func(right string) []string { return []string{right} }, ""},
		"wrong":                   {true, func(string) []string { return []string{"https://evil.example"} }, `not "https://evil.example"`},
		"missing though promised": {true, func(string) []string { return nil }, "lacks the parameter iss"},
		"empty though promised":   {true, func(string) []string { return []string{""} }, `not ""`},
		"right, not promised":     {false, func(string) []string { return []string{"AS"} }, ""},
		"wrong, not promised":     {false, func(string) []string { return []string{"https://evil.example"} }, `not "https://evil.example"`},
		"missing, not promised":   {false, func(string) []string { return nil }, ""},
		"with a slash after it":   {true, func(right string) []string { return []string{right + "/"} }, `not "`},
		"in upper case":           {true, func(right string) []string { return []string{strings.ToUpper(right)} }, `not "`},
		"twice, the second wrong": {true, func(right string) []string { return []string{right, "https://evil.example"} }, "twice"},
		"of the resource":         {true, func(right string) []string { return []string{right + "/mcp"} }, `not "`},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t)
			w.as.set("authorization_response_iss_parameter_supported", test.promised)
			w.as.iss = func(right string) []string {
				list := test.iss(right)
				for i := range list {
					list[i] = strings.ReplaceAll(list[i], "AS", w.as.issuer())
				}
				return list
			}
			if name == "in upper case" {
				w.as.iss = test.iss
			}
			err := w.connect()
			if test.gist == "" {
				check(t, err)
				w.mustSend()
				return
			}
			wantError(t, err, test.gist)
			if n := len(w.as.requests("/token")); n > 0 {
				t.Errorf("the code was sent %d times", n)
			}
		})
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	foreign := func(t *testing.T, err error) {
		t.Helper()
		if !errors.Is(err, oauthclient.ErrFlow) {
			t.Fatalf("got %v, want ErrFlow", err)
		}
	}
	start := func(t *testing.T) (*world, url.Values) {
		w := b.newWorld(t)
		u, err := w.beginConnection()
		check(t, err)
		return w, w.as.giveConsent(t, u)
	}
	t.Run("unknown", func(t *testing.T) {
		w, answer := start(t)
		for _, state := range []string{"", "x", strings.Repeat("x", 5000), answer.Get("state") + "x", answer.Get("state")[1:]} {
			foreign(t, w.receiveCallback(url.Values{"code": answer["code"], "iss": answer["iss"], "state": {state}}))
		}
		foreign(t, w.receiveCallback(url.Values{"code": answer["code"], "iss": answer["iss"]}))
		if n := len(w.as.requests("/token")); n > 0 {
			t.Errorf("the code was sent %d times", n)
		}
		check(t, w.receiveCallback(answer))
	})
	t.Run("replayed", func(t *testing.T) {
		w, answer := start(t)
		check(t, w.receiveCallback(answer))
		foreign(t, w.receiveCallback(answer))
		if n := len(w.as.requests("/token")); n != 1 {
			t.Errorf("the code was sent %d times", n)
		}
	})
	t.Run("at once, in two processes", func(t *testing.T) {
		w, answer := start(t)
		other := w.startService(t)
		results := make(chan error, 20)
		for i := range cap(results) {
			s := []*oauthclient.Service{w.service, other}[i%2]
			go func() {
				_, err := s.Callback(t.Context(), w.alice, answer)
				results <- err
			}()
		}
		good := 0
		for range cap(results) {
			if err := <-results; err == nil {
				good++
			} else {
				foreign(t, err)
			}
		}
		if n := len(w.as.requests("/token")); good != 1 || n != 1 {
			t.Errorf("%d succeeded, the code was sent %d times", good, n)
		}
	})
	t.Run("expired", func(t *testing.T) {
		w, answer := start(t)
		w.advanceClock(15*time.Minute + time.Second)
		foreign(t, w.receiveCallback(answer))
	})
	t.Run("another person's", func(t *testing.T) {
		w, answer := start(t)
		for _, by := range []uuid.UUID{w.bob, uuid.New(), uuid.Nil} {
			_, err := w.service.Callback(t.Context(), by, answer)
			foreign(t, err)
		}
		check(t, w.receiveCallback(answer)) // the flow is still valid for its person
	})
	t.Run("twice in the answer", func(t *testing.T) {
		w, answer := start(t)
		answer.Add("state", "x")
		wantError(t, w.receiveCallback(answer), "twice")
	})
	t.Run("neither code nor error", func(t *testing.T) {
		w, answer := start(t)
		answer.Del("code")
		wantError(t, w.receiveCallback(answer), "neither a code nor an error")
	})
}
