package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// HeaderProof is the header of proofs.
const HeaderProof = "DPoP"

const (
	headerNonce = "DPoP-Nonce"
	maxNonce    = 1024 // bytes
	maxServers  = 1000 // servers whose nonces are kept
)

// provingTransport adds a DPoP proof to each request to a token endpoint (RFC 9449 section 5).
type provingTransport struct {
	client *TokenClient
	key    *SigningKey
	next   http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (p *provingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	proof, err := p.key.DPoPProof(r.Method, r.URL.String(), "", p.client.LastNonce(r.URL), p.client.Now())
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set(HeaderProof, proof)
	response, err := p.next.RoundTrip(r)
	if err == nil {
		p.client.NoteNonce(r.URL, response.Header)
	}
	return response, err
}

// DPoPProof makes the proof for one request (RFC 9449 section 4.2). token is the access token in the request, if any.
func (k *SigningKey) DPoPProof(method, address, token, nonce string, now time.Time) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	u.RawQuery, u.Fragment, u.RawFragment, u.User = "", "", "", nil
	claims := map[string]any{"jti": RandomText(), "htm": method, "htu": u.String(), "iat": now.Unix()}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	return k.signJWT("dpop+jwt", claims, true)
}

// nonces are the last DPoP nonces of servers, by origin (RFC 9449 sections 8 and 9).
type nonces struct {
	mu       sync.Mutex
	byOrigin map[string]string
}

// LastNonce returns the last nonce of a server.
func (n *nonces) LastNonce(u *url.URL) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byOrigin[u.Scheme+"://"+u.Host]
}

// NoteNonce stores and returns the nonce of a response; "": it has none.
func (n *nonces) NoteNonce(u *url.URL, header http.Header) string {
	nonce := header.Get(headerNonce)
	if nonce == "" || len(nonce) > maxNonce {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	origin := u.Scheme + "://" + u.Host
	if n.byOrigin == nil || len(n.byOrigin) > maxServers {
		n.byOrigin = map[string]string{}
	}
	n.byOrigin[origin] = nonce
	return nonce
}

// IsDPoP reports whether tokens of a type are bound to a key.
func IsDPoP(tokenType string) bool { return strings.EqualFold(tokenType, "DPoP") }
