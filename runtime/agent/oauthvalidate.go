package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	maxScopes     = 100
	maxScope      = 256
	maxClientID   = 2048 // it may be a URL
	maxSecret     = 8192
	maxPrivateKey = 16 << 10
	minRSABits    = 2048 // RFC 7518 section 3.3
)

// scopeForm is RFC 6749's scope-token (section 3.3).
var scopeForm = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]+$`)

// validateOAuth checks how a server is authorized to.
func (s *skillState) validateOAuth(r report) {
	_, static := s.Headers["Authorization"]
	if s.OAuth == nil {
		r.below("headers").check(!static || !s.PerUser, "Authorization",
			"is the same for everybody: remove it, or connection per_user")
		return
	}
	r.below("headers").check(!static, "Authorization", "is what oauth is for: remove one of the two")
	s.OAuth.validate(r.below("oauth"))
	r.check(!s.PerUser || !tool.Unattended(s.OAuth.Grant), "connection",
		"per_user needs grant authorization_code or enterprise_managed")
}

func (o *OAuthSpec) validate(r report) {
	switch o.Grant {
	case tool.AuthorizationCode, tool.ClientCredentials, tool.EnterpriseManaged, tool.WorkloadIdentity:
	default:
		r.add("grant", "must be authorization_code, client_credentials, enterprise_managed or workload_identity")
	}
	r.issuer("issuer", o.Issuer)
	r.check(o.Grant != tool.WorkloadIdentity || o.Issuer != "", "issuer",
		"is required for grant workload_identity: otherwise the skill's server would say where this server's own token goes")
	r.check(o.ClientID != "" || !tool.Unattended(o.Grant), "client_id", "is required for grant "+o.Grant)
	r.line("client_id", o.ClientID, maxClientID)
	o.validateClient(r)
	r.scopes(o.Scopes)
	idp := o.idp()
	if o.Grant != tool.EnterpriseManaged {
		r.check(o.IDP == nil, "idp", "belongs to grant enterprise_managed")
		return
	}
	r.check(idp.Issuer != "", "idp.issuer", "is required for grant enterprise_managed")
	r.check(idp.ClientID != "", "idp.client_id", "is required for grant enterprise_managed")
	r.issuer("idp.issuer", idp.Issuer)
	r.line("idp.client_id", idp.ClientID, maxClientID)
	r.line(secretIDPClient, idp.ClientSecret, maxSecret)
}

// validateClient checks how the client authenticates itself.
func (o *OAuthSpec) validateClient(r report) {
	switch o.AuthMethod {
	case "", tool.AuthPrivateKey:
	case tool.AuthBasic, tool.AuthPost:
		r.check(o.ClientID == "" || o.ClientSecret != "", secretClient, "is required for auth_method "+o.AuthMethod)
	case tool.AuthNone:
		// RFC 6749 section 4.4: only for clients that authenticate themselves.
		r.check(o.Grant != tool.ClientCredentials, "auth_method", "none is not possible with grant client_credentials")
	default:
		r.add("auth_method", "must be client_secret_basic, client_secret_post, private_key_jwt or none")
		return
	}
	if o.ClientSecret != "" {
		r.check(o.ClientID != "", "client_id", "is required with client_secret")
		r.check(o.usesSecret(), secretClient, "is not used by auth_method "+o.AuthMethod)
		r.line(secretClient, o.ClientSecret, maxSecret)
	}
	if o.PrivateKey != "" {
		r.check(o.usesKey(), secretKey, "belongs to auth_method private_key_jwt")
		r.check(usableKey(o.PrivateKey), secretKey,
			"must be PEM of one PKCS #8 key (PRIVATE KEY): EC on P-256, P-384 or P-521, or RSA with 2048 bits or more")
	}
}

// issuer checks an issuer identifier (RFC 8414 section 2), if there is one. Whether http will
// do is not decided here: the OAuth client knows which hosts are trusted.
func (r report) issuer(field, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	r.check(err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil &&
		len(text) <= maxURLLength && !strings.ContainsAny(text, "?#") && !strings.ContainsFunc(text, unicode.IsControl),
		field, "must be an absolute https URL without query, fragment, user or password")
}

// line checks text that goes into a form or a header, if there is any.
func (r report) line(field, text string, limit int) {
	r.check(len(text) <= limit && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl),
		field, fmt.Sprintf("must be at most %d bytes of text without control characters", limit))
}

func (r report) scopes(scopes []string) {
	r.check(len(scopes) <= maxScopes, "scopes", fmt.Sprintf("must be at most %d", maxScopes))
	seen := map[string]bool{}
	for i, scope := range scopes {
		at := indexed("scopes", i)
		r.check(len(scope) <= maxScope && scopeForm.MatchString(scope), at,
			fmt.Sprintf(`must be one scope: 1 to %d visible ASCII characters other than " and \`, maxScope))
		r.check(!seen[scope], at, "is named twice")
		seen[scope] = true
	}
}

// usableKey reports whether text is one private key that assertions can be signed with.
func usableKey(text string) bool {
	if len(text) > maxPrivateKey {
		return false
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PRIVATE KEY" || strings.TrimSpace(string(rest)) != "" {
		return false
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return false
	}
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		return key.Curve == elliptic.P256() || key.Curve == elliptic.P384() || key.Curve == elliptic.P521()
	case *rsa.PrivateKey:
		return key.N.BitLen() >= minRSABits
	}
	return false
}
