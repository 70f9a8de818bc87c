package oauthclient_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/oauthclient"
)

// boundWorld makes a world whose tokens are bound to a key (RFC 9449).
func boundWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.as.bind = true
	w.as.set("dpop_signing_alg_values_supported", []string{"ES256", "EdDSA"})
	w.skill.metadata = func(m map[string]any) { m["dpop_bound_access_tokens_required"] = true }
	return w
}

func TestDPoP(t *testing.T) {
	t.Parallel()
	w := boundWorld(t)
	w.mustConnect()
	for range 3 { // each with its own proof: the server accepts none twice
		if a := w.sendRequest(); a.status != http.StatusOK || a.rounds != 1 {
			t.Fatalf("%+v", a)
		}
	}
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	if a := w.sendWith(t.Context(), w.startService(t), w.url); a.status != http.StatusOK {
		t.Fatalf("renewed by another process: %+v", a)
	}
	keys := map[string]bool{}
	for _, r := range w.as.requests("/token") {
		_, key, err := openProof(&http.Request{Header: r.Header})
		check(t, err)
		text, err := key.MarshalJSON()
		check(t, err)
		keys[string(text)] = true
	}
	if len(keys) != 1 {
		t.Errorf("%d keys, want 1: bound tokens must be renewed with the same key", len(keys))
	}
}

// A proof does not cover the query, and is not sent without its token.
func TestProofs(t *testing.T) {
	t.Parallel()
	w := boundWorld(t)
	w.mustConnect()
	for address, htu := range map[string]string{
		w.url + "?session=1#x": w.url, w.url + "/messages?a=b": w.url + "/messages", w.skill.URL + "/other": "",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		check(t, err)
		_, err = w.handler().Sign(t.Context(), r)
		check(t, err)
		claims := proofOf(r)
		if htu == "" {
			if r.Header.Get("DPoP") != "" || r.Header.Get("Authorization") != "" {
				t.Errorf("%s: signed", address)
			}
			continue
		}
		if claims["htu"] != htu || claims["htm"] != http.MethodGet || !strings.HasPrefix(r.Header.Get("Authorization"), "DPoP ") {
			t.Errorf("%s: %v", address, claims)
		}
	}
}

func TestNonces(t *testing.T) {
	t.Parallel()
	w := boundWorld(t)
	w.as.nonce, w.skill.nonce = "as-1", "skill-1"
	check(t, w.connect())
	if a := w.sendRequest(); a.status != http.StatusOK || a.rounds != 2 {
		t.Errorf("the first request: %+v", a)
	}
	if a := w.sendRequest(); a.status != http.StatusOK || a.rounds != 1 {
		t.Errorf("the next request, with the known nonce: %+v", a)
	}
	w.skill.change(func() { w.skill.nonce = "skill-2" })
	w.as.change(func() { w.as.nonce = "as-2" })
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	if a := w.sendRequest(); a.status != http.StatusOK || a.rounds != 2 {
		t.Errorf("with other nonces: %+v", a)
	}
	if n := len(w.as.requests("/token")); n != 4 {
		t.Errorf("%d token requests, want each twice", n)
	}
}

// Concurrent requests are each sent again with the nonce that the first of them got.
func TestNonceOfParallelRequests(t *testing.T) {
	t.Parallel()
	w := boundWorld(t)
	w.mustConnect()
	w.skill.change(func() { w.skill.nonce = "skill-1" })
	h := w.handler()
	request := func() (*http.Request, oauthclient.Signed) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, nil)
		check(t, err)
		signed, err := h.Sign(t.Context(), r)
		check(t, err)
		return r, signed
	}
	refused := http.Header{"Dpop-Nonce": {"skill-1"}, "Www-Authenticate": {`DPoP error="use_dpop_nonce"`}}
	first, firstSigned := request()
	second, secondSigned := request()
	for i, sent := range []struct {
		r      *http.Request
		signed oauthclient.Signed
	}{{first, firstSigned}, {second, secondSigned}} {
		again, err := h.Answered(t.Context(), sent.r, "tools/list", http.StatusUnauthorized, refused, sent.signed)
		if err != nil || !again {
			t.Errorf("request %d: again %t, %v", i+1, again, err)
		}
	}
	// A server that refuses its own nonce is not asked again.
	third, signed := request()
	if again, err := h.Answered(t.Context(), third, "tools/list", http.StatusUnauthorized, refused, signed); again || err != nil {
		t.Errorf("again %t, %v", again, err)
	}
}

// A server that sends a new nonce each time does not cause an endless loop.
func TestEndlessNonces(t *testing.T) {
	t.Parallel()
	w := boundWorld(t)
	var mu sync.Mutex
	count := 0
	next := func(code int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			count++
			rw.Header().Set("DPoP-Nonce", strings.Repeat("n", count))
			rw.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
			writeJSON(rw, code, map[string]any{"error": "use_dpop_nonce"})
		}
	}
	w.as.setAnswer("/token", next(http.StatusBadRequest))
	wantError(t, w.connect(), "use_dpop_nonce")
	if n := len(w.as.requests("/token")); n != 2 {
		t.Errorf("%d token requests", n)
	}
	w.as.setAnswer("/token", nil)
	check(t, w.connect())
	w.skill.setAnswer("/mcp", next(http.StatusUnauthorized))
	if a := w.sendRequest(); a.status != http.StatusUnauthorized || a.rounds != oauthclient.MaxRounds {
		t.Errorf("%+v", a)
	}
}

// A bearer token is used as such even if a key was offered.
func TestBearerThoughBoundWasAskedFor(t *testing.T) {
	t.Parallel()
	w := boundWorld(t)
	w.as.bind = false
	w.mustConnect()
	for _, r := range w.skill.requests("/mcp") {
		if r.Header.Get("DPoP") != "" {
			t.Error("a proof came with a bearer token")
		}
	}
}
