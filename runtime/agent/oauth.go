package agent

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// OAuthSpec says how Holdpoint gets tokens for a skill's server. A missing field has its default, or is discovered.
// [tool.Authorization] explains the fields.
type OAuthSpec struct {
	Grant        tool.Grant `json:"grant,omitempty" values:"authorization_code|client_credentials|enterprise_managed|workload_identity" otherwise:"authorization_code" doc:"How tokens are got: by a person who connects (authorization_code), by the client itself (client_credentials), by the sign-in of the enterprise (enterprise_managed), or by the identity of this server (workload_identity)."` // default authorization_code
	Issuer       string     `json:"issuer,omitempty" otherwise:"discovered" doc:"The authorization server."`
	ClientID     string     `json:"client_id,omitempty" otherwise:"Holdpoint registers one" doc:"The client at the authorization server."`
	ClientSecret string     `json:"client_secret,omitempty" manifest:"secret" doc:"The secret of the client."` // secret
	AuthMethod   string     `json:"auth_method,omitempty" values:"client_secret_basic|client_secret_post|private_key_jwt|none" otherwise:"by what it has" doc:"How the client authenticates itself."`
	PrivateKey   string     `json:"private_key,omitempty" manifest:"secret" doc:"The key that the client signs with, as PEM (PKCS #8)."` // secret
	Scopes       []string   `json:"scopes,omitempty" otherwise:"those that the server names" doc:"The scopes that are asked for."`
	TrustOrigin  bool       `json:"trust_origin,omitempty" doc:"Whether a token is also accepted that was issued for the origin of the server instead of its URL."`
	IDP          *IDPSpec   `json:"idp,omitempty" doc:"The enterprise's identity provider. Required with grant enterprise_managed."` // only with grant enterprise_managed
}

// IDPSpec is the enterprise's identity provider, with Holdpoint's client there.
type IDPSpec struct {
	Issuer       string `json:"issuer,omitempty" manifest:"required" doc:"The identity provider."`
	ClientID     string `json:"client_id,omitempty" manifest:"required" doc:"Holdpoint's client at the identity provider."`
	ClientSecret string `json:"client_secret,omitempty" manifest:"secret" doc:"The secret of this client."` // secret
}

// OAuthPatch changes a skill's OAuth settings; its zero value leaves them as they are. A missing secret stays while the client is
// the same, which means issuer and client_id, and uses the secret.
type OAuthPatch struct {
	_ struct{} `nullable:"true"`
	OAuthSpec
	Set    bool `json:"-"` // the OAuthSpec replaces the settings; in JSON, an object
	Remove bool `json:"-"` // removes the settings; in JSON, null
}

// UnmarshalJSON implements [json.Unmarshaler]. It tells null from a missing member. It rejects unknown members itself, because the
// outer decoder's options do not apply here.
func (p *OAuthPatch) UnmarshalJSON(text []byte) error {
	*p = OAuthPatch{}
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		p.Remove = true
		return nil
	}
	p.Set = true
	return jsonv2.Unmarshal(text, &p.OAuthSpec, jsonv2.RejectUnknownMembers(true))
}

// MarshalJSON implements [json.Marshaler].
func (p OAuthPatch) MarshalJSON() ([]byte, error) {
	if p.Remove {
		return []byte("null"), nil
	}
	return json.Marshal(p.OAuthSpec)
}

// The kinds of connections of a skill.
const (
	ConnectionShared  = "shared"   // one for all people; the default
	ConnectionPerUser = "per_user" // one for each person
)

func parseConnection(r report, connection string) bool {
	r.check(connection == "" || connection == ConnectionShared || connection == ConnectionPerUser,
		"connection", "must be shared or per_user")
	return connection == ConnectionPerUser
}

// Secrets of OAuth settings, by their paths below oauth.
const (
	secretClient    = "client_secret"
	secretKey       = "private_key"
	secretIDPClient = "idp.client_secret" //nolint:gosec // the name of a field
)

// listSecrets returns the secrets that are set.
func (o *OAuthSpec) listSecrets() map[string]string {
	if o == nil {
		return nil
	}
	all := map[string]string{secretClient: o.ClientSecret, secretKey: o.PrivateKey, secretIDPClient: o.idpOrEmpty().ClientSecret}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// idpOrEmpty returns the identity provider, or a zero value.
func (o *OAuthSpec) idpOrEmpty() IDPSpec {
	if o.IDP == nil {
		return IDPSpec{}
	}
	return *o.IDP
}

// normalize returns a copy with defaults filled in.
func (o *OAuthSpec) normalize() *OAuthSpec {
	if o == nil {
		return nil
	}
	normal := *o
	if normal.Grant == "" {
		normal.Grant = tool.AuthorizationCode
	}
	normal.Scopes = slices.Clone(o.Scopes)
	if o.IDP != nil {
		idp := *o.IDP
		normal.IDP = &idp
	}
	return &normal
}

// applyTo returns the settings after a patch.
func (p OAuthPatch) applyTo(was *OAuthSpec) *OAuthSpec {
	if p.Remove {
		return nil
	}
	if !p.Set {
		return was
	}
	o := p.normalize()
	if was == nil {
		return o
	}
	if o.Issuer == was.Issuer && o.ClientID == was.ClientID {
		keepSecret(&o.ClientSecret, was.ClientSecret, o.usesSecret())
		keepSecret(&o.PrivateKey, was.PrivateKey, o.usesKey())
	}
	if before := was.idpOrEmpty(); o.IDP != nil && o.IDP.Issuer == before.Issuer && o.IDP.ClientID == before.ClientID {
		keepSecret(&o.IDP.ClientSecret, before.ClientSecret, true)
	}
	return o
}

func keepSecret(secret *string, was string, isUsed bool) {
	if *secret == "" && isUsed {
		*secret = was
	}
}

// usesSecret reports whether the client may present its secret.
func (o *OAuthSpec) usesSecret() bool {
	return o.AuthMethod == "" || o.AuthMethod == tool.AuthBasic || o.AuthMethod == tool.AuthPost
}

// usesKey reports whether the client may sign with a key.
func (o *OAuthSpec) usesKey() bool { return o.AuthMethod == "" || o.AuthMethod == tool.AuthPrivateKey }

// withoutSecrets returns the settings that are shown and stored in clear.
func (o *OAuthSpec) withoutSecrets() *OAuth {
	if o == nil {
		return nil
	}
	return &OAuth{
		Grant: o.Grant, Issuer: o.Issuer, ClientID: o.ClientID, AuthMethod: o.AuthMethod, Scopes: o.Scopes, TrustOrigin: o.TrustOrigin,
		IDPIssuer: o.idpOrEmpty().Issuer, IDPClientID: o.idpOrEmpty().ClientID, Secrets: slices.Sorted(maps.Keys(o.listSecrets())),
	}
}

// withSecrets reverses withoutSecrets.
func (o *OAuth) withSecrets(secrets map[string]string) *OAuthSpec {
	if o == nil {
		return nil
	}
	spec := &OAuthSpec{
		Grant: o.Grant, Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: secrets[secretClient],
		AuthMethod: o.AuthMethod, PrivateKey: secrets[secretKey], Scopes: o.Scopes, TrustOrigin: o.TrustOrigin,
	}
	if o.IDPIssuer != "" {
		spec.IDP = &IDPSpec{Issuer: o.IDPIssuer, ClientID: o.IDPClientID, ClientSecret: secrets[secretIDPClient]}
	}
	return spec
}

// buildAuthorization returns the settings for a source.
func (o *OAuthSpec) buildAuthorization() tool.Authorization {
	if o == nil {
		return tool.Authorization{}
	}
	idp := o.idpOrEmpty()
	return tool.Authorization{
		Grant: o.Grant, Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret,
		AuthMethod: o.AuthMethod, PrivateKey: o.PrivateKey, Scopes: o.Scopes, TrustOrigin: o.TrustOrigin,
		IDPIssuer: idp.Issuer, IDPClientID: idp.ClientID, IDPClientSecret: idp.ClientSecret,
	}
}

// listFields lists the fields of a skill's OAuth settings.
func (o *OAuthSpec) listFields() []field {
	if o == nil {
		return nil
	}
	var list fieldList
	list.add("oauth.grant", o.Grant)
	list.add("oauth.issuer", o.Issuer)
	list.add("oauth.client_id", o.ClientID)
	list.addSecret("oauth."+secretClient, o.ClientSecret)
	list.add("oauth.auth_method", o.AuthMethod)
	list.addSecret("oauth."+secretKey, o.PrivateKey)
	list.add("oauth.scopes", jsonText(o.Scopes))
	addNonZero(&list, "oauth.trust_origin", o.TrustOrigin, strconv.FormatBool)
	idp := o.idpOrEmpty()
	list.add("oauth.idp.issuer", idp.Issuer)
	list.add("oauth.idp.client_id", idp.ClientID)
	list.addSecret("oauth."+secretIDPClient, idp.ClientSecret)
	return list
}

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

// validateOAuth checks a skill's OAuth settings together with its headers.
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
	r.checkIssuer("issuer", o.Issuer)
	r.check(o.Grant != tool.WorkloadIdentity || o.Issuer != "", "issuer",
		"is required for grant workload_identity: otherwise the skill's server would say where this server's own token goes")
	r.check(o.ClientID != "" || !tool.Unattended(o.Grant), "client_id", "is required for grant "+o.Grant)
	r.checkLine("client_id", o.ClientID, maxClientID)
	o.validateClient(r)
	r.checkScopes(o.Scopes)
	idp := o.idpOrEmpty()
	if o.Grant != tool.EnterpriseManaged {
		r.check(o.IDP == nil, "idp", "belongs to grant enterprise_managed")
		return
	}
	r.check(idp.Issuer != "", "idp.issuer", "is required for grant enterprise_managed")
	r.check(idp.ClientID != "", "idp.client_id", "is required for grant enterprise_managed")
	r.checkIssuer("idp.issuer", idp.Issuer)
	r.checkLine("idp.client_id", idp.ClientID, maxClientID)
	r.checkLine(secretIDPClient, idp.ClientSecret, maxSecret)
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
		r.checkLine(secretClient, o.ClientSecret, maxSecret)
	}
	if o.PrivateKey != "" {
		r.check(o.usesKey(), secretKey, "belongs to auth_method private_key_jwt")
		r.check(isUsableKey(o.PrivateKey), secretKey,
			"must be PEM of one PKCS #8 key (PRIVATE KEY): EC on P-256, P-384 or P-521, or RSA with 2048 bits or more")
	}
}

// checkIssuer checks an issuer identifier (RFC 8414 section 2), if there is one. Whether http is allowed is decided later, by the
// OAuth client, which knows the trusted hosts.
func (r report) checkIssuer(field, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	r.check(err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil &&
		len(text) <= maxURLLength && !strings.ContainsAny(text, "?#") && !strings.ContainsFunc(text, unicode.IsControl),
		field, "must be an absolute https URL without query, fragment, user or password")
}

// checkLine checks optional text for a form or a header.
func (r report) checkLine(field, text string, limit int) {
	r.check(len(text) <= limit && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl),
		field, fmt.Sprintf("must be at most %d bytes of text without control characters", limit))
}

func (r report) checkScopes(scopes []string) {
	r.check(len(scopes) <= maxScopes, "scopes", fmt.Sprintf("must be at most %d", maxScopes))
	seen := map[string]bool{}
	for i, scope := range scopes {
		at := indexPath("scopes", i)
		r.check(len(scope) <= maxScope && scopeForm.MatchString(scope), at,
			fmt.Sprintf(`must be one scope: 1 to %d visible ASCII characters other than " and \`, maxScope))
		r.check(!seen[scope], at, "is named twice")
		seen[scope] = true
	}
}

// isUsableKey reports whether text is one private key that can sign assertions.
func isUsableKey(text string) bool {
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
