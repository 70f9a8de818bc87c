package agent

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// OAuthSpec says how a skill's server is authorized to. A field that is left out has its
// default, or is discovered. What the fields mean is told at [tool.Authorization].
type OAuthSpec struct {
	Grant        tool.Grant `json:"grant,omitempty"` // default authorization_code
	Issuer       string     `json:"issuer,omitempty"`
	ClientID     string     `json:"client_id,omitempty"`
	ClientSecret string     `json:"client_secret,omitempty"` // secret
	AuthMethod   string     `json:"auth_method,omitempty"`
	PrivateKey   string     `json:"private_key,omitempty"` // secret
	Scopes       []string   `json:"scopes,omitempty"`
	TrustOrigin  bool       `json:"trust_origin,omitempty"`
	IDP          *IDPSpec   `json:"idp,omitempty"` // only with grant enterprise_managed
}

// IDPSpec is the enterprise's identity provider, and Holdpoint's client there.
type IDPSpec struct {
	Issuer       string `json:"issuer,omitempty"`
	ClientID     string `json:"client_id,omitempty"`
	ClientSecret string `json:"client_secret,omitempty"` // secret
}

// OAuthPatch changes a skill's OAuth settings; its zero value leaves them as they are.
// A secret that is left out stays while it is still of use to the same client: while
// issuer and client_id, or those of the idp, are what they were.
type OAuthPatch struct {
	_ struct{} `nullable:"true"`
	OAuthSpec
	Set    bool `json:"-"` // the OAuthSpec replaces them; in JSON, an object
	Remove bool `json:"-"` // there are none any more; in JSON, null
}

// UnmarshalJSON implements [json.Unmarshaler]. It tells null from what is left out, and is
// strict, since the strictness of who reads the whole ends here.
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

// The connections that a skill may have.
const (
	ConnectionShared  = "shared"   // one, for all; the default
	ConnectionPerUser = "per_user" // one for each person
)

func perUser(r report, connection string) bool {
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

// secrets are those that are set.
func (o *OAuthSpec) secrets() map[string]string {
	if o == nil {
		return nil
	}
	all := map[string]string{secretClient: o.ClientSecret, secretKey: o.PrivateKey, secretIDPClient: o.idp().ClientSecret}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// idp is empty where there is none.
func (o *OAuthSpec) idp() IDPSpec {
	if o.IDP == nil {
		return IDPSpec{}
	}
	return *o.IDP
}

// normal is a copy with its defaults filled in.
func (o *OAuthSpec) normal() *OAuthSpec {
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

// apply returns the settings that a patch makes of what was.
func (p OAuthPatch) apply(was *OAuthSpec) *OAuthSpec {
	if p.Remove {
		return nil
	}
	if !p.Set {
		return was
	}
	o := p.normal()
	if was == nil {
		return o
	}
	if o.Issuer == was.Issuer && o.ClientID == was.ClientID {
		keep(&o.ClientSecret, was.ClientSecret, o.usesSecret())
		keep(&o.PrivateKey, was.PrivateKey, o.usesKey())
	}
	if before := was.idp(); o.IDP != nil && o.IDP.Issuer == before.Issuer && o.IDP.ClientID == before.ClientID {
		keep(&o.IDP.ClientSecret, before.ClientSecret, true)
	}
	return o
}

func keep(secret *string, was string, of bool) {
	if *secret == "" && of {
		*secret = was
	}
}

// usesSecret reports whether the client may present its secret.
func (o *OAuthSpec) usesSecret() bool {
	return o.AuthMethod == "" || o.AuthMethod == tool.AuthBasic || o.AuthMethod == tool.AuthPost
}

// usesKey reports whether the client may sign with a key.
func (o *OAuthSpec) usesKey() bool { return o.AuthMethod == "" || o.AuthMethod == tool.AuthPrivateKey }

// open is what is shown, and stored in clear.
func (o *OAuthSpec) open() *OAuth {
	if o == nil {
		return nil
	}
	return &OAuth{
		Grant: o.Grant, Issuer: o.Issuer, ClientID: o.ClientID, AuthMethod: o.AuthMethod, Scopes: o.Scopes, TrustOrigin: o.TrustOrigin,
		IDPIssuer: o.idp().Issuer, IDPClientID: o.idp().ClientID, Secrets: slices.Sorted(maps.Keys(o.secrets())),
	}
}

// with is the way back.
func (o *OAuth) with(secrets map[string]string) *OAuthSpec {
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

// authorization is what a Source is told.
func (o *OAuthSpec) authorization() tool.Authorization {
	if o == nil {
		return tool.Authorization{}
	}
	idp := o.idp()
	return tool.Authorization{
		Grant: o.Grant, Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret,
		AuthMethod: o.AuthMethod, PrivateKey: o.PrivateKey, Scopes: o.Scopes, TrustOrigin: o.TrustOrigin,
		IDPIssuer: idp.Issuer, IDPClientID: idp.ClientID, IDPClientSecret: idp.ClientSecret,
	}
}

// fields are those of a skill's OAuth settings.
func (o *OAuthSpec) fields() []field {
	if o == nil {
		return nil
	}
	idp, scopes, trust := o.idp(), "", ""
	if o.TrustOrigin {
		trust = "true"
	}
	if len(o.Scopes) > 0 {
		scopes = jsonText(o.Scopes)
	}
	list := []field{
		{name: "grant", value: o.Grant},
		{name: "issuer", value: o.Issuer},
		{name: "client_id", value: o.ClientID},
		{name: secretClient, value: o.ClientSecret, secret: true},
		{name: "auth_method", value: o.AuthMethod},
		{name: secretKey, value: o.PrivateKey, secret: true},
		{name: "scopes", value: scopes},
		{name: "trust_origin", value: trust},
		{name: "idp.issuer", value: idp.Issuer},
		{name: "idp.client_id", value: idp.ClientID},
		{name: secretIDPClient, value: idp.ClientSecret, secret: true},
	}
	list = slices.DeleteFunc(list, func(f field) bool { return f.value == "" })
	for i := range list {
		list[i].name = "oauth." + list[i].name
	}
	return list
}
