// Package provider owns the protocol with identity providers and authorization servers. Of an OpenID Connect provider, it owns
// discovery, the authorization request and the verification of the response. Of an authorization server whose access tokens
// clients present, it owns the keys and the verification of tokens. It stores nothing: sessions and people belong to package
// identity, pending sign-ins to the caller.
package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// CallbackPath is the path of the redirect URI, below the server's public URL.
const CallbackPath = "/sign-in/callback"

// Config is the configuration of a provider.
type Config struct {
	Name         string // unique; the label of its button
	Issuer       string
	ClientID     string
	ClientSecret string   // empty: a public client
	Scopes       []string // openid is always added
	// IdentityClaim is the claim that identifies a person. Empty: "sub". If the provider gives each client a different "sub"
	// (pairwise identifiers), use a claim that is the same for all clients, such as "oid".
	IdentityClaim string
	// TrustEmail: email addresses count as verified if the provider sends no "email_verified". Only for providers whose
	// people cannot set their own address.
	TrustEmail bool
	// GroupsClaim is the claim with a person's groups. A dotted name may also be a path. Empty: "groups".
	GroupsClaim string
	// Roles are the groups whose members have a role. All people of the provider have DefaultRoles.
	Roles        map[identity.Role][]string
	DefaultRoles []identity.Role
	Teams        Teams
	// Session is the lifetime of a session, whose roles are those of its beginning. Zero: 24 h.
	Session time.Duration
}

// Teams says which groups are teams. The zero value: all groups, by their names.
type Teams struct {
	Prefix string              // only groups with this prefix, which is removed
	Groups map[string][]string // only these teams, each with the groups whose members it has
}

// Surroundings is configuration that all providers of a server share.
type Surroundings struct {
	PublicURL    string
	TrustedHosts []string // may be private and without https
	Now          func() time.Time
}

// Provider is an OpenID Connect provider. It is safe for concurrent use.
type Provider struct {
	cfg      Config
	redirect string
	trusted  []string
	now      func() time.Time
	client   *http.Client
	known    *registry.Memory[struct{}, *metadata]

	mu      sync.Mutex
	failure *Failure
}

// Failure is a failed request for metadata or keys.
type Failure struct {
	At  time.Time
	Err error
}

const (
	// maxName bounds the label of a button.
	maxName = 60
	// requestLimit bounds each request to a provider.
	requestLimit = 10 * time.Second
	// discoveryTTL is how long metadata is cached.
	discoveryTTL   = time.Hour
	maxSession     = 30 * 24 * time.Hour
	defaultSession = 24 * time.Hour
	// maxAge is the maximum age of the authentication that begins a session: 30 days in seconds. A request with max_age also
	// makes the provider send auth_time (OpenID Connect Core section 3.1.2.1).
	maxAge = "2592000"
)

// New makes a provider. It sends no request, so the provider need not be available.
func New(cfg Config, s Surroundings) (*Provider, error) {
	if cfg.Session == 0 {
		cfg.Session = defaultSession
	}
	if cfg.GroupsClaim == "" {
		cfg.GroupsClaim = "groups"
	}
	if len(cfg.Scopes) == 0 {
		cfg.Scopes = []string{oidc.ScopeOpenID, oidc.ScopeProfile, oidc.ScopeEmail}
	} else if !slices.Contains(cfg.Scopes, oidc.ScopeOpenID) {
		cfg.Scopes = append([]string{oidc.ScopeOpenID}, cfg.Scopes...)
	}
	issuer, err := cfg.checkFields()
	if err != nil {
		return nil, err
	}
	if s.Now == nil || s.PublicURL == "" {
		return nil, errors.New("make an identity provider: Now and PublicURL are required")
	}
	// The operator trusts the issuer's host. Other hosts in its metadata must be public, or trusted too.
	trusted := append([]string{issuer.Host}, s.TrustedHosts...)
	p := &Provider{
		cfg: cfg, redirect: strings.TrimSuffix(s.PublicURL, "/") + CallbackPath, trusted: trusted, now: s.Now,
		client: newClient(outbound.Policy{TrustedHosts: trusted}),
	}
	p.known = registry.NewMemory[struct{}](registry.Config[*metadata]{TTL: discoveryTTL, LoadTimeout: requestLimit, Now: s.Now})
	return p, nil
}

func (c *Config) checkFields() (*url.URL, error) {
	if c.Name == "" || len(c.Name) > maxName || strings.TrimSpace(c.Name) != c.Name || !isPrintable(c.Name) {
		return nil, fault.Invalid("name", fmt.Sprintf("must be 1 to %d bytes of printable text", maxName))
	}
	issuer, err := issuerURL(c.Issuer)
	if err != nil {
		return nil, err
	}
	if c.ClientID == "" {
		return nil, fault.Invalid("client_id", "is missing")
	}
	if err := checkIdentityClaim(c.IdentityClaim); err != nil {
		return nil, err
	}
	if c.Session < time.Minute || c.Session > maxSession {
		return nil, fault.Invalid("session", "must be between 1m and 720h")
	}
	if len(c.Roles) == 0 && len(c.DefaultRoles) == 0 {
		return nil, fault.Invalid("roles", "must name at least one, of a group or by default: else no one gets in")
	}
	if c.Teams.Prefix != "" && len(c.Teams.Groups) > 0 {
		return nil, fault.Invalid("teams", "must be a prefix or groups, not both")
	}
	return issuer, nil
}

func issuerURL(text string) (*url.URL, error) {
	issuer, err := url.Parse(text)
	if err != nil || issuer.Scheme != "https" && issuer.Scheme != "http" || issuer.Host == "" || issuer.User != nil ||
		issuer.RawQuery != "" || issuer.Fragment != "" || strings.Contains(text, "#") {
		return nil, fault.Invalid("issuer", "must be the provider's URL, exactly as in its metadata")
	}
	return issuer, nil
}

// Name returns the name for people.
func (p *Provider) Name() string { return p.cfg.Name }

// Issuer returns the issuer identifier.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// ClientID returns Holdpoint's client id at the provider.
func (p *Provider) ClientID() string { return p.cfg.ClientID }

// Session returns the lifetime of sessions.
func (p *Provider) Session() time.Duration { return p.cfg.Session }

// Close stops the background work.
func (p *Provider) Close() {
	p.known.Close()
	p.client.CloseIdleConnections()
}

// Flow is a pending sign-in of a browser. The caller stores it until the response.
type Flow struct {
	Provider string    `json:"provider"`
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Again    bool      `json:"again,omitempty"` // the person must authenticate again
	Began    time.Time `json:"began"`
}

// Begin returns an authorization request. again asks the provider to authenticate the person even if it has a session.
func (p *Provider) Begin(ctx context.Context, again bool) (to string, flow Flow, err error) {
	d, err := p.discoverCached(ctx)
	if err != nil {
		return "", Flow{}, err
	}
	flow = Flow{
		Provider: p.cfg.Name, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Again: again, Began: p.now(),
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(flow.Nonce), oauth2.S256ChallengeOption(flow.Verifier)}
	if again {
		options = append(options, oauth2.SetAuthURLParam("max_age", "0"), oauth2.SetAuthURLParam("prompt", "login"))
	} else {
		options = append(options, oauth2.SetAuthURLParam("max_age", maxAge))
	}
	return p.oauth2Config(d).AuthCodeURL(flow.State, options...), flow, nil
}

func (p *Provider) oauth2Config(d *metadata) *oauth2.Config {
	endpoint := d.Endpoint()
	endpoint.AuthStyle = d.authStyle(p.cfg.ClientSecret)
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: endpoint, RedirectURL: p.redirect, Scopes: p.cfg.Scopes,
	}
}
