package oauthclient_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/oauthclient"
)

// place is a field in which a hostile server can name a URL. lead makes the servers name that URL; go takes the steps up to
// the one that would use it, and returns the first error.
type place struct {
	name string
	lead func(w *world, address string)
	walk func(w *world) error
}

func listPlaces() []place {
	discover := func(w *world) error { return w.sendRequest().err }
	connect := func(w *world) error { return w.connect() }
	metadata := func(name string) func(w *world, address string) {
		return func(w *world, address string) { w.as.set(name, address) }
	}
	return []place{
		{"resource_metadata", func(w *world, address string) {
			w.skill.challenge = func(string) []string { return []string{`Bearer resource_metadata="` + address + `"`} }
		}, discover},
		{"authorization_servers", func(w *world, address string) {
			w.skill.metadata = func(m map[string]any) { m["authorization_servers"] = []string{address} }
		}, discover},
		{"authorization_endpoint", metadata("authorization_endpoint"), connect},
		{"token_endpoint", metadata("token_endpoint"), connect},
		{"registration_endpoint", metadata("registration_endpoint"), connect},
		{"revocation_endpoint", metadata("revocation_endpoint"), discover},
		{"redirect of the challenge's document", func(w *world, address string) {
			w.skill.setAnswer(resourceWellKnown+"/mcp", redirectTo(address))
		}, discover},
		{"redirect of a well-known document", func(w *world, address string) {
			w.skill.challenge = func(string) []string { return []string{"Bearer"} }
			w.skill.setAnswer(resourceWellKnown+"/mcp", redirectTo(address))
		}, discover},
		{"redirect of the authorization server's metadata", func(w *world, address string) {
			w.as.setAnswer("/.well-known/oauth-authorization-server", redirectTo(address))
		}, discover},
	}
}

// hostileURLs are URLs by their fault. HOST and PORT are those of a trap.
func hostileURLs() map[string]struct{ address, gist string } {
	return map[string]struct{ address, gist string }{
		"loopback":                         {"https://HOST/x", "private addresses are not allowed"},
		"loopback by http":                 {"http://HOST/x", "is not https"},
		"loopback as IPv4-mapped":          {"https://[::ffff:127.0.0.1]:PORT/x", "private addresses are not allowed"},
		"all interfaces":                   {"https://0.0.0.0:PORT/x", "private addresses are not allowed"},
		"loopback in IPv6":                 {"https://[::1]:PORT/x", "private addresses are not allowed"},
		"10/8":                             {"https://10.1.2.3/x", "private addresses are not allowed"},
		"192.168/16":                       {"https://192.168.0.1/x", "private addresses are not allowed"},
		"fc00::/7":                         {"https://[fd12:3456::1]/x", "private addresses are not allowed"},
		"link-local":                       {"https://169.254.7.7/x", "never dialled"},
		"link-local in IPv6":               {"https://[fe80::1%25lo]:PORT/x", "never dialled"},
		"metadata of clouds":               {"https://169.254.169.254/latest/meta-data/", "never dialled"},
		"metadata of clouds, trusted":      {"http://169.254.169.254/latest/meta-data/", "never dialled"},
		"metadata of clouds, mapped":       {"https://[::ffff:169.254.169.254]/x", "never dialled"},
		"metadata of clouds, mapped, hex":  {"https://[::ffff:a9fe:a9fe]/x", "never dialled"},
		"http on a public address":         {"http://192.0.2.1.example/x", "is not https"},
		"javascript":                       {"javascript:alert(1)//x", "not an https URL"},
		"data":                             {"data:application/json,{}", "not an https URL"},
		"file":                             {"file:///etc/passwd", "not an https URL"},
		"file on a host":                   {"file://HOST/etc/passwd", "not an https URL"},
		"ftp":                              {"ftp://HOST/x", "not an https URL"},
		"without a host":                   {"https:///x", "not an https URL"},
		"with user and password":           {"https://user:pass@HOST/x", "user name"},
		"with a user to look like another": {"https://good.example@HOST/x", "user name"},
	}
}

func TestHostileURLs(t *testing.T) {
	t.Parallel()
	for _, place := range listPlaces() {
		t.Run(place.name, func(t *testing.T) {
			t.Parallel()
			b := newBase(t)
			for name, bad := range hostileURLs() {
				t.Run(name, func(t *testing.T) {
					trap := newTrap(t)
					w := b.newWorld(t, func(c *oauthclient.Config) { c.TrustedHosts = append(c.TrustedHosts, "169.254.169.254") })
					place.lead(w, strings.NewReplacer("HOST", trap.host(), "PORT", trap.port()).Replace(bad.address))
					err := place.walk(w)
					wantError(t, err, bad.gist)
					trap.wantUntouched()
					if n := len(w.as.requests("/token")); n > 0 {
						t.Errorf("%d token requests", n)
					}
				})
			}
		})
	}
}

// Names are checked by their addresses when they are dialed. Package outbound tests names whose addresses
// change.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	for _, place := range listPlaces() {
		if place.name == "authorization_endpoint" || place.name == "revocation_endpoint" {
			continue // the browser uses the first one; Holdpoint does not use the second
		}
		t.Run(place.name, func(t *testing.T) {
			t.Parallel()
			trap, w := newTrap(t), newWorld(t)
			place.lead(w, "https://localhost:"+trap.port()+"/x")
			wantError(t, place.walk(w), "localhost", "private addresses are not allowed")
			trap.wantUntouched()
		})
	}
}

// The skill's own host is trusted with the port in its URL, or the default port.
func TestOtherPortsOfTheSkillsHost(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"http://127.0.0.1/mcp", "https://127.0.0.1/mcp", "https://localhost/mcp"} {
		trap, w := newTrap(t), newWorld(t)
		w.url = address
		own := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(address, "http://"), "https://"), "/mcp")
		err := w.challenge(http.StatusUnauthorized, `Bearer resource_metadata="https://`+own+":"+trap.port()+`/x"`)
		wantError(t, err, "private addresses are not allowed")
		trap.wantUntouched()
	}
}

// Tokens for a skill with an https URL are not requested over http.
func TestOwnHostIsNotDowngraded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.url = "https://" + w.skill.host() + "/mcp"
	err := w.challenge(http.StatusUnauthorized, `Bearer resource_metadata="`+w.skill.URL+resourceWellKnown+`/mcp"`)
	wantError(t, err, "is not https")
	if paths := w.skill.paths(); len(paths) > 0 {
		t.Errorf("asked without TLS: %v", paths)
	}
}

// If a skill's host was public at its registration, no request goes to a private address of that host: neither for
// metadata nor, after that was read, for a token.
func TestHostThatTurnedPrivate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.url = strings.Replace(w.skill.URL, "127.0.0.1", "LocalHost", 1) + "/mcp"
	wantError(t, w.challenge(http.StatusUnauthorized, "Bearer"), "is about the resource") // it was read
	asked := len(w.skill.paths())
	w.public, w.revision = []string{"localhost"}, 2
	w.service = w.startService(t)
	wantError(t, w.challenge(http.StatusUnauthorized, "Bearer"), "private addresses are not allowed")
	if paths := w.skill.paths(); len(paths) != asked {
		t.Errorf("asked at a private address: %v", paths)
	}
}

type hostileAnswer struct {
	answer http.HandlerFunc
	gist   string
}

// limit makes a service wait long enough for any answer on a busy machine.
func (a hostileAnswer) limit(c *oauthclient.Config) {
	c.Timeout = time.Minute
	if a.gist == "no answer in time" {
		c.Timeout = 2 * time.Second
	}
}

// hostileAnswers are answers by their fault.
func hostileAnswers() map[string]hostileAnswer {
	text := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, body)
		}
	}
	return map[string]hostileAnswer{
		"endless body": {answerEndless, "larger than"},
		"slow body": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"a":`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "no answer in time"},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer in time"},
		"huge header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 1<<20))
		}, "header"},
		"deep JSON":           {text("application/json", strings.Repeat("[", 100_000)), "not JSON of the expected form"},
		"deep object":         {text("application/json", strings.Repeat(`{"a":`, 40_000)), "not JSON of the expected form"},
		"not JSON":            {text("application/json", "hello"), "not JSON of the expected form"},
		"wrong types":         {text("application/json", `{"resource":[1],"issuer":{},"client_id":[1]}`), "not JSON of the expected form"},
		"cut off":             {text("application/json", `{"resource":"`), "not JSON of the expected form"},
		"nothing":             {text("application/json", ""), "not JSON of the expected form"},
		"list":                {text("application/json", "[]"), "not JSON of the expected form"},
		"redirect loop":       {func(w http.ResponseWriter, r *http.Request) { redirectTo("http://"+r.Host+r.URL.Path)(w, r) }, "more than 5 redirects"},
		"redirect to nowhere": {answerStatus(http.StatusFound), "without a place to go"},
		"server error":        {answerStatus(http.StatusBadGateway), "HTTP 502"},
		"too many requests":   {answerStatus(http.StatusTooManyRequests), "HTTP 429"},
		"connection cut": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.Close()
		}, "EOF"},
	}
}

func answerEndless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	block := []byte(`{"a":"` + strings.Repeat("x", 64<<10))
	for r.Context().Err() == nil {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	documents := map[string]func(w *world, answer http.HandlerFunc){
		"challenge's document": func(w *world, answer http.HandlerFunc) { w.skill.setAnswer(resourceWellKnown+"/mcp", answer) },
		"authorization server": func(w *world, answer http.HandlerFunc) {
			w.as.setAnswer("/.well-known/oauth-authorization-server", answer)
		},
		"registration endpoint": func(w *world, answer http.HandlerFunc) { w.as.setAnswer("/register", answer) },
	}
	for where, put := range documents {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			b := newBase(t)
			for name, bad := range hostileAnswers() {
				t.Run(name, func(t *testing.T) {
					w := b.newWorld(t, bad.limit)
					put(w, bad.answer)
					err := w.connect()
					gist := bad.gist
					if where == "registration endpoint" && strings.HasPrefix(gist, "more than") {
						gist = "HTTP 307"
					}
					if where == "registration endpoint" && strings.HasPrefix(gist, "without") {
						gist = "HTTP 302"
					}
					wantError(t, err, gist)
				})
			}
		})
	}
}

// A web page instead of a document is an error if a challenge named the document; elsewhere there is no document.
func TestPageInsteadOfDocument(t *testing.T) {
	t.Parallel()
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>")
	}
	w := newWorld(t)
	w.skill.setAnswer(resourceWellKnown+"/mcp", page)
	wantError(t, w.sendRequest().err, "text/html", "not application/json")

	w = newWorld(t)
	w.as.setAnswer("/.well-known/oauth-authorization-server", page)
	wantError(t, w.sendRequest().err, "no metadata")
}

func TestHostileTokenEndpoint(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	gists := map[string]string{
		"redirect loop": "follow no redirect", "redirect to nowhere": "HTTP 302", "server error": "HTTP 502",
		"too many requests": "HTTP 429", "no answer": "no answer in time", "slow body": "ended early or was too slow",
		"connection cut": "EOF", "huge header": "header",
	}
	for name, bad := range hostileAnswers() {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t, bad.limit)
			w.as.setAnswer("/token", bad.answer)
			gist := gists[name]
			if gist == "" {
				gist = "not a token response in JSON"
			}
			wantError(t, w.connect(), "token", gist)
		})
	}
	tokens := map[string]struct {
		answer map[string]any
		gist   string
	}{
		"none":             {map[string]any{"token_type": "Bearer"}, "not a token response"},
		"with a line end":  {map[string]any{"access_token": "a\r\nX-Evil: 1", "token_type": "Bearer"}, "characters that no header can hold"},
		"with a space":     {map[string]any{"access_token": "a b", "token_type": "Bearer"}, "characters that no header can hold"},
		"too large":        {map[string]any{"access_token": strings.Repeat("a", 65<<10), "token_type": "Bearer"}, "more than"},
		"of unknown type":  {map[string]any{"access_token": "abc", "token_type": "mac"}, `type "mac"`},
		"bound, not asked": {map[string]any{"access_token": "abc", "token_type": "DPoP"}, `type "DPoP"`},
		"error in a 200":   {map[string]any{"error": "invalid_scope", "error_description": "no\u202eway"}, `invalid_scope (no\u202eway)`},
	}
	for name, bad := range tokens {
		t.Run("token "+name, func(t *testing.T) {
			w := b.newWorld(t)
			w.as.setAnswer("/token", answerDocument(bad.answer))
			wantError(t, w.connect(), bad.gist)
		})
	}
}

// A server's error may quote the secrets that it was sent. They are removed.
func TestEchoedSecrets(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	t.Run("token endpoint, code", func(t *testing.T) {
		w := b.newWorld(t)
		w.as.setAnswer("/token", func(rw http.ResponseWriter, r *http.Request) {
			w.known.add("code_verifier", r.Form.Get("code_verifier"))
			writeJSON(rw, http.StatusBadRequest, map[string]any{
				"error": "invalid_grant", "error_description": "unknown code " + r.Form.Get("code") + " with " + r.Form.Get("code_verifier"),
			})
		})
		wantError(t, w.connect(), "invalid_grant", "unknown code")
	})
	t.Run("token endpoint, refresh", func(t *testing.T) {
		w := b.newWorld(t)
		w.mustConnect()
		w.advanceClock(2 * time.Hour)
		w.as.dropAccess()
		w.as.setAnswer("/token", func(rw http.ResponseWriter, r *http.Request) {
			writeJSON(rw, http.StatusBadRequest, map[string]any{"error": "temporarily_unavailable " + r.Form.Get("refresh_token")})
		})
		wantError(t, w.sendRequest().err, "temporarily_unavailable")
	})
	t.Run("token endpoint, client secret", func(t *testing.T) {
		w := b.newWorld(t)
		w.settings.ClientID, w.settings.ClientSecret = "given", w.known.add("client secret", "s3cret/of the+client")
		w.as.setAnswer("/token", func(rw http.ResponseWriter, r *http.Request) {
			writeJSON(rw, http.StatusUnauthorized, map[string]any{
				"error": "invalid_client", "error_description": "bad secret s3cret/of the+client in " + r.Header.Get("Authorization"),
			})
		})
		wantError(t, w.connect(), "invalid_client")
	})
	t.Run("skill server", func(t *testing.T) {
		w := b.newWorld(t)
		w.mustConnect()
		w.as.set("token_endpoint", nil)
		w.skill.setAnswer("/mcp", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", error_description="bad `+r.Header.Get("Authorization")+
				`", scope="`+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+`"`)
			rw.WriteHeader(http.StatusUnauthorized)
		})
		w.as.setAnswer("/token", answerDocument(map[string]any{"error": "invalid_grant"}))
		w.as.set("token_endpoint", w.as.URL+"/token")
		wantNeed(t, w.sendRequest().err, oauthclient.NeedAgain)
	})
	t.Run("skill server that refuses all tokens", func(t *testing.T) {
		w := b.newWorld(t)
		w.mustConnect()
		w.skill.setAnswer("/mcp", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", error_description="bad `+r.Header.Get("Authorization")+`"`)
			rw.WriteHeader(http.StatusUnauthorized)
		})
		if a := w.sendRequest(); a.status != http.StatusUnauthorized || a.rounds != oauthclient.MaxRounds {
			t.Errorf("%+v", a)
		}
		if c := w.loadConnection(); !strings.Contains(c.Error, "refuses the tokens") {
			t.Errorf("stored error %q", c.Error)
		}
	})
}

// The browser's URL comes from the authorization server, or from anyone.
func TestHostileAuthorizationErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u, err := w.beginConnection()
	check(t, err)
	answer := w.as.giveConsent(t, u)
	answer.Del("code")
	answer.Set("error", "access_denied")
	answer.Set("error_description", strings.Repeat("no\x00\u200b", 1000))
	err = w.receiveCallback(answer)
	wantError(t, err, "access_denied", `no\x00\u200b`)
	if len(err.Error()) > 2000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	if err := w.receiveCallback(answer); !errors.Is(err, oauthclient.ErrFlow) {
		t.Errorf("the same again: %v", err)
	}
}
