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

// signingAlgorithms are those whose keys are of no use to whoever only verifies: none is not among them, nor are those with
// a shared secret, for which a public key could be taken (RFC 8725, section 2.1).
func signingAlgorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

func signingAlgorithmNames() []string {
	var names []string
	for _, algorithm := range signingAlgorithms() {
		names = append(names, string(algorithm))
	}
	return names
}

// signingKeys are what an authorization server signs with.
type signingKeys []jose.JSONWebKey

const (
	// keysAgain is how often keys may be asked for because one is not among them: anybody can make a token that names one.
	keysAgain = 10 * time.Second
	// unreachableFor is how long a server that could not be asked is left alone.
	unreachableFor = 2 * time.Second
)

// verifying is the key set of one token's verification. It tells a server that is away from a signature that is wrong.
type verifying struct {
	*TokenIssuer
	unreachable error
}

// VerifySignature implements [oidc.KeySet].
func (v *verifying) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(jwt, signingAlgorithms())
	if err != nil {
		return nil, err
	}
	if len(signed.Signatures) != 1 {
		return nil, errors.New("want one signature")
	}
	for _, young := range []time.Duration{discoveryKept, keysAgain} {
		keys, err := v.known.GetIf(ctx, struct{}{}, func(_ signingKeys, age time.Duration) bool { return age < young }, v.load)
		if err != nil {
			v.unreachable = err
			return nil, err
		}
		if payload, ok := keys.verify(signed); ok {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer made the signature")
}

func (keys signingKeys) verify(signed *jose.JSONWebSignature) ([]byte, bool) {
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

// load asks the server for its keys, unless it was away just now.
func (i *TokenIssuer) load(ctx context.Context) (signingKeys, error) {
	i.mu.Lock()
	failed := i.failure
	i.mu.Unlock()
	if failed != nil && i.now().Sub(failed.At) < unreachableFor {
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

// fetchKeys finds the server's metadata by RFC 8414, section 3.1, and OpenID Connect Discovery 1.0, section 4.
func (i *TokenIssuer) fetchKeys(ctx context.Context) (signingKeys, error) {
	var metadata struct {
		Issuer  string `json:"issuer"`
		KeysURL string `json:"jwks_uri"`
	}
	var errs []error
	for _, place := range metadataPlaces(i.cfg.Issuer) {
		err := i.fetch(ctx, place, &metadata)
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
	if err := i.fetch(ctx, metadata.KeysURL, &set); err != nil {
		return nil, err
	}
	var keys signingKeys
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		// Keys of kinds that are not known are left out (RFC 7517, section 5), as are those that are not public.
		if json.Unmarshal(raw, &key) == nil && key.Valid() && key.IsPublic() && key.Use != "enc" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key among them that could be used")
	}
	return keys, nil
}

func metadataPlaces(issuer string) []string {
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

func (i *TokenIssuer) fetch(ctx context.Context, place string, into any) error {
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
		return fmt.Errorf("%s answers what is no JSON object that was expected", place)
	}
	return nil
}
