package oauthclient_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/oauthclient"
)

func TestStepUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.skill.metadata = func(m map[string]any) { m["scopes_supported"] = []string{"read"} }
	w.mustConnect()
	old, signed, err := w.signedWith(t.Context(), w.service, w.url)
	check(t, err)

	w.skill.change(func() { w.skill.scopes = []string{"write"} })
	a := w.sendRequest()
	needs := wantNeed(t, a.err, oauthclient.NeedScope)
	if a.status != http.StatusForbidden || !slices.Contains(needs.Scopes, "write") {
		t.Errorf("status %d, scopes %v", a.status, needs.Scopes)
	}
	wantNeed(t, w.handler().Ready(t.Context()), oauthclient.NeedScope)
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	wantNeed(t, w.sendRequest().err, oauthclient.NeedScope) // a renewal does not grant scopes
	u, err := w.beginConnection()
	check(t, err)
	asked := strings.Fields(u.Query().Get("scope"))
	if !slices.Contains(asked, "read") || !slices.Contains(asked, "write") || len(asked) != 2 {
		t.Errorf("asked for %v, want the union", asked)
	}
	check(t, w.receiveCallback(w.as.giveConsent(t, u)))
	w.mustSend()

	// A refusal of the previous token is no reason to ask again.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, nil)
	check(t, err)
	r.Header.Set("Authorization", old)
	again, err := w.handler().Answered(t.Context(), r, "tools/list", http.StatusForbidden,
		http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="write"`}}, signed)
	if err != nil || !again {
		t.Errorf("the answer to an older token: again %t, %v", again, err)
	}
	check(t, w.handler().Ready(t.Context()))

	// A server that refuses the scopes that it granted causes an error, not endless consent.
	w.skill.setAnswer("/mcp", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`)
		rw.WriteHeader(http.StatusForbidden)
	})
	for range 2 {
		wantError(t, w.sendRequest().err, "asked for before", "write")
	}
	if c := w.loadConnection(); c.Need != oauthclient.NeedNothing {
		t.Errorf("need %q", c.Need)
	}
}

// Without a person, a step-up requests the scopes at once.
func TestStepUpOfClientCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settings = oauthclient.Settings{Grant: "client_credentials", ClientID: "given", ClientSecret: "given-secret"}
	w.as.clients["given"] = "given-secret"
	w.skill.metadata = func(m map[string]any) { m["scopes_supported"] = []string{"read"} }
	w.mustSend()
	w.skill.change(func() { w.skill.scopes = []string{"write"} })
	w.mustSend()
	w.skill.change(func() { w.skill.scopes = []string{"read", "write"} })
	w.mustSend()
	requests := w.as.tokenRequests("client_credentials")
	if len(requests) != 2 || requests[0].Form.Get("scope") != "read" || requests[1].Form.Get("scope") != "read write" {
		t.Errorf("token requests: %v", requests)
	}
	w.skill.setAnswer("/mcp", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`)
		rw.WriteHeader(http.StatusForbidden)
	})
	wantError(t, w.sendRequest().err, "asked for before")
	if n := len(w.as.tokenRequests("client_credentials")); n != 2 {
		t.Errorf("%d token requests", n)
	}
}

// The scopes in the settings are the most that is requested without a person.
func TestStepUpBeyondSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configureClient(oauthclient.Settings{Grant: "client_credentials", ClientSecret: "given-secret", Scopes: []string{"read"}})
	w.mustSend()
	w.skill.change(func() { w.skill.scopes = []string{"write"} })
	wantError(t, w.sendRequest().err, "write", "oauth.scopes does not have")
	for _, r := range w.as.requests("/token") {
		if r.Form.Get("scope") != "read" {
			t.Errorf("asked for %q", r.Form.Get("scope"))
		}
	}
}

// Other 403 responses are final.
func TestForbiddenWithoutScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustConnect()
	w.skill.setAnswer("/mcp", answerStatus(http.StatusForbidden))
	if a := w.sendRequest(); a.err != nil || a.status != http.StatusForbidden || a.rounds != 1 {
		t.Errorf("%+v", a)
	}
}

// Each person has their own tokens.
func TestPerUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.perUser = true
	_, err := w.service.Begin(t.Context(), w.alice, w.key, "")
	wantError(t, err, "each person")
	wantError(t, w.sendRequest().err, "on no person's behalf")
	check(t, w.connect())
	w.key.Principal = w.bob
	wantNeed(t, w.sendRequest().err, oauthclient.NeedConsent)
	w.key.Principal = w.alice
	w.mustSend()
	for _, r := range w.skill.requests("/mcp")[:2] {
		if r.Header.Get("Authorization") != "" {
			t.Error("another person's token was sent")
		}
	}
}
