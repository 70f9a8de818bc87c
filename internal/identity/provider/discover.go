package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// ErrUnreachable is wrapped by errors about a provider whose metadata or keys are not available.
var ErrUnreachable = errors.New("the identity provider cannot be reached")

// metadata is the discovery document of a provider (OpenID Connect Discovery).
type metadata struct {
	*oidc.Provider

	metadata struct {
		AuthURL     string   `json:"authorization_endpoint"`
		TokenURL    string   `json:"token_endpoint"`
		JWKSURL     string   `json:"jwks_uri"`
		UserInfoURL string   `json:"userinfo_endpoint"`
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
		SendsIssuer bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
	}
}

// warmInterval is how long [Provider.Warm] waits after a failure.
const warmInterval = 10 * time.Second

// Warm starts to read the provider's metadata if it is not cached, and returns at once.
func (p *Provider) Warm(ctx context.Context) {
	if f := p.Failure(); f == nil || p.now().Sub(f.At) > warmInterval {
		p.known.Start(ctx, struct{}{}, p.loadMetadata)
	}
}

// Failure returns why the last request for metadata failed; nil: it succeeded.
func (p *Provider) Failure() *Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// discoverCached returns the metadata from the cache, or reads it. Failures are not cached.
func (p *Provider) discoverCached(ctx context.Context) (*metadata, error) {
	d, err := p.known.Get(ctx, struct{}{}, p.loadMetadata)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return d, nil
}

func (p *Provider) loadMetadata(ctx context.Context) (*metadata, error) {
	d, err := p.fetchMetadata(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = nil
	if err != nil {
		// The library's error may quote a whole response.
		err = fmt.Errorf("discover %s: %s", p.cfg.Issuer, plain.Line(err.Error(), maxCause))
		p.failure = &Failure{At: p.now(), Err: err}
	}
	return d, err
}

const maxCause = 300

func (p *Provider) fetchMetadata(ctx context.Context) (*metadata, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.cfg.Issuer)
	if err != nil {
		return nil, err
	}
	d := &metadata{Provider: found}
	if err := found.Claims(&d.metadata); err != nil {
		return nil, fmt.Errorf("read its metadata: %w", err)
	}
	for name, endpoint := range map[string]string{
		"authorization_endpoint": d.metadata.AuthURL, "token_endpoint": d.metadata.TokenURL, "jwks_uri": d.metadata.JWKSURL,
	} {
		if err := checkURL(endpoint, p.trusted); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if d.metadata.UserInfoURL != "" {
		if err := checkURL(d.metadata.UserInfoURL, p.trusted); err != nil {
			return nil, fmt.Errorf("userinfo_endpoint: %w", err)
		}
	}
	return d, nil
}

// checkURL checks a URL in a document: it must be https, or its host trusted by the operator.
func checkURL(text string, trusted []string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("it is not a URL of an endpoint")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && slices.ContainsFunc(trusted, func(host string) bool {
		return strings.EqualFold(host, u.Host) || strings.EqualFold(host, u.Hostname())
	}):
		return nil
	}
	return errors.New("it is not https")
}

// authStyle returns how the client authenticates at the token endpoint. Trying is not possible, since a code is redeemed once.
func (d *metadata) authStyle(secret string) oauth2.AuthStyle {
	methods := d.metadata.AuthMethods
	if secret == "" || len(methods) > 0 && !slices.Contains(methods, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// maxAnswer bounds the bytes of a response.
const maxAnswer = 1 << 20

func newClient(policy outbound.Policy) *http.Client {
	client := outbound.NewClient(outbound.Config{Policy: policy})
	client.Timeout = requestLimit
	client.Transport = outbound.BoundBodies(client.Transport, maxAnswer)
	return client
}
