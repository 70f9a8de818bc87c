package oauthclient_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// authServer is an authorization server that enforces the protocol.
type authServer struct {
	*server
	known *secrets
	path  string // path of the issuer

	// Tests change the following fields with change.
	metadata func(map[string]any)
	life     int                   // lifetime of access tokens in seconds; 0: the response has none
	noRotate bool                  // refresh tokens can be used repeatedly
	extra    map[string]any        // in each token response
	iss      func(string) []string // in the authorization response; nil: as the metadata says
	nonce    string                // required in proofs
	bind     bool                  // DPoP
	secret   string                // of registered clients
	register map[string]any        // added to the registration response
	clients  map[string]string     // secrets by client id

	sequence int
	codes    map[string]url.Values // authorization requests by code
	refresh  map[string][]string   // scopes by valid refresh token
	access   map[string]accessToken
	proof    proofs
}

type accessToken struct {
	kind       string
	scopes     []string
	thumbprint string // of the key it is bound to
}

func newAuthServer(t testing.TB, known *secrets) *authServer {
	t.Helper()
	a := &authServer{
		server: newServer(t), known: known, life: 3600, clients: map[string]string{}, codes: map[string]url.Values{},
		refresh: map[string][]string{}, access: map[string]accessToken{}, proof: proofs{seen: map[string]bool{}},
	}
	a.fallback["/.well-known/oauth-authorization-server"] = a.describe
	a.fallback["/register"] = a.registration
	a.fallback["/token"] = a.token
	a.fallback["/revoke"] = a.revoke
	return a
}

func (a *authServer) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *authServer) issuer() string { return a.URL + a.path }

func (a *authServer) defaults() map[string]any {
	return map[string]any{
		"issuer": a.issuer(), "authorization_endpoint": a.URL + "/authorize", "token_endpoint": a.URL + "/token",
		"registration_endpoint": a.URL + "/register", "revocation_endpoint": a.URL + "/revoke", "jwks_uri": a.URL + "/jwks",
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		"response_types_supported": []string{"code"},
	}
}

func (a *authServer) describe(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	m := a.defaults()
	if a.metadata != nil {
		a.metadata(m)
	}
	a.mu.Unlock()
	writeJSON(w, http.StatusOK, m)
}

// set sets a member of the metadata.
func (a *authServer) set(name string, value any) {
	a.change(func() {
		before := a.metadata
		a.metadata = func(m map[string]any) {
			if before != nil {
				before(m)
			}
			m[name] = value
			if value == nil {
				delete(m, name)
			}
		}
	})
}

// newSecret makes an unused secret. The caller holds the lock.
func (a *authServer) newSecret(kind string) string {
	a.sequence++
	return a.known.add(kind, fmt.Sprintf("%s-%d-of-%s-%s", strings.ReplaceAll(kind, " ", "-"), a.sequence, a.host()[10:], "5ecre7"))
}

func (a *authServer) registration(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	a.sequence++
	id := fmt.Sprintf("client-%d", a.sequence)
	a.clients[id] = a.known.add("client secret", a.secret)
	answer := map[string]any{"client_id": id}
	if a.secret != "" {
		answer["client_secret"] = a.secret
		answer["client_secret_expires_at"] = 0
	}
	maps.Copy(answer, a.register)
	a.mu.Unlock()
	writeJSON(w, http.StatusCreated, answer)
}

// giveConsent is a person who agrees. It returns the response that their browser brings back.
func (a *authServer) giveConsent(t testing.TB, u *url.URL) url.Values {
	t.Helper()
	q := u.Query()
	if q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("client_id") == "" {
		t.Fatalf("authorization request is incomplete: %s", u)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	code := a.newSecret("code")
	a.codes[code] = q
	answer := url.Values{"code": {code}, "state": {q.Get("state")}}
	promised := a.defaults()
	if a.metadata != nil {
		a.metadata(promised)
	}
	if promised["authorization_response_iss_parameter_supported"] == true {
		answer.Set("iss", promised["issuer"].(string))
	}
	if a.iss != nil {
		answer["iss"] = a.iss(answer.Get("iss"))
		if answer["iss"] == nil {
			delete(answer, "iss")
		}
	}
	return answer
}

func (a *authServer) token(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range []string{"code_verifier", "client_secret", "client_assertion", "assertion", "subject_token"} {
		a.known.add(name, r.Form.Get(name))
	}
	thumbprint := ""
	if a.bind {
		var err error
		if thumbprint, err = a.proof.thumbprint(r, a.URL+"/token"); err != nil {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_dpop_proof", "error_description": err.Error()})
			return
		}
		if a.nonce != "" && proofOf(r)["nonce"] != a.nonce {
			w.Header().Set("DPoP-Nonce", a.nonce)
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": "use_dpop_nonce"})
			return
		}
	}
	scopes, code := a.checkGrant(r)
	if code != "" {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": code})
		return
	}
	answer := map[string]any{"access_token": a.newSecret("access token"), "token_type": "Bearer"}
	token := accessToken{"Bearer", scopes, thumbprint}
	if a.bind {
		token.kind, answer["token_type"] = "DPoP", "DPoP"
	}
	a.access[answer["access_token"].(string)] = token
	if kind := r.Form.Get("grant_type"); kind == "authorization_code" || kind == "refresh_token" && !a.noRotate {
		refresh := a.newSecret("refresh token")
		a.refresh[refresh], answer["refresh_token"] = scopes, refresh
	}
	if a.life > 0 {
		answer["expires_in"] = a.life
	}
	maps.Copy(answer, a.extra)
	writeJSON(w, http.StatusOK, answer)
}

// checkGrant checks a token request. The caller holds the lock.
func (a *authServer) checkGrant(r *http.Request) (scopes []string, refusal string) {
	id := r.Form.Get("client_id")
	if basic, _, ok := r.BasicAuth(); ok {
		id, _ = url.QueryUnescape(basic)
	}
	if _, ok := a.clients[id]; !ok {
		return nil, "invalid_client"
	}
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		q, ok := a.codes[r.Form.Get("code")]
		delete(a.codes, r.Form.Get("code"))
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		if !ok || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || q.Get("redirect_uri") != r.Form.Get("redirect_uri") ||
			q.Get("client_id") != id {
			return nil, "invalid_grant"
		}
		return strings.Fields(q.Get("scope")), ""
	case "refresh_token":
		scopes, ok := a.refresh[r.Form.Get("refresh_token")]
		if !ok {
			return nil, "invalid_grant"
		}
		if !a.noRotate {
			delete(a.refresh, r.Form.Get("refresh_token"))
		}
		return scopes, ""
	}
	return strings.Fields(r.Form.Get("scope")), ""
}

func (a *authServer) revoke(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	delete(a.refresh, r.Form.Get("token"))
	delete(a.access, r.Form.Get("token"))
	a.mu.Unlock()
	w.WriteHeader(http.StatusOK)
}

// findToken returns an access token.
func (a *authServer) findToken(value string) (accessToken, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	token, ok := a.access[value]
	return token, ok
}

// dropAccess invalidates all access tokens.
func (a *authServer) dropAccess() { a.change(func() { clear(a.access) }) }

// tokenRequests returns the requests of a grant type.
func (a *authServer) tokenRequests(grantType string) []received {
	return slices.DeleteFunc(a.requests("/token"), func(r received) bool { return r.Form.Get("grant_type") != grantType })
}
