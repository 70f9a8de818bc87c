package agent_test

import (
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// patchLedger applies a JSON patch to the skill ledger.
func (w *world) patchLedger(text string) error {
	w.t.Helper()
	var patch agent.SkillPatch
	check(w.t, json.Unmarshal([]byte(text), &patch))
	skill, err := w.SkillByName(w.t.Context(), "ledger")
	check(w.t, err)
	_, err = w.UpdateSkill(w.t.Context(), operator, skill.ID, patch)
	return err
}

// ledgerSecrets returns the secrets that the server of the skill ledger gets.
func (w *world) ledgerSecrets() [3]string {
	w.t.Helper()
	_, server := w.findSkill("ledger")
	return [3]string{server.Authorization.ClientSecret, server.Authorization.PrivateKey, server.Authorization.IDPClientSecret}
}

// A secret stays with the client that it was entered for.
func TestPatchKeepsSecrets(t *testing.T) {
	t.Parallel()
	key := ecKey(t, elliptic.P256())
	quoted, err := json.Marshal(key)
	check(t, err)
	const rest = `"grant":"enterprise_managed","issuer":"https://as.example","client_id":"c"`
	const idp = `"idp":{"issuer":"https://idp.example","client_id":"i"}`
	all := [3]string{"s1", key, "s2"}
	for name, tc := range map[string]struct {
		patch string
		want  [3]string
	}{
		"nothing of it":         {`{"auto_approve":true}`, all},
		"the same":              {`{"oauth":{` + rest + `,` + idp + `}}`, all},
		"a scope":               {`{"oauth":{` + rest + `,` + idp + `,"scopes":["a"]}}`, all},
		"another secret":        {`{"oauth":{` + rest + `,` + idp + `,"client_secret":"n3u"}}`, [3]string{"n3u", key, "s2"}},
		"another issuer":        {`{"oauth":{"grant":"enterprise_managed","issuer":"https://evil.example","client_id":"c",` + idp + `}}`, [3]string{"", "", "s2"}},
		"another client":        {`{"oauth":{"grant":"enterprise_managed","issuer":"https://as.example","client_id":"d",` + idp + `}}`, [3]string{"", "", "s2"}},
		"another idp":           {`{"oauth":{` + rest + `,"idp":{"issuer":"https://evil.example","client_id":"i"}}}`, [3]string{"s1", key, ""}},
		"another client there":  {`{"oauth":{` + rest + `,"idp":{"issuer":"https://idp.example","client_id":"j"}}}`, [3]string{"s1", key, ""}},
		"another grant":         {`{"oauth":{"issuer":"https://as.example","client_id":"c"}}`, [3]string{"s1", key, ""}},
		"a method for a key":    {`{"oauth":{` + rest + `,` + idp + `,"auth_method":"private_key_jwt"}}`, [3]string{"", key, "s2"}},
		"a method for a secret": {`{"oauth":{` + rest + `,` + idp + `,"auth_method":"client_secret_basic"}}`, [3]string{"s1", "", "s2"}},
		"a method for neither":  {`{"oauth":{` + rest + `,` + idp + `,"auth_method":"none"}}`, [3]string{"", "", "s2"}},
		"all gone":              {`{"oauth":null}`, [3]string{}},
		"all discovered":        {`{"oauth":{}}`, [3]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.registry.ApplyJSON(skillWith(`"oauth":{` + rest + `,"client_secret":"s1","private_key":` + string(quoted) +
				`,"idp":{"issuer":"https://idp.example","client_id":"i","client_secret":"s2"}}`))
			check(t, w.patchLedger(tc.patch))
			if got := w.ledgerSecrets(); got != tc.want {
				t.Errorf("secrets %q, want %q", got, tc.want)
			}
			if skill, _ := w.findSkill("ledger"); (skill.OAuth == nil) != (name == "all gone") {
				t.Errorf("skill %+v", skill.OAuth)
			}
		})
	}
}

func TestPatchOfOAuth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(skillWith(`"auto_approve":false`))
	check(t, w.patchLedger(`{"oauth":{"grant":"client_credentials","client_id":"c","client_secret":"s"}}`))
	skill, server := w.findSkill("ledger")
	want := tool.Authorization{Grant: tool.ClientCredentials, ClientID: "c", ClientSecret: "s"}
	if !reflect.DeepEqual(server.Authorization, want) || skill.Revision != 2 || !slices.Equal(skill.OAuth.Secrets, []string{"client_secret"}) {
		t.Errorf("%+v, %+v", skill, server)
	}
	check(t, w.patchLedger(`{"oauth":{"grant":"client_credentials","client_id":"c"}}`))
	if skill, _ = w.findSkill("ledger"); skill.Revision != 2 {
		t.Errorf("nothing changed, and revision %d", skill.Revision)
	}
	var invalid *fault.InvalidError
	if err := w.patchLedger(`{"connection":"per_user"}`); !errors.As(err, &invalid) || invalid.Fields[0].Name != "connection" {
		t.Errorf("per user: %v", err)
	}
	if err := w.patchLedger(`{"headers":{"Authorization":"x"}}`); !errors.As(err, &invalid) || invalid.Fields[0].Name != "headers.Authorization" {
		t.Errorf("header: %v", err)
	}
	check(t, w.patchLedger(`{"oauth":{},"connection":"per_user"}`))
	if skill, server = w.findSkill("ledger"); !skill.PerUser || !server.PerUser || server.Authorization.ClientSecret != "" {
		t.Errorf("%+v, %+v", skill, server)
	}
	check(t, w.patchLedger(`{"connection":"shared","oauth":null}`))
	if skill, server = w.findSkill("ledger"); skill.PerUser || server.PerUser || skill.OAuth != nil {
		t.Errorf("%+v, %+v", skill, server)
	}
	if n := w.db.Count(`skills WHERE secrets IS NOT NULL`); n != 0 {
		t.Error("a secret outlived its client")
	}
}

// A client's secret belongs to the host that it was entered for, as headers do.
func TestOAuthSecretsDoNotFollowToAnotherHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(skillWith(`"oauth":{"grant":"client_credentials","client_id":"c","client_secret":"s"}`))
	check(t, w.patchLedger(`{"url":"https://mcp.example/other"}`))
	var invalid *fault.InvalidError
	for _, patch := range []string{
		`{"url":"https://evil.example/mcp"}`,
		`{"url":"http://mcp.example/mcp"}`,
		`{"url":"https://evil.example/mcp","oauth":{"grant":"client_credentials","client_id":"c"}}`,
	} {
		err := w.patchLedger(patch)
		if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Name != "oauth.client_secret" {
			t.Errorf("%s: %v", patch, err)
		}
	}
	if got := w.ledgerSecrets(); got[0] != "s" {
		t.Errorf("secrets %q", got)
	}
	check(t, w.patchLedger(`{"url":"https://new.example/mcp","oauth":{"grant":"client_credentials","client_id":"c","client_secret":"s"}}`))
	check(t, w.patchLedger(`{"url":"https://third.example/mcp","oauth":{"client_id":"d"}}`))
	check(t, w.patchLedger(`{"url":"https://fourth.example/mcp","oauth":null}`))
}

func TestOAuthPatchSurvivesJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `{"oauth":null}`, `{"oauth":{}}`,
		`{"oauth":{"grant":"enterprise_managed","client_secret":"s","scopes":["a"],"idp":{"issuer":"https://i"}},"connection":"per_user"}`,
	} {
		var patch agent.SkillPatch
		check(t, json.Unmarshal([]byte(text), &patch))
		if again, err := json.Marshal(patch); err != nil || string(again) != text {
			t.Errorf("%s became %s, %v", text, again, err)
		}
	}
}
