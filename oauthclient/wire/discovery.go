package wire

import (
	"context"
	"errors"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// Server is the metadata of an authorization server (RFC 8414, OpenID Connect Discovery).
type Server struct {
	oauthex.AuthServerMeta
	DPoPAlgorithms []string `json:"dpop_signing_alg_values_supported,omitempty"`
}

// Resource has the metadata of a skill's server and of its authorization servers.
type Resource struct {
	ID       string                             // the resource identifier for token requests (RFC 8707)
	Metadata *oauthex.ProtectedResourceMetadata // nil if Legacy
	Issuers  []string                           // at least one
	Servers  map[string]*Server                 // by issuer, those that were read
	// Legacy: the server has no metadata (MCP 2025-03-26). Its own origin is the authorization server.
	Legacy bool
	ReadAt time.Time // set by the caller
}

// Skill is a skill's server.
type Skill struct {
	URL    string
	Origin string // of the URL; see [Fetcher]
	// TrustOrigin accepts metadata of a resource above the URL (see RFC 9728 section 3.3).
	TrustOrigin bool
}

// MemorySize estimates the size in memory, in bytes.
func (f *Resource) MemorySize() int {
	n := 1024 + len(f.ID)
	for _, issuer := range f.Issuers {
		n += len(issuer)
	}
	if f.Metadata != nil {
		n += len(strings.Join(f.Metadata.ScopesSupported, " "))
	}
	for _, m := range f.Servers {
		n += 1024 + len(strings.Join(m.ScopesSupported, " ")) + len(strings.Join(m.TokenEndpointAuthMethodsSupported, " "))
	}
	return n
}

// ReadResource reads the protected resource metadata from the URL in the challenge (RFC 9728 section 5.1), or else from
// the well-known URLs of the skill's path and of its root (section 3.1).
func (fetch *Fetcher) ReadResource(ctx context.Context, s Skill, c Challenge) (*Resource, error) {
	skill, err := url.Parse(s.URL)
	if err != nil {
		return nil, NewError(StepResource, err, "the skill's URL cannot be read")
	}
	places := []string{wellKnown(skill, "oauth-protected-resource")}
	if root := wellKnown(&url.URL{Scheme: skill.Scheme, Host: skill.Host}, "oauth-protected-resource"); root != places[0] {
		places = append(places, root)
	}
	if c.ResourceMetadata != "" {
		places = []string{c.ResourceMetadata}
	}
	for _, place := range places {
		var m oauthex.ProtectedResourceMetadata
		err := fetch.getJSON(ctx, s.Origin, place, &m)
		if _, missing := errors.AsType[*missingError](err); missing && c.ResourceMetadata == "" {
			continue
		}
		if err != nil {
			return nil, NewError(StepResource, err, "%s: %s", plain.Line(place, 200), err)
		}
		return fetch.checkResource(s, skill, place, &m)
	}
	return &Resource{
		ID: resourceURL(skill), Legacy: true, Issuers: []string{skill.Scheme + "://" + skill.Host}, Servers: map[string]*Server{},
	}, nil
}

// checkResource checks that metadata is about the skill's URL, and that the authorization servers in it may be used.
func (fetch *Fetcher) checkResource(s Skill, skill *url.URL, place string, m *oauthex.ProtectedResourceMetadata) (*Resource, error) {
	if !CoversURL(m.Resource, resourceURL(skill)) {
		return nil, NewError(StepResource, nil, "%s is about the resource %q, but the skill's server is %q",
			plain.Line(place, 200), plain.Line(m.Resource, 200), plain.Line(resourceURL(skill), 200))
	}
	named, err := url.Parse(m.Resource)
	if !s.TrustOrigin && (err != nil || !oauthex.MatchesResource([]string{resourceURL(named)}, resourceURL(skill))) {
		// RFC 9728 section 3.3. On a host with several tenants, the token would be valid for all of them.
		return nil, NewError(StepResource, nil, "%s is about the resource %q, which is more than the skill's server, %q: if all of it may be trusted with the skill's tokens, "+
			"set the skill's oauth.trust_origin", plain.Line(place, 200), plain.Line(m.Resource, 200), plain.Line(resourceURL(skill), 200))
	}
	f := &Resource{ID: m.Resource, Servers: map[string]*Server{}, Metadata: &oauthex.ProtectedResourceMetadata{
		Resource: m.Resource, ScopesSupported: SplitScopes(strings.Join(m.ScopesSupported, " ")),
		DPOPSigningAlgValuesSupported: boundList(m.DPOPSigningAlgValuesSupported), DPOPBoundAccessTokensRequired: m.DPOPBoundAccessTokensRequired,
	}}
	for _, issuer := range m.AuthorizationServers {
		if _, err := fetch.CheckURL(s.Origin, issuer); err != nil {
			return nil, NewError(StepResource, err, "%s names an authorization server whose URL cannot be used: %s", plain.Line(place, 200), err)
		}
		if !slices.Contains(f.Issuers, issuer) && len(f.Issuers) < maxIssuers {
			f.Issuers = append(f.Issuers, issuer)
		}
	}
	if len(f.Issuers) == 0 {
		return nil, NewError(StepResource, nil, "%s names no authorization server", plain.Line(place, 200))
	}
	return f, nil
}

// ChooseIssuer returns the issuer to use: the one in the settings, or the only one, or the one in use. It returns "" if a
// person has to choose.
func (f *Resource) ChooseIssuer(wanted, used string) (string, error) {
	switch {
	case wanted == "" && len(f.Issuers) == 1:
		return f.Issuers[0], nil
	case wanted == "" && slices.Contains(f.Issuers, used):
		return used, nil
	case wanted == "":
		return "", nil
	case slices.Contains(f.Issuers, wanted):
		return wanted, nil
	}
	for _, issuer := range f.Issuers {
		if SameIssuer(issuer, wanted) {
			return issuer, nil
		}
	}
	return "", NewError(StepServer, nil, "the authorization server %s is not one that the skill's server names: %s",
		plain.Line(wanted, 200), plain.Line(strings.Join(f.Issuers, ", "), 400))
}

const maxIssuers = 20

// AddServer reads an authorization server's metadata into f.
func (fetch *Fetcher) AddServer(ctx context.Context, skillOrigin string, f *Resource, issuer string) error {
	if f.Servers[issuer] != nil {
		return nil
	}
	server, err := fetch.ReadServer(ctx, skillOrigin, issuer)
	if err == nil && server == nil {
		if !f.Legacy {
			return NewError(StepServer, nil, "%s has no metadata, neither of OAuth nor of OpenID Connect", plain.Line(issuer, 200))
		}
		// The default endpoints of MCP 2025-03-26.
		base := strings.TrimSuffix(issuer, "/")
		server = &Server{}
		server.Issuer = issuer
		server.AuthorizationEndpoint, server.TokenEndpoint, server.RegistrationEndpoint = base+"/authorize", base+"/token", base+"/register"
		server.CodeChallengeMethodsSupported = []string{"S256"} // required by that revision, which has no metadata to say it
	}
	if err != nil {
		return err
	}
	f.Servers[issuer] = server
	return nil
}

// ReadServer reads the metadata of an issuer from the well-known URLs of RFC 8414 and OpenID Connect Discovery, in MCP's
// order. It returns nil if there is none.
func (fetch *Fetcher) ReadServer(ctx context.Context, skillOrigin, issuer string) (*Server, error) {
	u, err := fetch.CheckURL(skillOrigin, issuer)
	if err != nil {
		return nil, NewError(StepServer, err, "its URL cannot be used: %s", err)
	}
	places := []string{wellKnown(u, "oauth-authorization-server"), wellKnown(u, "openid-configuration")}
	if p := strings.TrimSuffix(u.Path, "/"); p != "" {
		places = append(places, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
	}
	for _, place := range places {
		var m Server
		err := fetch.getJSON(ctx, skillOrigin, place, &m)
		if _, missing := errors.AsType[*missingError](err); missing {
			continue
		}
		if err != nil {
			return nil, NewError(StepServer, err, "%s: %s", plain.Line(place, 200), err)
		}
		if !SameIssuer(m.Issuer, issuer) {
			return nil, NewError(StepServer, nil, "the metadata at %s is that of the issuer %q, but %q was asked for",
				plain.Line(place, 200), plain.Line(m.Issuer, 200), plain.Line(issuer, 200))
		}
		return fetch.checkServer(skillOrigin, &m)
	}
	return nil, nil
}

// checkServer checks the URLs that Holdpoint uses, and returns a copy of the fields that it uses: the copy is cached, and the
// server chose the size of the rest. PKCE is not checked, since only one grant needs it.
func (fetch *Fetcher) checkServer(skillOrigin string, m *Server) (*Server, error) {
	for _, u := range []struct {
		name, value string
	}{
		{"authorization_endpoint", m.AuthorizationEndpoint},
		{"token_endpoint", m.TokenEndpoint},
		{"registration_endpoint", m.RegistrationEndpoint},
		{"revocation_endpoint", m.RevocationEndpoint},
	} {
		if u.value == "" && u.name != "token_endpoint" {
			continue
		}
		if _, err := fetch.CheckURL(skillOrigin, u.value); err != nil {
			return nil, NewError(StepServer, err, "%s of %s: %s", u.name, plain.Line(m.Issuer, 200), err)
		}
	}
	used := &Server{DPoPAlgorithms: boundList(m.DPoPAlgorithms)}
	used.Issuer, used.AuthorizationEndpoint, used.TokenEndpoint = m.Issuer, m.AuthorizationEndpoint, m.TokenEndpoint
	used.RegistrationEndpoint, used.RevocationEndpoint, used.JWKSURI = m.RegistrationEndpoint, m.RevocationEndpoint, m.JWKSURI
	used.ScopesSupported = SplitScopes(strings.Join(m.ScopesSupported, " "))
	used.TokenEndpointAuthMethodsSupported = boundList(m.TokenEndpointAuthMethodsSupported)
	used.CodeChallengeMethodsSupported = boundList(m.CodeChallengeMethodsSupported)
	used.ClientIDMetadataDocumentSupported = m.ClientIDMetadataDocumentSupported
	used.AuthorizationResponseIssParameterSupported = m.AuthorizationResponseIssParameterSupported
	return used, nil
}

// boundList bounds a list of registered names.
func boundList(names []string) []string { return names[:min(len(names), maxIssuers)] }

// SameIssuer compares issuer identifiers, which must be identical (RFC 8414 section 3.3). It accepts an origin with and
// without a trailing slash as one URL (RFC 3986 section 6.2.3), since common frameworks add the slash.
func SameIssuer(a, b string) bool {
	if a == b {
		return true
	}
	u, err := url.Parse(a)
	return err == nil && u.RawQuery == "" && (u.Path == "" || u.Path == "/") && strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// resourceURL returns the skill's URL as a resource identifier (RFC 8707 section 2): without fragment, user, query (which may
// hold a secret), and without a path of a single slash.
func resourceURL(skill *url.URL) string {
	u := *skill
	u.Fragment, u.RawFragment, u.User, u.RawQuery, u.ForceQuery = "", "", nil, "", false
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if u.Path == "/" {
		u.Path = ""
	}
	return u.String()
}

// CoversURL reports whether a resource identifier covers a URL: same origin, and same path or one above it. A token for the
// resource may be sent to such URLs only.
func CoversURL(resource, address string) bool {
	if oauthex.MatchesResource([]string{resource}, address) {
		return true
	}
	r, err := url.Parse(resource)
	if err != nil || r.Fragment != "" || r.User != nil || r.RawQuery != "" {
		return false
	}
	u, err := url.Parse(address)
	if err != nil || !strings.EqualFold(r.Scheme, u.Scheme) || !strings.EqualFold(r.Host, u.Host) || hidesPath(u) {
		return false
	}
	if u.Path != "" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/" {
		return false // servers read dots in a path differently
	}
	above := strings.TrimSuffix(r.EscapedPath(), "/")
	return above == u.EscapedPath() || strings.HasPrefix(u.EscapedPath(), above+"/")
}

// hidesPath reports whether a path contains encoded or otherwise hidden slashes or dots, which servers and proxies may resolve
// differently.
func hidesPath(u *url.URL) bool {
	text := strings.ToLower(u.EscapedPath())
	return strings.Contains(text, "%2f") || strings.Contains(text, "%2e") || strings.Contains(text, "%5c") || strings.Contains(text, `\`) ||
		strings.Contains(text, "/..;") || strings.Contains(text, "/.;")
}

// wellKnown inserts a well-known name between origin and path of a URL (RFC 8414 section 3.1, RFC 9728 section 3.1).
func wellKnown(u *url.URL, name string) string {
	out := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/.well-known/" + name + strings.TrimSuffix(u.Path, "/")}
	return out.String()
}

// WantsDPoP reports whether tokens for the resource are to be bound to a key, because the challenge or the metadata asks for
// it and the authorization server supports it.
func (f *Resource) WantsDPoP(server *Server, c Challenge) bool {
	if !slices.Contains(server.DPoPAlgorithms, "ES256") {
		return false
	}
	if c.Scheme == "dpop" {
		return true
	}
	return f.Metadata != nil && (f.Metadata.DPOPBoundAccessTokensRequired ||
		slices.Contains(f.Metadata.DPOPSigningAlgValuesSupported, "ES256"))
}
