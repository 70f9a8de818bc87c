package oauthclient_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/oauthclient"
)

// signedWith returns the Authorization header that a service sets.
func (w *world) signedWith(ctx context.Context, s *oauthclient.Service, address string) (string, oauthclient.Signed, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		return "", oauthclient.Signed{}, err
	}
	signed, err := s.Handler(w.target()).Sign(ctx, r)
	return r.Header.Get("Authorization"), signed, w.recordError(err)
}

// A token is sent to its resource only.
func TestWhereTokensGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustConnect()
	_, port, _ := strings.Cut(w.skill.host(), ":")
	for address, sent := range map[string]bool{
		"ORIGIN/mcp":                     true,
		"ORIGIN/mcp/":                    true,
		"ORIGIN/mcp/messages":            true,
		"ORIGIN/mcp?session=1":           true,
		"ORIGIN/mcp/with%20space":        true,
		"ORIGIN/mcp2":                    false,
		"ORIGIN/mc":                      false,
		"ORIGIN/MCP":                     false,
		"ORIGIN/":                        false,
		"ORIGIN":                         false,
		"ORIGIN//mcp":                    false,
		"ORIGIN/x/mcp":                   false,
		"ORIGIN/mcp/../admin":            false,
		"ORIGIN/mcp/..":                  false,
		"ORIGIN/mcp/./x":                 false,
		"ORIGIN/mcp//x":                  false,
		"ORIGIN/mcp/%2e%2e/admin":        false,
		"ORIGIN/mcp/%2E%2E/admin":        false,
		"ORIGIN/mcp/..%2fadmin":          false,
		"ORIGIN/mcp%2f..%2fadmin":        false,
		"ORIGIN/mcp/%2F/admin":           false,
		"ORIGIN/mcp/..%5cadmin":          false,
		"ORIGIN/mcp/..;/admin":           false,
		"ORIGIN/mcp/..;x=1/admin":        false,
		"ORIGIN/mcp;/../admin":           false,
		"ORIGIN/%6dcp":                   false,
		"http://127.0.0.1:1/mcp":         false,
		"http://127.0.0.1/mcp":           false,
		"http://localhost:PORT/mcp":      false,
		"http://[::1]:PORT/mcp":          false,
		"https://127.0.0.1:PORT/mcp":     false,
		"http://127.0.0.1.:PORT/mcp":     false,
		"http://127.0.0.1@evil.test/mcp": false,
		"http://evil.test/mcp":           false,
		"http://evil.test/ORIGIN/mcp":    false,
	} {
		address = strings.NewReplacer("ORIGIN", w.skill.URL, "PORT", port).Replace(address)
		header, _, err := w.signedWith(t.Context(), w.service, address)
		if err != nil || (header != "") != sent {
			t.Errorf("%s: a token was sent %t, want %t; error %v", address, header != "", sent, err)
		}
	}
}

// The case of a host and a default port do not change an origin.
func TestOriginsOfTokens(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for name, test := range map[string]struct {
		resource, address string
		sent              bool
	}{
		"case of the host":           {"https://MCP.example/mcp", "https://mcp.example/mcp", true},
		"case of the request's host": {"https://mcp.example/mcp", "https://MCP.EXAMPLE/mcp", true},
		"other port":                 {"https://mcp.example/mcp", "https://mcp.example:8443/mcp", false},
		"port 80 with https":         {"https://mcp.example/mcp", "https://mcp.example:80/mcp", false},
		"without TLS":                {"https://mcp.example/mcp", "http://mcp.example/mcp", false},
		"subdomain":                  {"https://mcp.example/mcp", "https://x.mcp.example/mcp", false},
		"longer name":                {"https://mcp.example/mcp", "https://mcp.example.evil.test/mcp", false},
		"resource of all":            {"https://mcp.example", "https://mcp.example/any/path", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t)
			w.skill.metadata = func(m map[string]any) { m["resource"] = test.resource }
			// The document is served where the test can serve it, and says its resource.
			w.url = strings.ToLower(test.resource)
			if w.url == "https://mcp.example" {
				w.url += "/mcp"
			}
			w.settings = oauthclient.Settings{Grant: "client_credentials", ClientID: "given", ClientSecret: "given-secret", TrustOrigin: true}
			w.as.clients["given"] = "given-secret"
			service := w.startService(t, func(c *oauthclient.Config) { c.TrustedHosts = append(c.TrustedHosts, w.skill.host()) })
			w.service = service
			check(t, w.challenge(http.StatusUnauthorized, `Bearer resource_metadata="`+w.skill.URL+resourceWellKnown+`/mcp"`))
			header, _, err := w.signedWith(t.Context(), service, test.address)
			if err != nil || (header != "") != test.sent {
				t.Errorf("a token was sent %t, want %t; error %v", header != "", test.sent, err)
			}
		})
	}
}

// Tokens are sent to the URL that they were requested for, not to another URL of the skill.
func TestSkillThatMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustConnect()
	other := newSkillServer(t, w.as)
	w.url, w.skill = other.URL+"/mcp", other
	w.revision++
	wantNeed(t, w.sendRequest().err, oauthclient.NeedAgain)
	for _, r := range other.requests("/mcp") {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token was sent to the new URL")
		}
	}
	w.mustConnect()
}

func TestParallelRenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustConnect()
	services := []*oauthclient.Service{w.service, w.startService(t)}
	for range 3 {
		for _, s := range services { // both cache the token that is about to expire
			_, _, err := w.signedWith(t.Context(), s, w.url)
			check(t, err)
		}
		w.as.forgetRequests()
		w.as.dropAccess()
		w.advanceClock(2 * time.Hour)
		const callers = 50
		type result struct {
			header string
			err    error
		}
		results, begin := make(chan result, callers), make(chan struct{})
		for i := range callers {
			go func() {
				<-begin
				header, _, err := w.signedWith(t.Context(), services[i%2], w.url)
				results <- result{header, err}
			}()
		}
		close(begin)
		seen := map[string]bool{}
		for range callers {
			r := <-results
			if r.err != nil || r.header == "" {
				t.Errorf("signed with %q, %v", r.header, r.err)
			}
			seen[r.header] = true
		}
		if n := len(w.as.tokenRequests("refresh_token")); n != 1 || len(seen) != 1 {
			t.Errorf("%d renewals, %d different tokens", n, len(seen))
		}
	}
	w.mustSend()
}

// A rotated refresh token is kept, whichever process used it.
func TestRotationIsStoredBeforeUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustConnect()
	before := w.loadConnection()
	w.skill.setAnswer("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		// The refresh token that got this access token cannot be used again.
		if _, ok := w.as.findToken(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); ok && !w.loadConnection().RefreshedAt.After(*before.RefreshedAt) {
			t.Error("a token was used before it was stored")
		}
		w.skill.mcp(rw, r)
	})
	for range 4 {
		w.advanceClock(2 * time.Hour)
		w.as.dropAccess()
		if a := w.sendWith(t.Context(), w.startService(t), w.url); a.err != nil || a.status != http.StatusOK {
			t.Fatalf("%+v", a)
		}
	}
	if n := len(w.as.tokenRequests("refresh_token")); n != 4 {
		t.Errorf("%d renewals", n)
	}
}

// The database is unavailable between the use of a refresh token and the storing of the new one.
func TestRotationSurvivesALostConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustConnect()
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	w.as.setAnswer("/token", func(rw http.ResponseWriter, r *http.Request) {
		tag, err := w.db.Pool().Exec(r.Context(), `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle in transaction'`)
		if err != nil || tag.RowsAffected() != 1 {
			t.Errorf("terminated %d, %v", tag.RowsAffected(), err)
		}
		w.as.token(rw, r)
	})
	w.mustSend()
	w.as.setAnswer("/token", nil)
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	w.mustSend() // with the stored refresh token
	if n := len(w.as.tokenRequests("refresh_token")); n != 2 {
		t.Errorf("%d renewals, want two", n)
	}
}

func TestCallersLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustConnect()
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	arrived, release := make(chan struct{}), make(chan struct{})
	w.as.setAnswer("/token", func(rw http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		w.as.token(rw, r)
	})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, _, err := w.signedWith(ctx, w.service, w.url)
		left <- err
	}()
	<-arrived
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	close(release)
	w.mustSend()
	if n := len(w.as.tokenRequests("refresh_token")); n != 1 {
		t.Errorf("%d renewals, want one", n)
	}
	ctx, leave = context.WithCancel(t.Context())
	leave()
	if _, _, err := w.signedWith(ctx, w.service, w.url); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("signing for a removed member: %v", err)
	}
	w.mustSend()
}

func TestRefusedRenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustConnect()
	w.as.change(func() { clear(w.as.refresh) })
	w.as.dropAccess()
	wantNeed(t, w.sendRequest().err, oauthclient.NeedAgain)
	wantNeed(t, w.handler().Ready(t.Context()), oauthclient.NeedAgain)
	w.advanceClock(time.Second * 3)
	wantNeed(t, w.sendRequest().err, oauthclient.NeedAgain)
	if n := len(w.as.tokenRequests("refresh_token")); n != 1 {
		t.Errorf("a refused refresh token was tried %d times", n)
	}
	w.mustConnect()
}

func TestEarlyRenewal(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	soon := func(t *testing.T) *world {
		w := b.newWorld(t)
		w.mustConnect()
		w.advanceClock(time.Hour - 30*time.Second)
		return w
	}
	t.Run("succeeds", func(t *testing.T) {
		w := soon(t)
		if a := w.sendRequest(); a.status != http.StatusOK || a.rounds != 1 {
			t.Errorf("%+v", a)
		}
		if n := len(w.as.tokenRequests("refresh_token")); n != 1 {
			t.Errorf("%d renewals", n)
		}
	})
	for name, answer := range map[string]http.HandlerFunc{
		"fails": answerStatus(http.StatusServiceUnavailable), "is refused for now": answerStatus(http.StatusTooManyRequests),
		"is refused for good": func(rw http.ResponseWriter, _ *http.Request) {
			writeJSON(rw, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := soon(t)
			w.as.setAnswer("/token", answer)
			for range 2 {
				if a := w.sendRequest(); a.status != http.StatusOK || a.rounds != 1 {
					t.Errorf("the old token is good: %+v", a)
				}
			}
			check(t, w.handler().Ready(t.Context()))
			w.advanceClock(time.Minute)
			w.as.dropAccess()
			w.as.setAnswer("/token", nil)
			if name == "is refused for good" {
				wantNeed(t, w.sendRequest().err, oauthclient.NeedAgain)
				return
			}
			w.mustSend()
		})
	}
	t.Run("not of what lives long enough", func(t *testing.T) {
		w := b.newWorld(t)
		w.mustConnect()
		w.advanceClock(time.Hour - 90*time.Second)
		w.mustSend()
		if n := len(w.as.tokenRequests("refresh_token")); n != 0 {
			t.Errorf("%d renewals", n)
		}
	})
	t.Run("token that does not say how long it is good", func(t *testing.T) {
		w := b.newWorld(t)
		w.as.life = 0
		w.mustConnect()
		w.advanceClock(1000 * time.Hour)
		w.mustSend()
		if n := len(w.as.tokenRequests("refresh_token")); n != 0 {
			t.Errorf("%d renewals", n)
		}
	})
}
