package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// signingAlgorithms returns the accepted algorithms. "none" and algorithms with a shared secret, for which an attacker could
// use the public key, are not accepted (RFC 8725 section 2.1).
func signingAlgorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

// SigningAlgorithms returns the names of the accepted algorithms.
func SigningAlgorithms() []string {
	var names []string
	for _, algorithm := range signingAlgorithms() {
		names = append(names, string(algorithm))
	}
	return names
}

// signingKeys are the public keys of an authorization server.
type signingKeys []jose.JSONWebKey

const (
	// keysMinInterval is how often keys are read again for an unknown key id: every client can send a token that names one.
	keysMinInterval = 10 * time.Second
	// unreachableTTL is how long no request is made after a failure.
	unreachableTTL = 2 * time.Second
)

// keySet is the key set of one verification. It tells an unavailable server from a wrong signature.
type keySet struct {
	*TokenIssuer
	unreachable error
}

// VerifySignature implements [oidc.KeySet].
func (v *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(jwt, signingAlgorithms())
	if err != nil {
		return nil, err
	}
	if len(signed.Signatures) != 1 {
		return nil, errors.New("the token must have one signature")
	}
	for _, young := range []time.Duration{discoveryTTL, keysMinInterval} {
		keys, err := v.known.GetIf(ctx, struct{}{}, func(_ signingKeys, age time.Duration) bool { return age < young }, v.loadKeys)
		if err != nil {
			v.unreachable = err
			return nil, err
		}
		if payload, ok := keys.verifySignature(signed); ok {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer made the signature")
}

func (keys signingKeys) verifySignature(signed *jose.JSONWebSignature) ([]byte, bool) {
	header := signed.Signatures[0].Header
	for i := range keys {
		key := &keys[i]
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(key); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// loadKeys reads the keys, unless the server was unavailable a moment ago.
func (i *TokenIssuer) loadKeys(ctx context.Context) (signingKeys, error) {
	i.mu.Lock()
	failed := i.failure
	i.mu.Unlock()
	if failed != nil && i.now().Sub(failed.At) < unreachableTTL {
		return nil, failed.Err
	}
	keys, err := i.fetchKeys(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.failure = nil
	if err != nil {
		err = fmt.Errorf("keys of %s: %s", i.cfg.Issuer, plain.Line(err.Error(), maxCause))
		i.failure = &Failure{At: i.now(), Err: err}
	}
	return keys, err
}

// fetchKeys reads the server's metadata (RFC 8414 section 3.1, OpenID Connect Discovery section 4) and its keys.
func (i *TokenIssuer) fetchKeys(ctx context.Context) (signingKeys, error) {
	var metadata struct {
		Issuer  string `json:"issuer"`
		KeysURL string `json:"jwks_uri"`
	}
	var errs []error
	for _, place := range metadataURLs(i.cfg.Issuer) {
		err := i.fetchJSON(ctx, place, &metadata)
		if err == nil {
			errs = nil
			break
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if metadata.Issuer != i.cfg.Issuer {
		return nil, fmt.Errorf("the metadata names another issuer, %q", metadata.Issuer)
	}
	if err := checkURL(metadata.KeysURL, i.trusted); err != nil {
		return nil, fmt.Errorf("jwks_uri: %w", err)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := i.fetchJSON(ctx, metadata.KeysURL, &set); err != nil {
		return nil, err
	}
	var keys signingKeys
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		// Unknown kinds of keys are left out (RFC 7517 section 5), as are private keys.
		if json.Unmarshal(raw, &key) == nil && key.Valid() && key.IsPublic() && key.Use != "enc" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("none of the keys can be used")
	}
	return keys, nil
}

func metadataURLs(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	root, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{root + "/.well-known/oauth-authorization-server" + path}
	if path != "" {
		places = append(places, root+"/.well-known/openid-configuration"+path)
	}
	return append(places, root+path+"/.well-known/openid-configuration")
}

func (i *TokenIssuer) fetchJSON(ctx context.Context, place string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := i.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", place, response.StatusCode)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s answers no JSON object of the expected form", place)
	}
	return nil
}
