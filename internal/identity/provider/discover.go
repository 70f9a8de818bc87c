package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// ErrUnreachable is wrapped by errors about a provider that could not be asked what it is.
var ErrUnreachable = errors.New("the identity provider cannot be reached")

// discovered is what a provider says of itself.
type discovered struct {
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

// warmAgain is how long a provider that failed is left alone, unless a person wants to go there.
const warmAgain = 10 * time.Second

// Warm begins to ask the provider what it is, if that is not known, and waits for nothing.
func (p *Provider) Warm(ctx context.Context) {
	if f := p.Failure(); f == nil || p.now().Sub(f.At) > warmAgain {
		p.known.Start(ctx, struct{}{}, p.load)
	}
}

// Failure is why the provider could not be reached, when it was asked last; nil: it could.
func (p *Provider) Failure() *Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// discover asks the provider what it is, unless that is known. A failure is not remembered.
func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	d, err := p.known.Get(ctx, struct{}{}, p.load)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return d, nil
}

func (p *Provider) load(ctx context.Context) (*discovered, error) {
	d, err := p.fetch(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = nil
	if err != nil {
		// What the library says may hold the whole of an answer.
		err = fmt.Errorf("discover %s: %s", p.cfg.Issuer, plain.Line(err.Error(), maxCause))
		p.failure = &Failure{At: p.now(), Err: err}
	}
	return d, err
}

const maxCause = 300

func (p *Provider) fetch(ctx context.Context) (*discovered, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.cfg.Issuer)
	if err != nil {
		return nil, err
	}
	d := &discovered{Provider: found}
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

// checkURL judges an address that a server's documents name: https, or a host that the operator trusts.
func checkURL(text string, trusted []string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("it is no URL of an endpoint")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && slices.ContainsFunc(trusted, func(host string) bool {
		return strings.EqualFold(host, u.Host) || strings.EqualFold(host, u.Hostname())
	}):
		return nil
	}
	return errors.New("it is not https")
}

// authStyle is how the client authenticates at the token endpoint. It is not tried out: a code is redeemed once.
func (d *discovered) authStyle(secret string) oauth2.AuthStyle {
	methods := d.metadata.AuthMethods
	if secret == "" || len(methods) > 0 && !slices.Contains(methods, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// maxAnswer bounds what a provider may answer.
const maxAnswer = 1 << 20

func newClient(policy outbound.Policy) *http.Client {
	client := outbound.NewClient(outbound.Config{Policy: policy})
	client.Timeout = requestLimit
	client.Transport = bounded{client.Transport}
	return client
}

// bounded ends answers at maxAnswer, for libraries that read to the end.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxAnswer), response.Body}
	return response, nil
}

// CloseIdleConnections lets go of what the transport below keeps.
func (b bounded) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
