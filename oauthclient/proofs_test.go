package oauthclient_test

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/go-jose/go-jose/v4"
)

// proofs are the DPoP proofs that a server got (RFC 9449 section 4.3).
type proofs struct {
	mu   sync.Mutex
	seen map[string]bool // by jti
}

func openProof(r *http.Request) (map[string]any, *jose.JSONWebKey, error) {
	signed, err := jose.ParseSignedCompact(r.Header.Get("DPoP"), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return nil, nil, err
	}
	protected := signed.Signatures[0].Protected
	if protected.ExtraHeaders["typ"] != "dpop+jwt" || protected.JSONWebKey == nil || !protected.JSONWebKey.IsPublic() {
		return nil, nil, errors.New("the proof's header is wrong")
	}
	payload, err := signed.Verify(protected.JSONWebKey)
	if err != nil {
		return nil, nil, err
	}
	claims := map[string]any{}
	return claims, protected.JSONWebKey, json.Unmarshal(payload, &claims)
}

// proofOf returns the claims of a request's proof; nil: there is no valid one.
func proofOf(r *http.Request) map[string]any {
	claims, _, err := openProof(r)
	if err != nil {
		return nil
	}
	return claims
}

// thumbprint checks a proof and returns the thumbprint of its key.
func (p *proofs) thumbprint(r *http.Request, address string) (string, error) {
	claims, key, err := openProof(r)
	if err != nil {
		return "", err
	}
	id, _ := claims["jti"].(string)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case id == "" || p.seen[id]:
		return "", errors.New("the proof was used before")
	case claims["htm"] != r.Method || claims["htu"] != address:
		return "", fmt.Errorf("the proof is for %v %v", claims["htm"], claims["htu"])
	}
	p.seen[id] = true
	sum, err := key.Thumbprint(crypto.SHA256)
	return base64.RawURLEncoding.EncodeToString(sum), err
}

// check checks the proof that is sent with a token.
func (p *proofs) check(r *http.Request, address, token, thumbprint string) error {
	got, err := p.thumbprint(r, address)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(token))
	if got != thumbprint || proofOf(r)["ath"] != base64.RawURLEncoding.EncodeToString(sum[:]) {
		return errors.New("the proof is not for this token")
	}
	return nil
}
