package oauthclient_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/oauthclient"
)

// TestRenewalAsksForWhatWasAskedFor: a renewal without a challenge uses the scopes and the metadata URL of the last challenge,
// also in a process that did not get it.
func TestRenewalAsksForWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const place = "/only/the/challenge/names/it"
	metadata := w.skill.fallback["/.well-known/oauth-protected-resource/mcp"]
	if metadata == nil {
		t.Fatal("the skill has no metadata")
	}
	w.skill.setAnswer("/.well-known/oauth-protected-resource/mcp", http.NotFound)
	w.skill.setAnswer(place, metadata)
	w.skill.metadata = func(m map[string]any) { m["scopes_supported"] = []string{"read", "write", "admin"} }
	said := `Bearer scope="read", resource_metadata="` + strings.TrimSuffix(w.url, "/mcp") + place + `"`
	w.skill.change(func() { w.skill.challenge = func(string) []string { return []string{said} } })
	w.configureClient(oauthclient.Settings{Grant: "client_credentials", ClientSecret: "given-secret"})
	w.mustSend()
	w.service = w.startService(t)
	w.advanceClock(2 * time.Hour) // the token is renewed before the request
	w.as.dropAccess()
	w.mustSend()
	requests := w.as.requests("/token")
	if len(requests) != 2 {
		t.Fatalf("%d token requests, want 2", len(requests))
	}
	for _, r := range requests {
		if got := r.Form.Get("scope"); got != "read" {
			t.Errorf("requested the scopes %q, want those of the challenge", got)
		}
	}
}

// TestRenewalWithoutItsClient: if the client of the tokens no longer exists, a person has to connect again, and no other client
// presents the tokens.
func TestRenewalWithoutItsClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustConnect()
	_, err := w.db.Pool().Exec(t.Context(), `DELETE FROM oauth_clients`)
	check(t, err)
	before := len(w.as.requests("/token"))
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	wantNeed(t, w.sendRequest().err, oauthclient.NeedAgain)
	if n := len(w.as.requests("/token")) - before; n != 0 {
		t.Errorf("%d token requests without the client", n)
	}
	check(t, w.connect())
	w.mustSend()
}
