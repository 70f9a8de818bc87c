package api_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// oauthOf returns the member oauth of a skill.
func oauthOf(t *testing.T, a answer, status int) any {
	t.Helper()
	v := a.wantStatus(t, status)
	if strings.Contains(a.body, "hush") {
		t.Errorf("a secret is shown: %s", a.body)
	}
	return map[string]any{"oauth": v["oauth"], "connection": v["connection"]}
}

func TestSkillWithOAuth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	same := func(what string, got any, want string) {
		t.Helper()
		var v any
		check(t, json.Unmarshal([]byte(want), &v))
		if !reflect.DeepEqual(got, v) {
			t.Errorf("%s: got %v, want %v", what, got, v)
		}
	}
	patch := func(body string) any {
		t.Helper()
		return oauthOf(t, w.send("PATCH", "/api/v1/skills/ledger", w.operator, body), 200)
	}
	const plain = `{"connection":"shared","oauth":null}`
	same("plain", oauthOf(t, w.get("skills/files", w.reviewer), 200), plain)
	const full = `{"connection":"per_user","oauth":{"grant":"enterprise_managed","issuer":"https://as.example","client_id":"c",
		"auth_method":"client_secret_post","scopes":["a"],"trust_origin":true,"idp":{"issuer":"https://idp.example","client_id":"i"},
		"secrets":["client_secret","idp.client_secret"]}}`
	created := w.post("skills", w.operator, `{"name":"ledger","transport":"http","url":"https://mcp.example/","connection":"per_user",
		"oauth":{"grant":"enterprise_managed","issuer":"https://as.example","client_id":"c","client_secret":"hush",
			"auth_method":"client_secret_post","scopes":["a"],"trust_origin":true,
			"idp":{"issuer":"https://idp.example","client_id":"i","client_secret":"hush"}}}`)
	same("created", oauthOf(t, created, 201), full)
	same("got", oauthOf(t, w.get("skills/ledger", w.reviewer), 200), full)
	same("untouched", patch(`{"call_timeout":"5s"}`), full)
	same("replaced", patch(`{"connection":"shared","oauth":{"grant":"client_credentials","issuer":"https://as.example","client_id":"c"}}`),
		`{"connection":"shared","oauth":{"grant":"client_credentials","issuer":"https://as.example","client_id":"c","auth_method":null,
			"scopes":[],"trust_origin":false,"idp":null,"secrets":["client_secret"]}}`)
	same("nothing said", patch(`{"oauth":{}}`), `{"connection":"shared","oauth":{"grant":"authorization_code","issuer":null,
		"client_id":null,"auth_method":null,"scopes":[],"trust_origin":false,"idp":null,"secrets":[]}}`)
	same("removed", patch(`{"oauth":null}`), plain)
}

func TestSkillOAuthErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct{ name, fields, location string }{
		{"grant", `"oauth":{"grant":"password"}`, "oauth.grant"},
		{"issuer", `"oauth":{"issuer":"https://as.example?a"}`, "oauth.issuer"},
		{"scope", `"oauth":{"scopes":["a b"]}`, "oauth.scopes[0]"},
		{"connection", `"connection":"mine"`, "connection"},
		{"NUL", `"oauth":{"client_id":"` + nul + `"}`, "oauth.client_id"},
		{"unknown member", `"oauth":{"client":"c"}`, "oauth.client"},
		{"unknown member of idp", `"oauth":{"idp":{"url":"c"}}`, "oauth.idp.url"},
		{"form of the file", `"oauth":{"client_id":"c","client_secret_env":"hush"}`, "oauth.client_secret_env"},
		{"form of headers", `"oauth":{"client_id":"c","client_secret":{"env":"hush"}}`, "oauth.client_secret"},
		{"no key", `"oauth":{"client_id":"c","private_key":"hush"}`, "oauth.private_key"},
		{"no object", `"oauth":["hush"]`, "oauth"},
	} {
		t.Run(test.name, func(t *testing.T) {
			whole := `"name":"s","transport":"http","url":"http://h/",` + test.fields
			for _, sent := range []struct {
				answer
				at string
			}{
				{w.post("skills", w.operator, `{`+whole+`}`), "body."},
				{w.post("apply", w.operator, `{"spec":{"skills":[{`+whole+`}]}}`), "body.spec.skills[0]."},
				{w.send("PATCH", "/api/v1/skills/files", w.operator, `{`+test.fields+`}`), "body."},
			} {
				sent.wantProblem(t, 422, "invalid_request")
				if !strings.Contains(sent.body, `"location":"`+sent.at+test.location+`"`) {
					t.Errorf("want %s%s: %s", sent.at, test.location, sent.body)
				}
				if strings.Contains(sent.body, "hush") {
					t.Errorf("a possible secret is echoed: %s", sent.body)
				}
			}
		})
	}
}

// A patch is read strictly too.
func TestSkillOAuthIsReadStrictly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const skill = `"name":"s","transport":"http","url":"http://h/",`
	for oauth, status := range map[string]int{`{"Client_id":"hush"}`: 422, `{"idp":{"Issuer":"hush"}}`: 422, `{"client_id":"c","client_id":"d"}`: 400} {
		for _, answer := range []answer{
			w.post("skills", w.operator, `{`+skill+`"oauth":`+oauth+`}`),
			w.send("PATCH", "/api/v1/skills/files", w.operator, `{"oauth":`+oauth+`}`),
		} {
			answer.wantProblem(t, status, "invalid_request")
			if strings.Contains(answer.body, "hush") {
				t.Errorf("a possible secret is echoed: %s", answer.body)
			}
		}
	}
}
