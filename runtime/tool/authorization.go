package tool

import (
	"iter"
	"net/http"
	"net/url"
)

// Grant names how Holdpoint gets tokens for a skill's server.
type Grant = string

// The grants. The empty one is [AuthorizationCode].
const (
	// AuthorizationCode asks a person once, in the browser (RFC 6749 section 4.1, with PKCE).
	AuthorizationCode Grant = "authorization_code"
	// ClientCredentials needs no person (RFC 6749 section 4.4).
	ClientCredentials Grant = "client_credentials"
	// EnterpriseManaged exchanges an identity provider's assertion about a person for a token
	// (RFC 8693, then RFC 7523 with an ID-JAG).
	EnterpriseManaged Grant = "enterprise_managed"
	// WorkloadIdentity presents the server's own workload token (RFC 7523 section 2.1).
	WorkloadIdentity Grant = "workload_identity"
)

// Unattended reports whether a grant involves no person.
func Unattended(grant Grant) bool { return grant == ClientCredentials || grant == WorkloadIdentity }

// TakesTokens reports whether Holdpoint gets tokens for a skill's server: it uses HTTP, and the operator gave no credentials, neither in
// the URL nor as a header Authorization.
func TakesTokens(transport Transport, serverURL string, headerNames iter.Seq[string]) bool {
	u, err := url.Parse(serverURL)
	if transport == Stdio || serverURL == "" || err != nil || u.User != nil {
		return false
	}
	for name := range headerNames {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return false
		}
	}
	return true
}

// The methods of client authentication at a token endpoint, by their registered names (RFC 7591 section 2). Empty: as the authorization
// server's metadata says.
const (
	AuthBasic      = "client_secret_basic"
	AuthPost       = "client_secret_post"
	AuthPrivateKey = "private_key_jwt"
	AuthNone       = "none"
)

// Authorization has an operator's settings for authorization at a skill's server. The zero value suffices if a person can be asked: all
// else is discovered. It has secrets.
type Authorization struct {
	Grant        Grant
	Issuer       string   // the authorization server; empty: the one that the server names
	ClientID     string   // of a registered client; empty: Holdpoint registers one when needed
	ClientSecret string   // secret
	AuthMethod   string   // empty: by the authorization server's metadata
	PrivateKey   string   // secret: PEM (PKCS #8), for private_key_jwt; empty: Holdpoint's own key
	Scopes       []string // empty: those that the server asks for
	// TrustOrigin lets the server's metadata name a resource above its own URL, such as its whole origin. Tokens are then valid for
	// everything at that resource.
	TrustOrigin bool

	// Of the enterprise's identity provider (grant enterprise_managed).
	IDPIssuer       string
	IDPClientID     string
	IDPClientSecret string // secret
}
