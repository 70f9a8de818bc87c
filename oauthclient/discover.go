package oauthclient

import (
	"context"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Server is the metadata of an authorization server.
type Server struct {
	oauthex.AuthServerMeta
	DPoPAlgorithms []string `json:"dpop_signing_alg_values_supported,omitempty"`
}

// found is what discovery found out about a skill's server.
type found struct {
	resource string                             // the identifier that tokens are asked for
	metadata *oauthex.ProtectedResourceMetadata // nil when legacy
	issuers  []string                           // never empty
	servers  map[string]*Server                 // by issuer, those that were read
	// legacy: the server has no metadata (MCP 2025-03-26), and its own origin is the authorization server.
	legacy bool
	read   time.Time // when it was, by Now
}

// foundKey is what discovery depends on, besides what a server says.
type foundKey struct {
	skill             uuid.UUID
	url, issuer, used string
	trustOrigin       bool
}

// slim keeps of a document what is used of it: it is remembered, and its size was the server's choice.
func (m *Server) slim() *Server {
	kept := &Server{}
	kept.Issuer, kept.AuthorizationEndpoint, kept.TokenEndpoint = m.Issuer, m.AuthorizationEndpoint, m.TokenEndpoint
	kept.RegistrationEndpoint, kept.RevocationEndpoint, kept.JWKSURI = m.RegistrationEndpoint, m.RevocationEndpoint, m.JWKSURI
	kept.ScopesSupported = m.ScopesSupported
	kept.TokenEndpointAuthMethodsSupported = few(m.TokenEndpointAuthMethodsSupported)
	kept.CodeChallengeMethodsSupported = few(m.CodeChallengeMethodsSupported)
	kept.DPoPAlgorithms = few(m.DPoPAlgorithms)
	kept.ClientIDMetadataDocumentSupported = m.ClientIDMetadataDocumentSupported
	kept.AuthorizationResponseIssParameterSupported = m.AuthorizationResponseIssParameterSupported
	return kept
}

// few bounds a list of registered names.
func few(names []string) []string { return names[:min(len(names), maxIssuers)] }

// size is about what is remembered of a server, in bytes.
func (f *found) size() int {
	n := 1024 + len(f.resource)
	for _, issuer := range f.issuers {
		n += len(issuer)
	}
	if f.metadata != nil {
		n += len(strings.Join(f.metadata.ScopesSupported, " "))
	}
	for _, m := range f.servers {
		n += 1024 + len(strings.Join(m.ScopesSupported, " ")) + len(strings.Join(m.TokenEndpointAuthMethodsSupported, " "))
	}
	return n
}

// resourceURL is a skill's URL without what is no part of a resource identifier
// (RFC 8707 section 2): fragment, query, which may hold a secret, and a slash alone.
func resourceURL(skill *url.URL) string {
	u := *skill
	u.Fragment, u.RawFragment, u.User, u.RawQuery, u.ForceQuery = "", "", nil, "", false
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if u.Path == "/" {
		u.Path = ""
	}
	return u.String()
}

// covers reports whether a resource identifier stands for a URL: the same origin, and the same path
// or one above it. A token for the resource may be sent there, and nowhere else.
func covers(resource, address string) bool {
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
		return false // dots in it: where it leads, the server decides
	}
	above := strings.TrimSuffix(r.EscapedPath(), "/")
	return above == u.EscapedPath() || strings.HasPrefix(u.EscapedPath(), above+"/")
}

// sameResource reports whether a resource identifier is a skill's own URL.
func sameResource(resource string, skill *url.URL) bool {
	r, err := url.Parse(resource)
	return err == nil && oauthex.MatchesResource([]string{resourceURL(r)}, resourceURL(skill))
}

// hidesPath reports whether a path has slashes or dots that not everybody sees.
func hidesPath(u *url.URL) bool {
	text := strings.ToLower(u.EscapedPath())
	return strings.Contains(text, "%2f") || strings.Contains(text, "%2e") || strings.Contains(text, "%5c") || strings.Contains(text, `\`) ||
		strings.Contains(text, "/..;") || strings.Contains(text, "/.;")
}

// wellKnown puts a well-known name between the origin and the path of a URL.
func wellKnown(u *url.URL, name string) string {
	out := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/.well-known/" + name + strings.TrimSuffix(u.Path, "/")}
	return out.String()
}

// discover reads what a skill's server says of its authorization: the document that the challenge names,
// else that of its path, else that of its root (RFC 9728 section 3.1), then the metadata of the authorization
// server, if it is clear which. used is the one that the connection has tokens of, if any.
func (s *Service) discover(ctx context.Context, t Target, c Challenge, used string) (*found, error) {
	skill, err := url.Parse(t.URL)
	if err != nil {
		return nil, fail(StepResource, err, "the skill's URL cannot be read")
	}
	f, err := s.resourceMetadata(ctx, &t, skill, c)
	if err != nil {
		return nil, err
	}
	issuer, err := f.choose(t.Settings.Issuer, used)
	if err != nil || issuer == "" {
		return f, err
	}
	return f, s.readServer(ctx, t.own(), f, issuer)
}

// resourceMetadata finds the protected-resource metadata.
func (s *Service) resourceMetadata(ctx context.Context, t *Target, skill *url.URL, c Challenge) (*found, error) {
	places := []string{wellKnown(skill, "oauth-protected-resource")}
	if root := wellKnown(&url.URL{Scheme: skill.Scheme, Host: skill.Host}, "oauth-protected-resource"); root != places[0] {
		places = append(places, root)
	}
	if c.ResourceMetadata != "" {
		places = []string{c.ResourceMetadata}
	}
	for _, place := range places {
		var m oauthex.ProtectedResourceMetadata
		err := s.getJSON(ctx, t.own(), place, &m)
		if missing(err) && c.ResourceMetadata == "" {
			continue
		}
		if err != nil {
			return nil, fail(StepResource, err, "%s: %s", plain(place, 200), err)
		}
		return s.checkResource(t, skill, place, &m)
	}
	return &found{
		resource: resourceURL(skill), legacy: true, issuers: []string{legacyIssuer(skill)}, servers: map[string]*Server{},
	}, nil
}

func (s *Service) checkResource(t *Target, skill *url.URL, place string, m *oauthex.ProtectedResourceMetadata) (*found, error) {
	if !covers(m.Resource, resourceURL(skill)) {
		return nil, fail(StepResource, nil, "%s is about the resource %q, but the skill's server is %q",
			plain(place, 200), plain(m.Resource, 200), plain(resourceURL(skill), 200))
	}
	if !t.Settings.TrustOrigin && !sameResource(m.Resource, skill) {
		// RFC 9728 section 3.3. On a host with several tenants the token would be good for all of them.
		return nil, fail(StepResource, nil, "%s is about the resource %q, which is more than the skill's server, %q: if all of it may be trusted with the skill's tokens, "+
			"set the skill's oauth.trust_origin", plain(place, 200), plain(m.Resource, 200), plain(resourceURL(skill), 200))
	}
	f := &found{resource: m.Resource, servers: map[string]*Server{}, metadata: &oauthex.ProtectedResourceMetadata{
		Resource: m.Resource, ScopesSupported: splitScopes(strings.Join(m.ScopesSupported, " ")),
		DPOPSigningAlgValuesSupported: few(m.DPOPSigningAlgValuesSupported), DPOPBoundAccessTokensRequired: m.DPOPBoundAccessTokensRequired,
	}}
	for _, issuer := range m.AuthorizationServers {
		if _, err := s.checkURL(t.own(), issuer); err != nil {
			return nil, fail(StepResource, err, "%s names an authorization server whose URL cannot be used: %s", plain(place, 200), err)
		}
		if !slices.Contains(f.issuers, issuer) && len(f.issuers) < maxIssuers {
			f.issuers = append(f.issuers, issuer)
		}
	}
	if len(f.issuers) == 0 {
		return nil, fail(StepResource, nil, "%s names no authorization server", plain(place, 200))
	}
	return f, nil
}

const maxIssuers = 20

// legacyIssuer is where the servers of MCP 2025-03-26 have their authorization server.
func legacyIssuer(skill *url.URL) string { return skill.Scheme + "://" + skill.Host }

// choose is the issuer to use: the one that was set, or the only one, or the one that was chosen before. Empty: somebody
// has to choose.
func (f *found) choose(wanted, used string) (string, error) {
	switch {
	case wanted == "" && len(f.issuers) == 1:
		return f.issuers[0], nil
	case wanted == "" && slices.Contains(f.issuers, used):
		return used, nil
	case wanted == "":
		return "", nil
	case slices.Contains(f.issuers, wanted):
		return wanted, nil
	}
	for _, issuer := range f.issuers {
		if sameIssuer(issuer, wanted) {
			return issuer, nil
		}
	}
	return "", fail(StepServer, nil, "the authorization server %s is not one that the skill's server names: %s",
		plain(wanted, 200), plain(strings.Join(f.issuers, ", "), 400))
}

// readServer reads an authorization server's metadata into f.
func (s *Service) readServer(ctx context.Context, own string, f *found, issuer string) error {
	if f.servers[issuer] != nil {
		return nil
	}
	server, err := s.serverMetadata(ctx, own, issuer)
	if err == nil && server == nil {
		if !f.legacy {
			return fail(StepServer, nil, "%s has no metadata, neither of OAuth nor of OpenID Connect", plain(issuer, 200))
		}
		server = legacyServer(issuer)
	}
	if err != nil {
		return err
	}
	f.servers[issuer] = server
	return nil
}

// serverMetadata reads the metadata of an issuer, from the places and in the order that the specification of MCP
// gives. Nil: there is none anywhere.
func (s *Service) serverMetadata(ctx context.Context, own, issuer string) (*Server, error) {
	u, err := s.checkURL(own, issuer)
	if err != nil {
		return nil, fail(StepServer, err, "its URL cannot be used: %s", err)
	}
	places := []string{wellKnown(u, "oauth-authorization-server"), wellKnown(u, "openid-configuration")}
	if p := strings.TrimSuffix(u.Path, "/"); p != "" {
		places = append(places, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
	}
	for _, place := range places {
		var m Server
		err := s.getJSON(ctx, own, place, &m)
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, fail(StepServer, err, "%s: %s", plain(place, 200), err)
		}
		if !sameIssuer(m.Issuer, issuer) {
			return nil, fail(StepServer, nil, "the metadata at %s is that of the issuer %q, but %q was asked for",
				plain(place, 200), plain(m.Issuer, 200), plain(issuer, 200))
		}
		if err := s.checkServer(own, &m); err != nil {
			return nil, err
		}
		return m.slim(), nil
	}
	return nil, nil
}

// sameIssuer compares issuer identifiers, which have to be identical (RFC 8414 section 3.3). An
// origin with and without the slash after it is one URL (RFC 3986 section 6.2.3), and
// common frameworks write what they read without one with one.
func sameIssuer(a, b string) bool {
	if a == b {
		return true
	}
	u, err := url.Parse(a)
	return err == nil && u.RawQuery == "" && (u.Path == "" || u.Path == "/") && strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// checkServer checks the URLs that will be used. Whether PKCE is supported matters to one grant only.
func (s *Service) checkServer(own string, m *Server) error {
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
		if _, err := s.checkURL(own, u.value); err != nil {
			return fail(StepServer, err, "%s of %s: %s", u.name, plain(m.Issuer, 200), err)
		}
	}
	m.ScopesSupported = splitScopes(strings.Join(m.ScopesSupported, " "))
	return nil
}

// legacyServer has the default endpoints of MCP 2025-03-26.
func legacyServer(issuer string) *Server {
	base := strings.TrimSuffix(issuer, "/")
	m := &Server{}
	m.Issuer = issuer
	m.AuthorizationEndpoint, m.TokenEndpoint, m.RegistrationEndpoint = base+"/authorize", base+"/token", base+"/register"
	m.CodeChallengeMethodsSupported = []string{"S256"} // the revision demands it, and cannot say so
	return m
}
