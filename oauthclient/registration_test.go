package oauthclient_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/oauthclient"
)

// The ways to get a client, in order.
func TestOrderOfRegistration(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for name, test := range map[string]struct {
		settings  oauthclient.Settings
		documents bool // the server supports Client ID Metadata Documents
		noDynamic bool
		publicURL string
		want      string // client id; empty: none
		registers int
	}{
		"given":                           {oauthclient.Settings{ClientID: "given"}, true, false, "", "given", 0},
		"document":                        {oauthclient.Settings{}, true, false, "", "https://holdpoint.test/oauth/client-metadata.json", 0},
		"document, below a path":          {oauthclient.Settings{}, true, false, "https://holdpoint.test/x/", "https://holdpoint.test/x/oauth/client-metadata.json", 0},
		"document, but nobody reaches it": {oauthclient.Settings{}, true, false, "http://127.0.0.1:8080", "client-1", 1},
		"dynamic":                         {oauthclient.Settings{}, false, false, "", "client-1", 1},
		"none":                            {oauthclient.Settings{}, false, true, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t, func(c *oauthclient.Config) {
				if test.publicURL != "" {
					c.PublicURL = test.publicURL
				}
			})
			w.settings = test.settings
			w.as.clients["given"], w.as.clients[test.want] = "", ""
			w.as.set("client_id_metadata_document_supported", test.documents)
			if test.noDynamic {
				w.as.set("registration_endpoint", nil)
			}
			u, err := w.beginConnection()
			if test.want == "" {
				needs := wantNeed(t, err, oauthclient.NeedClient)
				if !strings.Contains(needs.Reason, "https://holdpoint.test/oauth/callback") {
					t.Errorf("reason %q does not say the redirect URI", needs.Reason)
				}
				return
			}
			check(t, err)
			if got := u.Query().Get("client_id"); got != test.want {
				t.Errorf("client id %q, want %q", got, test.want)
			}
			if n := len(w.as.requests("/register")); n != test.registers {
				t.Errorf("%d registrations, want %d", n, test.registers)
			}
			check(t, w.receiveCallback(w.as.giveConsent(t, u)))
		})
	}
}

func TestRegistrationRequest(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for publicURL, kind := range map[string]string{
		"https://holdpoint.test": "web", "http://127.0.0.1:8080": "native", "http://localhost:8080": "native", "http://[::1]:8080": "native",
	} {
		w := b.newWorld(t, func(c *oauthclient.Config) { c.PublicURL = publicURL })
		_, err := w.beginConnection()
		check(t, err)
		var asked map[string]any
		check(t, json.Unmarshal([]byte(w.as.requests("/register")[0].Body), &asked))
		uris, _ := asked["redirect_uris"].([]any)
		if len(uris) != 1 || uris[0] != publicURL+"/oauth/callback" || asked["application_type"] != kind {
			t.Errorf("%s: redirect_uris %v, application_type %v", publicURL, uris, asked["application_type"])
		}
		if asked["client_name"] == "" || asked["grant_types"] == nil || asked["response_types"] == nil {
			t.Errorf("incomplete: %v", asked)
		}
	}
}

func TestRegistrationIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.as.secret = "registered-secret"
	w.mustConnect()
	// Another process and another skill use the same client.
	w.service = w.startService(t)
	w.key.SkillID[0]++
	w.mustConnect()
	if n := len(w.as.requests("/register")); n != 1 {
		t.Errorf("%d registrations, want one", n)
	}
	for _, r := range w.as.requests("/token") {
		if r.Header.Get("Authorization") == "" {
			t.Errorf("a token request without the client's secret: %v", r.Form)
		}
	}
	// Another redirect URI gets another client.
	w.service = w.startService(t, func(c *oauthclient.Config) { c.PublicURL = "https://elsewhere.test" })
	_, err := w.beginConnection()
	check(t, err)
	if n := len(w.as.requests("/register")); n != 2 {
		t.Errorf("%d registrations, want two", n)
	}
}

func TestRegistrationAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	services := []*oauthclient.Service{w.service, w.startService(t), w.startService(t)}
	errs := make(chan error, 15)
	for i := range cap(errs) {
		go func() {
			_, err := services[i%3].Begin(t.Context(), w.alice, w.key, "")
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := len(w.as.requests("/register")); n != 1 {
		t.Errorf("%d registrations, want one", n)
	}
}

func TestExpiredClientSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.as.secret = "registered-secret"
	w.as.register = map[string]any{"client_secret_expires_at": time.Now().Add(time.Hour).Unix()}
	w.mustConnect()
	w.advanceClock(59*time.Minute - 30*time.Second)
	_, err := w.beginConnection()
	check(t, err)
	if n := len(w.as.requests("/register")); n != 1 {
		t.Errorf("%d registrations before the secret expires", n)
	}
	w.advanceClock(time.Minute)
	w.as.register = map[string]any{"client_secret_expires_at": time.Now().Add(5 * time.Hour).Unix()}
	check(t, w.connect())
	if n := len(w.as.requests("/register")); n != 2 {
		t.Errorf("%d registrations after it expired, want two", n)
	}
}

// The registration response is checked.
func TestAnswersOfRegistration(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	for name, test := range map[string]struct {
		answer map[string]any
		gist   string
	}{
		"no id":            {map[string]any{"client_secret": "x"}, "no usable client id"},
		"id with controls": {map[string]any{"client_id": "a\nb"}, "no usable client id"},
		"id too long":      {map[string]any{"client_id": string(make([]byte, 5000))}, "no usable client id"},
		"refused in a 200": {map[string]any{"error": "invalid_redirect_uri"}, "no usable client id"},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.newWorld(t)
			w.as.setAnswer("/register", answerDocument(test.answer))
			_, err := w.beginConnection()
			wantError(t, err, "client registration", test.gist)
		})
	}
	t.Run("refused", func(t *testing.T) {
		w := b.newWorld(t)
		w.as.setAnswer("/register", func(rw http.ResponseWriter, _ *http.Request) {
			writeJSON(rw, http.StatusBadRequest, map[string]any{"error": "invalid_redirect_uri", "error_description": "not\u202eyou"})
		})
		_, err := w.beginConnection()
		wantError(t, err, "HTTP 400", `invalid_redirect_uri (not\u202eyou)`)
	})
}

func TestForgottenClient(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"renewal", "code"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			forget := func() { w.as.change(func() { clear(w.as.clients) }) }
			if when == "renewal" {
				w.mustConnect()
				forget()
				w.advanceClock(2 * time.Hour)
				w.as.dropAccess()
				wantNeed(t, w.sendRequest().err, oauthclient.NeedAgain)
			} else {
				u, err := w.beginConnection()
				check(t, err)
				forget()
				wantError(t, w.receiveCallback(w.as.giveConsent(t, u)), "invalid_client")
			}
			w.mustConnect()
			if n := len(w.as.requests("/register")); n != 2 {
				t.Errorf("%d registrations, want two", n)
			}
		})
	}
}

// The secret of a configured client is not sent to another authorization server that the skill's server names
// later.
func TestGivenClientStaysWithItsIssuer(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	evil := newAuthServer(t, b.known)
	w := b.newWorld(t, func(c *oauthclient.Config) { c.TrustedHosts = append(c.TrustedHosts, evil.host()) })
	w.settings = oauthclient.Settings{ClientID: "given", ClientSecret: b.known.add("client secret", "given-secret")}
	w.as.clients["given"], evil.clients["given"] = "given-secret", "given-secret"
	w.mustConnect()

	w.skill.change(func() {
		w.skill.metadata = func(m map[string]any) { m["authorization_servers"] = []string{evil.issuer()} }
	})
	w.as.dropAccess()
	needs := wantNeed(t, w.sendRequest().err, oauthclient.NeedSettings)
	for _, part := range []string{evil.issuer(), w.as.issuer(), "oauth.issuer"} {
		if !strings.Contains(needs.Reason, part) {
			t.Errorf("reason %q does not say %q", needs.Reason, part)
		}
	}
	_, err := w.beginConnection()
	wantNeed(t, err, oauthclient.NeedSettings)
	check(t, w.service.Disconnect(t.Context(), w.alice, w.key)) // this does not release the client
	_, err = w.beginConnection()
	wantNeed(t, err, oauthclient.NeedSettings)
	if n := len(evil.requests("/token")); n > 0 {
		t.Errorf("the other authorization server was sent %d token requests", n)
	}

	w.settings.Issuer = evil.issuer()
	w.revision++
	u, err := w.beginConnection()
	check(t, err)
	check(t, w.receiveCallback(evil.giveConsent(t, u)))
	if n := len(evil.tokenRequests("authorization_code")); n != 1 {
		t.Errorf("%d token requests at the configured issuer", n)
	}
}

// A dynamically registered client belongs to its authorization server too.
func TestAnotherIssuerRegistersAnew(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	other := newAuthServer(t, b.known)
	w := b.newWorld(t, func(c *oauthclient.Config) { c.TrustedHosts = append(c.TrustedHosts, other.host()) })
	w.as.secret = "registered-secret"
	w.mustConnect()
	w.skill.change(func() {
		w.skill.metadata = func(m map[string]any) { m["authorization_servers"] = []string{other.issuer()} }
	})
	w.as.dropAccess()
	wantNeed(t, w.sendRequest().err, oauthclient.NeedAgain)
	u, err := w.beginConnection()
	check(t, err)
	check(t, w.receiveCallback(other.giveConsent(t, u)))
	if n := len(other.requests("/register")); n != 1 {
		t.Errorf("%d registrations, want one", n)
	}
	for _, r := range other.requests("/token") {
		if r.Header.Get("Authorization") != "" || r.Form.Get("refresh_token") != "" {
			t.Errorf("the client of another issuer was sent: %v %v", r.Header, r.Form)
		}
	}
}

// The documents that Holdpoint publishes.
func TestClientMetadataDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := http.NewServeMux()
	w.service.Mount(mux)
	get := func(path string) map[string]any {
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		var m map[string]any
		check(t, json.Unmarshal(recorder.Body.Bytes(), &m))
		return m
	}
	m := get(oauthclient.MetadataPath)
	if m["client_id"] != "https://holdpoint.test"+oauthclient.MetadataPath || m["token_endpoint_auth_method"] != "none" || m["client_secret"] != nil {
		t.Errorf("metadata: %v", m)
	}
	keys, _ := get(oauthclient.KeysPath)["keys"].([]any)
	if len(keys) != 1 {
		t.Fatalf("keys: %v", keys)
	}
	key := keys[0].(map[string]any)
	if key["kid"] == "" || key["alg"] != "ES256" || key["d"] != nil {
		t.Errorf("key: %v", key)
	}
}
