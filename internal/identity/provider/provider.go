// Package provider owns the conversation with servers that vouch for people. Of an OpenID Connect provider: its
// discovery, the authorization request, and what must hold before its answer is believed. Of an authorization server
// whose access tokens are presented: its keys, and what must hold before a token is. It keeps nothing
// of a person, and no session: who began a flow, and what becomes of whom it names, is its callers'.
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

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// CallbackPath is where providers send people back to; with the server's public URL before it, it is the
// redirect URI to register.
const CallbackPath = "/sign-in/callback"

// Config is what an operator says of a provider.
type Config struct {
	Name         string // on the button, and unique
	Issuer       string
	ClientID     string
	ClientSecret string   // empty: a public client
	Scopes       []string // openid is always among them
	// IdentityClaim is the claim that says who a person is. Empty: "sub". Where a provider gives each client another "sub"
	// for the same person (pairwise identifiers), it names one that is the same everywhere, like "oid".
	IdentityClaim string
	// TrustEmail: e-mail addresses of a provider that sends no "email_verified" count as verified. Only for providers whose people
	// cannot set their own address.
	TrustEmail bool
	// GroupsClaim is the claim that lists a person's groups; a dotted name is also looked for as a path.
	GroupsClaim string
	// Roles are the groups whose members have a role. DefaultRoles have all whom the provider vouches for.
	Roles        map[identity.Role][]string
	DefaultRoles []identity.Role
	Teams        Teams
	// Session is how long a session lasts that begins here: its roles are those of its beginning.
	Session time.Duration
}

// Teams says which of a person's groups are teams. The zero value: all of them, by their names.
type Teams struct {
	Prefix string              // only groups that begin so, without it
	Groups map[string][]string // only these teams, each with the groups whose members it has
}

// Surroundings are what all providers of a server share.
type Surroundings struct {
	PublicURL    string
	TrustedHosts []string // may be private, and without https
	Now          func() time.Time
}

// Provider is one OpenID provider. It is safe for concurrent use.
type Provider struct {
	cfg      Config
	redirect string
	trusted  []string
	now      func() time.Time
	client   *http.Client
	known    *registry.Memory[struct{}, *discovered]

	mu      sync.Mutex
	failure *Failure
}

// Failure is that a provider could not be reached, when it was asked last.
type Failure struct {
	At  time.Time
	Err error
}

const (
	// maxName is as long as a button can be.
	maxName = 60
	// requestLimit bounds each request to a provider.
	requestLimit = 10 * time.Second
	// discoveryKept is how long a discovery document is believed.
	discoveryKept = time.Hour
	// maxSession bounds what an operator may set.
	maxSession     = 30 * 24 * time.Hour
	defaultSession = 24 * time.Hour
	// maxAge is how old a proof may be that a session begins with, in seconds: 30 days. Where a request names an age, the
	// provider has to say how old the proof is (OpenID Connect Core 1.0, section 3.1.2.1).
	maxAge = "2592000"
)

// New makes a Provider of what an operator wrote. Nothing is asked of it yet: it need not be there.
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
	issuer, err := cfg.check()
	if err != nil {
		return nil, err
	}
	if s.Now == nil || s.PublicURL == "" {
		return nil, errors.New("make an identity provider: Now and PublicURL are required")
	}
	// The issuer is the operator's word; what its documents name must be public, or trusted too.
	trusted := append([]string{issuer.Host}, s.TrustedHosts...)
	p := &Provider{
		cfg: cfg, redirect: strings.TrimSuffix(s.PublicURL, "/") + CallbackPath, trusted: trusted, now: s.Now,
		client: newClient(outbound.Policy{TrustedHosts: trusted}),
	}
	p.known = registry.NewMemory[struct{}](registry.Config[*discovered]{TTL: discoveryKept, LoadTimeout: requestLimit, Now: s.Now})
	return p, nil
}

// InvalidError says what is wrong with a configuration.
type InvalidError struct {
	Field    string // as in the file
	Expected string
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Expected }

func (c *Config) check() (*url.URL, error) {
	if c.Name == "" || len(c.Name) > maxName || strings.TrimSpace(c.Name) != c.Name || !printable(c.Name) {
		return nil, &InvalidError{"name", fmt.Sprintf("want 1 to %d bytes of printable text", maxName)}
	}
	issuer, err := issuerURL(c.Issuer)
	if err != nil {
		return nil, err
	}
	if c.ClientID == "" {
		return nil, &InvalidError{"client_id", "is missing"}
	}
	if err := checkIdentityClaim(c.IdentityClaim); err != nil {
		return nil, err
	}
	if c.Session < time.Minute || c.Session > maxSession {
		return nil, &InvalidError{"session", "want between 1m and 720h"}
	}
	if len(c.Roles) == 0 && len(c.DefaultRoles) == 0 {
		return nil, &InvalidError{"roles", "want at least one, of a group or by default: else nobody gets in"}
	}
	if c.Teams.Prefix != "" && len(c.Teams.Groups) > 0 {
		return nil, &InvalidError{"teams", "want a prefix or groups, not both"}
	}
	return issuer, nil
}

func issuerURL(text string) (*url.URL, error) {
	issuer, err := url.Parse(text)
	if err != nil || issuer.Scheme != "https" && issuer.Scheme != "http" || issuer.Host == "" || issuer.User != nil ||
		issuer.RawQuery != "" || issuer.Fragment != "" || strings.Contains(text, "#") {
		return nil, &InvalidError{"issuer", "want the provider's URL, exactly as it names itself"}
	}
	return issuer, nil
}

// Name is what people call the provider.
func (p *Provider) Name() string { return p.cfg.Name }

// Issuer is how the provider calls itself.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// ClientID is how the provider calls this server.
func (p *Provider) ClientID() string { return p.cfg.ClientID }

// Session is how long a session lasts that the provider vouched for.
func (p *Provider) Session() time.Duration { return p.cfg.Session }

// Close ends what runs in the background.
func (p *Provider) Close() {
	p.known.Close()
	p.client.CloseIdleConnections()
}

// Flow is one attempt of a browser to sign in. It is kept on this side until the person comes back.
type Flow struct {
	Provider string    `json:"provider"`
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Again    bool      `json:"again,omitempty"` // the person must prove anew who they are
	Began    time.Time `json:"began"`
}

// Begin makes an authorization request and says where to send the person. With again, the provider is to ask
// them for their credentials even if it knows them.
func (p *Provider) Begin(ctx context.Context, again bool) (to string, flow Flow, err error) {
	d, err := p.discover(ctx)
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
	return p.oauth2(d).AuthCodeURL(flow.State, options...), flow, nil
}

func (p *Provider) oauth2(d *discovered) *oauth2.Config {
	endpoint := d.Endpoint()
	endpoint.AuthStyle = d.authStyle(p.cfg.ClientSecret)
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: endpoint, RedirectURL: p.redirect, Scopes: p.cfg.Scopes,
	}
}
