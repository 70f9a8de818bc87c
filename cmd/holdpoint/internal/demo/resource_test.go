package demo_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func TestGuardSaysWhereToGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status, challenge := send(t, w.drive, "", listRequest)
	metadata := w.url + "/.well-known/oauth-protected-resource/drive/mcp"
	if want := `Bearer resource_metadata="` + metadata + `", scope="drive.read"`; status != http.StatusUnauthorized || challenge != want {
		t.Errorf("HTTP %d, challenge %s", status, challenge)
	}
	var metadataOf struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	document(t, metadata, &metadataOf)
	if metadataOf.Resource != w.drive || !slices.Equal(metadataOf.Servers, []string{w.issuer}) || !slices.Equal(metadataOf.Scopes, []string{readScope}) {
		t.Errorf("metadata %+v", metadataOf)
	}
	if inside := w.entered(); len(inside) > 0 {
		t.Errorf("let in: %q", inside)
	}
}

func TestGuardLetsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	read, both := "Bearer "+w.token(t, w.drive, readScope), "bearer "+w.token(t, w.drive, bothScopes)
	for _, test := range []struct{ name, token, body string }{
		{"a request", read, listRequest}, {"with more than it needs", both, listRequest}, {"a call", both, callRequest},
	} {
		if status, challenge := send(t, w.drive, test.token, test.body); status != http.StatusOK || challenge != "" {
			t.Errorf("%s: HTTP %d, %s", test.name, status, challenge)
		}
		if inside := w.entered(); len(inside) != 1 || !strings.HasSuffix(inside[0], test.body) {
			t.Errorf("%s: the server got %q", test.name, inside)
		}
	}
	if status, challenge := send(t, w.drive, read, callRequest); status != http.StatusForbidden ||
		!strings.Contains(challenge, `error="insufficient_scope"`) || !strings.Contains(challenge, `scope="drive.read drive.write"`) {
		t.Errorf("a call without the scope of calls: HTTP %d, %s", status, challenge)
	}
	// A body that is not a single message could hide a call from the guard.
	for _, body := range []string{"[" + callRequest + "]", listRequest + callRequest, strings.Replace(callRequest, `"id"`, `"METHOD":"tools/list","id"`, 1)} {
		if status, _ := send(t, w.drive, read, body); status < 400 {
			t.Errorf("%s: HTTP %d", body, status)
		}
	}
	if inside := w.entered(); len(inside) > 0 {
		t.Errorf("let in: %q", inside)
	}
	said := w.said()
	if strings.Count(said, "accepted a request") != 2 || strings.Count(said, "drive    refused a call (403): its token lacks the scope drive.write") != 2 {
		t.Errorf("the terminal shows\n%s", said)
	}
}

func TestGuardRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good, other := w.token(t, w.drive, bothScopes), w.token(t, w.other, readScope)
	stranger := newKey(t, "stranger's")
	forged := func(key jose.JSONWebKey, typ, name string, value any) string {
		claims := map[string]any{
			"iss": w.issuer, "sub": clientID, "aud": w.drive, "client_id": clientID, "scope": bothScopes, "jti": "forged",
			"iat": w.clock().Unix(), "exp": w.clock().Add(time.Minute).Unix(),
		}
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
		return "Bearer " + signed(t, key, typ, claims)
	}
	head, signature := good[:strings.LastIndex(good, ".")], other[strings.LastIndex(other, "."):]
	const notForIt = "its token is not valid for this server"
	refused := func(name, authorization, reason string) {
		t.Helper()
		before := len(w.said())
		status, challenge := send(t, w.drive, authorization, callRequest)
		if status != http.StatusUnauthorized || !strings.Contains(challenge, `error="invalid_token"`) || !strings.Contains(challenge, "resource_metadata=") {
			t.Errorf("%s: HTTP %d, %s", name, status, challenge)
		}
		if said := w.said()[before:]; !strings.Contains(said, "drive    refused a request (401): "+reason) {
			t.Errorf("%s: the terminal shows %q", name, said)
		}
		if inside := w.entered(); len(inside) > 0 {
			t.Errorf("%s: let in", name)
		}
	}
	refused("issued for another server", "Bearer "+other, notForIt)
	refused("signed by a stranger", forged(stranger, "at+jwt", "jti", "1"), notForIt)
	stranger.KeyID = w.issuerKey.KeyID
	refused("signed by a stranger in the issuer's name", forged(stranger, "at+jwt", "jti", "2"), notForIt)
	refused("of another issuer", forged(w.issuerKey, "at+jwt", "iss", "https://elsewhere.example"), notForIt)
	refused("no access token", forged(w.issuerKey, "JWT", "jti", "3"), notForIt)
	refused("good for ever", forged(w.issuerKey, "at+jwt", "exp", nil), "its token has expired")
	refused("another token's signature", "Bearer "+head+signature, notForIt)
	refused("no JWT", "Bearer nonsense", notForIt)
	refused("another scheme", "Basic aG9sZHBvaW50OnNlY3JldA==", "its credential is not a bearer token")
	for _, token := range []string{"Bearer " + good, forged(w.issuerKey, "at+jwt", "jti", "4")} {
		if status, _ := send(t, w.drive, token, callRequest); status != http.StatusOK || len(w.entered()) != 1 {
			t.Errorf("a good token: HTTP %d", status)
		}
	}
	w.advance(2*time.Minute + time.Second)
	refused("expired", "Bearer "+good, "its token has expired")
	for _, token := range []string{good, other} {
		if strings.Contains(w.said(), token) {
			t.Error("the terminal shows a token")
		}
	}
}
