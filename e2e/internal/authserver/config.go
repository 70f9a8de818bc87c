package authserver

import (
	"encoding/json"
	"slices"
)

// Config is how an authorization server is started.
type Config struct {
	// Clients are registered from the beginning; AddClient registers more.
	Clients []Client
	// Resources are the scopes by resource indicator; AddResource adds more. A token is issued
	// only for these, as a JWT with the resource as its audience; others get invalid_target.
	Resources map[string][]string
	// Scopes are all that the server knows. Nil: DefaultScopes. Those of resources must be among
	// them; openid and offline_access are always.
	Scopes []string
	// Path is where the issuer is on its host, such as "/tenant". Empty: at the root.
	Path string
	// ClaimsInIDToken are there as well as at the userinfo endpoint.
	ClaimsInIDToken bool
	// AccessTokenSeconds is the lifetime of access tokens. Zero: an hour.
	AccessTokenSeconds int
	// Registration switches dynamic client registration on.
	Registration bool
	// InitialAccessToken is required for registration. Empty: no token.
	InitialAccessToken string
}

// DefaultScopes are those of the tools of package protected.
var DefaultScopes = []string{"tools", "tools:write", "tools:admin"}

// Client is one client, registered beforehand.
type Client struct {
	ID     string
	Secret string
	// AuthMethod is client_secret_basic, client_secret_post, private_key_jwt or none. Empty:
	// client_secret_basic with a secret, private_key_jwt with keys, else none.
	AuthMethod string
	// GrantTypes. Nil: authorization_code and refresh_token with redirect URIs, else
	// client_credentials.
	GrantTypes   []string
	RedirectURIs []string
	// JWKSURI or JWKS are the keys of private_key_jwt.
	JWKSURI string
	JWKS    json.RawMessage
	// SigningAlgorithm is the required algorithm of assertions. Empty: any asymmetric one.
	SigningAlgorithm string
	// Scope limits the scopes of the client. Empty: all.
	Scope string
}

// MarshalJSON gives the metadata of RFC 7591.
func (c Client) MarshalJSON() ([]byte, error) {
	m := map[string]any{
		"client_id": c.ID, "grant_types": c.grantTypes(), "redirect_uris": []string{},
		"response_types": []string{}, "token_endpoint_auth_method": c.authMethod(),
	}
	if len(c.RedirectURIs) > 0 {
		m["redirect_uris"] = c.RedirectURIs
	}
	if slices.Contains(c.grantTypes(), "authorization_code") {
		m["response_types"] = []string{"code"}
	}
	for name, value := range map[string]string{
		"client_secret": c.Secret, "jwks_uri": c.JWKSURI, "scope": c.Scope,
		"token_endpoint_auth_signing_alg": c.SigningAlgorithm,
	} {
		if value != "" {
			m[name] = value
		}
	}
	if c.JWKS != nil {
		m["jwks"] = c.JWKS
	}
	return json.Marshal(m)
}

func (c Client) authMethod() string {
	switch {
	case c.AuthMethod != "":
		return c.AuthMethod
	case c.Secret != "":
		return "client_secret_basic"
	case c.JWKSURI != "" || c.JWKS != nil:
		return "private_key_jwt"
	default:
		return "none"
	}
}

func (c Client) grantTypes() []string {
	switch {
	case c.GrantTypes != nil:
		return c.GrantTypes
	case len(c.RedirectURIs) > 0:
		return []string{"authorization_code", "refresh_token"}
	default:
		return []string{"client_credentials"}
	}
}

// resource is a resource as the script knows it.
type resource struct {
	URL    string   `json:"url"`
	Scopes []string `json:"scopes"`
}

// scriptConfig is the configuration as server.mjs reads it.
func (c Config) scriptConfig(issuer string) ([]byte, error) {
	if c.Scopes == nil {
		c.Scopes = DefaultScopes
	}
	if c.AccessTokenSeconds == 0 {
		c.AccessTokenSeconds = 3600
	}
	resources := []resource{}
	for url, scopes := range c.Resources {
		resources = append(resources, resource{URL: url, Scopes: scopes})
	}
	clients := c.Clients
	if clients == nil {
		clients = []Client{}
	}
	return json.Marshal(map[string]any{
		"issuer": issuer, "clients": clients, "resources": resources,
		"scopes":             append([]string{"openid", "offline_access"}, c.Scopes...),
		"accessTokenSeconds": c.AccessTokenSeconds, "claimsInIDToken": c.ClaimsInIDToken,
		"registration": c.Registration, "initialAccessToken": c.InitialAccessToken,
	})
}
