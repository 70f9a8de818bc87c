package oauthclient

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A proof shows that a token is used by whom it was issued to (RFC 9449). It names the
// request, and every request has its own.
func (k *signingKey) proof(method, address, token, nonce string, now time.Time) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	u.RawQuery, u.Fragment, u.RawFragment, u.User = "", "", "", nil
	claims := map[string]any{"jti": randomText(), "htm": method, "htu": u.String(), "iat": now.Unix()}
	if token != "" {
		claims["ath"] = hashText(token)
	}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	return k.sign("dpop+jwt", claims, true)
}

const (
	headerProof = "DPoP"
	headerNonce = "DPoP-Nonce"
	maxNonce    = 1024
)

// nonces are the last that servers gave, by origin.
type nonces struct {
	mu    sync.Mutex
	known map[string]string
}

func (n *nonces) get(u *url.URL) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known[u.Scheme+"://"+u.Host]
}

// note remembers the nonce of an answer, and returns it; empty: it has none.
func (n *nonces) note(u *url.URL, header http.Header) string {
	nonce := header.Get(headerNonce)
	if nonce == "" || len(nonce) > maxNonce {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	origin := u.Scheme + "://" + u.Host
	if n.known == nil || len(n.known) > maxRememberedAS {
		n.known = map[string]string{}
	}
	n.known[origin] = nonce
	return nonce
}

// wantsDPoP reports whether tokens for a resource are to be bound to a key.
func (f *found) wantsDPoP(server *Server, c Challenge) bool {
	if !slices.Contains(server.DPoPAlgorithms, "ES256") {
		return false
	}
	if c.Scheme == "dpop" {
		return true
	}
	return f.metadata != nil && (f.metadata.DPOPBoundAccessTokensRequired ||
		slices.Contains(f.metadata.DPOPSigningAlgValuesSupported, "ES256"))
}

// isDPoP reports whether a token is bound to a key.
func isDPoP(tokenType string) bool { return strings.EqualFold(tokenType, "DPoP") }
