package agent_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// pemOf returns a private key in PEM.
func pemOf(t *testing.T, key any, err error) string {
	t.Helper()
	check(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func ecKey(t *testing.T, curve elliptic.Curve) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	return pemOf(t, key, err)
}

// skillWith returns a spec of one HTTP skill with more fields.
func skillWith(more string) string {
	return `{"skills":[{"name":"ledger","transport":"http","url":"https://mcp.example/mcp",` + more + `}]}`
}

func (w *world) findSkill(name string) (*agent.Skill, tool.Server) {
	w.t.Helper()
	found, err := w.SkillByName(w.t.Context(), name)
	check(w.t, err)
	skill, server, err := w.Skill(w.t.Context(), found.ID)
	check(w.t, err)
	if !reflect.DeepEqual(skill, found) {
		w.t.Errorf("by id %+v, by name %+v", skill, found)
	}
	return skill, server
}

func TestServerHasOAuthSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := ecKey(t, elliptic.P256())
	settings := tool.Authorization{
		Grant: tool.EnterpriseManaged, Issuer: "https://as.example/tenant", ClientID: "holdpoint", ClientSecret: "g3heim-client",
		PrivateKey: key, Scopes: []string{"ledger.write", "ledger.read"},
		IDPIssuer: "https://idp.example", IDPClientID: "at-idp", IDPClientSecret: "g3heim-idp",
	}
	text, err := json.Marshal(agent.OAuthSpec{
		Grant: settings.Grant, Issuer: settings.Issuer, ClientID: settings.ClientID, ClientSecret: settings.ClientSecret,
		PrivateKey: key, Scopes: settings.Scopes,
		IDP: &agent.IDPSpec{Issuer: settings.IDPIssuer, ClientID: settings.IDPClientID, ClientSecret: settings.IDPClientSecret},
	})
	check(t, err)
	declared := skillWith(`"connection":"per_user","oauth":` + string(text))
	changes := w.registry.ApplyJSON(declared)
	want := []string{
		"transport:  -> http", "url:  -> https://mcp.example/mcp", "oauth.grant:  -> enterprise_managed",
		"oauth.issuer:  -> https://as.example/tenant", "oauth.client_id:  -> holdpoint", "oauth.client_secret:  -> (secret) set",
		"oauth.private_key:  -> (secret) set", `oauth.scopes:  -> ["ledger.write","ledger.read"]`,
		"oauth.idp.issuer:  -> https://idp.example", "oauth.idp.client_id:  -> at-idp",
		"oauth.idp.client_secret:  -> (secret) set", "connection:  -> per_user", "auto_approve:  -> false",
		"trust_new_tools:  -> false", "approval_timeout:  -> 5m", "call_timeout:  -> 1m", "resources:  -> gated", "questions:  -> reviewer",
	}
	if got := formatFields(changes[0]); !slices.Equal(got, want) {
		t.Errorf("fields %q", got)
	}
	skill, server := w.findSkill("ledger")
	if !reflect.DeepEqual(server.Authorization, settings) || !server.PerUser || server.Principal != uuid.Nil {
		t.Errorf("server %+v", server)
	}
	shown := &agent.OAuth{
		Grant: settings.Grant, Issuer: settings.Issuer, ClientID: settings.ClientID, Scopes: settings.Scopes,
		IDPIssuer: settings.IDPIssuer, IDPClientID: settings.IDPClientID,
		Secrets: []string{"client_secret", "idp.client_secret", "private_key"},
	}
	if !reflect.DeepEqual(skill.OAuth, shown) || !skill.PerUser {
		t.Errorf("skill %+v", skill.OAuth)
	}
	if again := w.registry.ApplyJSON(declared); again[0].Action != agent.ActionUnchanged {
		t.Errorf("applied again: %+v", again)
	}
	line := strings.Split(key, "\n")[1]
	for _, secret := range []string{"g3heim", line} {
		for _, table := range []string{"skills", "audit_events"} {
			if n := w.db.Count(fmt.Sprintf(`%s x WHERE position('%s' in x::text) > 0`, table, secret)); n != 0 {
				t.Errorf("a secret is stored in clear in %s", table)
			}
		}
		if n := w.db.Count(`skills WHERE position('` + secret + `'::bytea in secrets) > 0`); n != 0 {
			t.Error("a secret is stored unencrypted")
		}
	}
	if n := w.db.Count(`audit_events WHERE action = 'skill.created' AND data::text LIKE '%oauth.client_secret%'`); n != 1 {
		t.Errorf("%d events tell of the secret's having been set", n)
	}
}

func TestOAuthDefaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(skillWith(`"auto_approve":false`))
	skill, server := w.findSkill("ledger")
	if skill.OAuth != nil || skill.PerUser || !reflect.DeepEqual(server.Authorization, tool.Authorization{}) || server.PerUser {
		t.Errorf("the spec without OAuth: %+v, %+v", skill, server)
	}
	changes := w.registry.ApplyJSON(skillWith(`"oauth":{}`))
	if got := formatFields(changes[0]); !slices.Equal(got, []string{"oauth.grant:  -> authorization_code"}) {
		t.Errorf("fields %q", got)
	}
	skill, server = w.findSkill("ledger")
	if !reflect.DeepEqual(skill.OAuth, &agent.OAuth{Grant: tool.AuthorizationCode}) ||
		!reflect.DeepEqual(server.Authorization, tool.Authorization{Grant: tool.AuthorizationCode}) || skill.Revision != 2 {
		t.Errorf("%+v, %+v", skill.OAuth, server)
	}
	changes = w.registry.ApplyJSON(skillWith(`"connection":"per_user"`))
	want := []string{"connection: shared -> per_user", "oauth.grant: authorization_code -> "}
	if got := formatFields(changes[0]); !slices.Equal(got, want) {
		t.Errorf("fields %q", got)
	}
	if skill, server = w.findSkill("ledger"); skill.OAuth != nil || !skill.PerUser || !server.PerUser {
		t.Errorf("%+v, %+v", skill, server)
	}
}

func TestOAuthIsValidated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	quoted := func(text string) string {
		quoted, err := json.Marshal(text)
		check(t, err)
		return string(quoted)
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	smallKey := pemOf(t, small, err)
	_, other, err := ed25519.GenerateKey(rand.Reader)
	otherKey, good := pemOf(t, other, err), ecKey(t, elliptic.P256())
	secret := func(issuer string) string { return `"oauth":{"issuer":` + quoted(issuer) + `}` }
	private := func(key string) string { return `"oauth":{"client_id":"c","private_key":` + quoted(key) + `}` }
	for name, tc := range map[string]struct{ more, path string }{
		"grant":                     {`"oauth":{"grant":"password"}`, "oauth.grant"},
		"relative issuer":           {secret("as.example"), "oauth.issuer"},
		"scheme of the issuer":      {secret("ftp://as.example"), "oauth.issuer"},
		"issuer with a query":       {secret("https://as.example/?"), "oauth.issuer"},
		"issuer with a fragment":    {secret("https://as.example/#"), "oauth.issuer"},
		"issuer with a password":    {secret("https://u:p@as.example/"), "oauth.issuer"},
		"issuer without host":       {secret("https:///as"), "oauth.issuer"},
		"long issuer":               {secret("https://as.example/" + strings.Repeat("a", 2048)), "oauth.issuer"},
		"client id":                 {`"oauth":{"client_id":"a\u0000"}`, "oauth.client_id"},
		"secret without client":     {`"oauth":{"client_secret":"s"}`, "oauth.client_id"},
		"secret in two lines":       {`"oauth":{"client_id":"c","client_secret":"a\nb"}`, "oauth.client_secret"},
		"secret of a public client": {`"oauth":{"client_id":"c","client_secret":"s","auth_method":"none"}`, "oauth.client_secret"},
		"secret beside a key":       {`"oauth":{"client_id":"c","client_secret":"s","auth_method":"private_key_jwt"}`, "oauth.client_secret"},
		"no secret to present":      {`"oauth":{"client_id":"c","auth_method":"client_secret_post"}`, "oauth.client_secret"},
		"auth method":               {`"oauth":{"auth_method":"client_secret_jwt"}`, "oauth.auth_method"},
		"public client alone":       {`"oauth":{"grant":"client_credentials","client_id":"c","auth_method":"none"}`, "oauth.auth_method"},
		"no PEM":                    {private("secret"), "oauth.private_key"},
		"no key in PEM":             {private("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), "oauth.private_key"},
		"another PEM":               {private(strings.ReplaceAll(good, "PRIVATE", "PUBLIC")), "oauth.private_key"},
		"two keys":                  {private(good + good), "oauth.private_key"},
		"small key":                 {private(smallKey), "oauth.private_key"},
		"small curve":               {private(ecKey(t, elliptic.P224())), "oauth.private_key"},
		"another kind of key":       {private(otherKey), "oauth.private_key"},
		"key with a secret's method": {
			`"oauth":{"client_id":"c","client_secret":"s","auth_method":"client_secret_basic","private_key":` + quoted(good) + `}`, "oauth.private_key",
		},
		"scopes in one":               {`"oauth":{"scopes":["a b"]}`, "oauth.scopes[0]"},
		"empty scope":                 {`"oauth":{"scopes":["a",""]}`, "oauth.scopes[1]"},
		"quote in a scope":            {`"oauth":{"scopes":["a\""]}`, "oauth.scopes[0]"},
		"scope twice":                 {`"oauth":{"scopes":["a","b","a"]}`, "oauth.scopes[2]"},
		"nobody's client":             {`"oauth":{"grant":"client_credentials"}`, "oauth.client_id"},
		"nobody's workload":           {`"oauth":{"grant":"workload_identity","issuer":"https://as.example.com"}`, "oauth.client_id"},
		"idp of another grant":        {`"oauth":{"idp":{"issuer":"https://idp.example","client_id":"c"}}`, "oauth.idp"},
		"no client at the idp":        {`"oauth":{"grant":"enterprise_managed","idp":{"issuer":"https://idp.example"}}`, "oauth.idp.client_id"},
		"no idp's issuer":             {`"oauth":{"grant":"enterprise_managed","idp":{"client_id":"c"}}`, "oauth.idp.issuer"},
		"idp's issuer":                {`"oauth":{"grant":"enterprise_managed","idp":{"issuer":"https://idp.example?a=b","client_id":"c"}}`, "oauth.idp.issuer"},
		"connection":                  {`"connection":"mine"`, "connection"},
		"credentials of each person":  {`"connection":"per_user","oauth":{"grant":"client_credentials","client_id":"c"}`, "connection"},
		"workload of each person":     {`"connection":"per_user","oauth":{"grant":"workload_identity","client_id":"c","issuer":"https://as.example.com"}`, "connection"},
		"workload token for anybody":  {`"oauth":{"grant":"workload_identity","client_id":"c"}`, "oauth.issuer"},
		"header besides":              {`"headers":{"authorization":"Bearer x"},"oauth":{}`, "headers.Authorization"},
		"header besides, each person": {`"headers":{"authorization":"Bearer x"},"connection":"per_user"`, "headers.Authorization"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := w.Apply(t.Context(), operator, readSpec(t, skillWith(tc.more)), false)
			var invalid *fault.InvalidError
			if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Name != "skills[0]."+tc.path {
				t.Fatalf("want one problem at %s, got %v", tc.path, err)
			}
			if strings.Contains(err.Error(), "BEGIN") || strings.Contains(err.Error(), "u:p") {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
	for path, more := range map[string]string{"oauth": `"oauth":{}`, "connection": `"connection":"per_user"`} {
		t.Run("stdio with "+path, func(t *testing.T) {
			t.Parallel()
			text := `{"skills":[{"name":"s","transport":"stdio","command":["x"],` + more + `}]}`
			_, err := w.Apply(t.Context(), operator, readSpec(t, text), false)
			var invalid *fault.InvalidError
			if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Name != "skills[0]."+path {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestValidOAuthSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	keys := map[string]string{"P-384": ecKey(t, elliptic.P384()), "P-521": ecKey(t, elliptic.P521()), "RSA": pemOf(t, large, err)}
	all := map[string]string{
		"only the grant":        `"oauth":{"grant":"authorization_code"}`,
		"each person":           `"connection":"per_user","oauth":{}`,
		"shared, said":          `"connection":"shared","oauth":{}`,
		"on this machine":       `"oauth":{"issuer":"http://127.0.0.1:9000"}`,
		"in the house":          `"oauth":{"issuer":"http://as.internal/tenant/"}`,
		"public client":         `"oauth":{"client_id":"c","auth_method":"none"}`,
		"a client to come":      `"oauth":{"auth_method":"client_secret_basic"}`,
		"client is a URL":       `"oauth":{"client_id":"https://hold.example/client.json"}`,
		"our own key":           `"oauth":{"grant":"client_credentials","client_id":"c","auth_method":"private_key_jwt"}`,
		"workload":              `"oauth":{"grant":"workload_identity","client_id":"c","issuer":"https://as.example.com"}`,
		"enterprise, shared":    `"oauth":{"grant":"enterprise_managed","idp":{"issuer":"https://i.example","client_id":"c"}}`,
		"header for nobody":     `"headers":{"Authorization":"Bearer x"}`,
		"header beside a grant": `"headers":{"X-Team":"x"},"oauth":{"scopes":["a","urn:x:[y]"]}`,
	}
	for name, key := range keys {
		text, err := json.Marshal(key)
		check(t, err)
		all[name] = `"oauth":{"client_id":"c","auth_method":"private_key_jwt","private_key":` + string(text) + `}`
	}
	for name, more := range all {
		if _, err := w.Apply(t.Context(), operator, readSpec(t, skillWith(more)), true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
