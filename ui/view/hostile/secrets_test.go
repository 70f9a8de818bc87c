package hostile_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// hiddenAs returns a secret as drawn writes it.
func hiddenAs(text string) string { return "‹secret " + hostile.Fingerprint(text) + "›" }

// A fingerprint distinguishes values, but cannot be used to guess them.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	pin := hostile.Fingerprint("4711")
	sum := sha256.Sum256([]byte("4711"))
	if pin != hostile.Fingerprint("4711") || pin == hostile.Fingerprint("4712") || len(pin) != 12 || strings.HasPrefix(hex.EncodeToString(sum[:]), pin) {
		t.Errorf("fingerprint %s", pin)
	}
}

// declared is a schema that declares some properties with the names of secrets.
const declared = `{"properties":{"token":{},"password":{},"token_options":{},"tokens":{"items":{"type":"string"}},"credentials":{"properties":{"password":{}}},
	"options":{"properties":{"password":{}}},"private_key":{},"secret":{},"max_tokens":{},"X-Api-Key":{},"auth":{"$ref":"#/$defs/auth"},
	"api":{"additionalProperties":{"properties":{"seed_secret":{}}}}},"patternProperties":{"_token$":{}},
	"$defs":{"auth":{"oneOf":[{"properties":{"client_secret":{}}},{"type":"null"}]}}}`

func TestSecrets(t *testing.T) {
	t.Parallel()
	const marked = `{"type":"object","properties":{
		"login":{"type":"object","properties":{"word":{"type":"string","format":"password"},"pin":{"type":"integer","writeOnly":true},"user":{"type":"string"}}},
		"list":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/one"},{"type":"null"}]}},
		"pair":{"prefixItems":[{"type":"string"},{"writeOnly":true}]},
		"old":{"items":[{"writeOnly":true}],"additionalItems":{"type":"string"}},
		"whole":{"writeOnly":true}},
		"patternProperties":{"^x-":{"format":"password"}},
		"$defs":{"one":{"allOf":[{"properties":{"seed":{"writeOnly":true}}}]}}}`
	for _, tt := range []struct {
		name, schema, document string
		hidden                 []string // values
		shown                  []string
	}{
		{
			"by name", declared, `{"password":"hunter2","user":"ana","X-Api-Key":"k1","auth":{"client_secret":"s1"},"api":{"a":{"seed_secret":"s2"}},"my_token":"m1"}`,
			[]string{"hunter2", "k1", "s1", "s2", "m1"},
			[]string{"ana"},
		},
		{"names that only the agent chose", declared, `{"passwd":"rm -rf","api":{"password":"p1"},"list":[{"token":"t1"}]}`, nil, []string{"rm -rf", "p1", "t1"}},
		{"without a schema", ``, `{"password":"p1"}`, nil, []string{"p1"}},
		{"below a name", declared, `{"credentials":{"who":"w1","list":["w2"]},"who":"w3"}`, []string{"w1", "w2"}, []string{"w3"}},
		{"numbers by name are none", declared, `{"max_tokens":4096,"token":true,"secret":null}`, nil, []string{"4096", "true", "null"}},
		{"nothing is nothing to hide", declared, `{"password":""}`, nil, []string{"password"}},
		{
			"by schema", marked, `{"login":{"word":"w1","pin":4711471147114711,"user":"ana"},"list":[{"seed":"s1"},{"sown":"s2"}],"pair":["p1","p2"],
			"old":["o1","o2"],"whole":{"deep":[{"in":"z1"}]},"x-one":"x1","y-one":"y1"}`,
			[]string{"w1", "4711471147114711", "s1", "p2", "o1", "z1", "x1"},
			[]string{"ana", "s2", "p1", "o2", "y1"},
		},
		{"a schema that goes round", `{"$ref":"#","properties":{"a":{"$ref":"#"},"b":{"writeOnly":true}}}`, `{"a":{"a":{"b":"u1","c":"c1"}}}`, []string{"u1"}, []string{"c1"}},
		{"a schema that is none", `{"writeOnly":`, `{"a":"a1","token":"t1"}`, nil, []string{"a1", "t1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			secrets := secretfield.New(nil, []byte(tt.schema))
			limits := hostile.Folded()
			limits.Secrets = secrets
			fields, err := hostile.ReadFields([]byte(tt.document), limits)
			if err != nil {
				t.Fatal(err)
			}
			pretty, err := hostile.ReadPretty([]byte(tt.document), limits)
			if err != nil {
				t.Fatal(err)
			}
			text := hostile.Redact([]byte(tt.document), secrets)
			if n := strings.Count(string(text), "hidden ("); n != len(tt.hidden) || secrets.Count([]byte(tt.document)) != n || !hostile.IsJSON(text) {
				t.Errorf("%d hidden, want %d: %s", n, len(tt.hidden), text)
			}
			for format, shown := range map[string]string{
				"fields": drawnFields(fields), "JSON": drawnPretty(pretty), "raw": drawnValue(hostile.ShowDocument([]byte(tt.document), limits)),
			} {
				for _, value := range tt.hidden {
					if strings.Contains(shown, value) || !strings.Contains(shown, hiddenAs(value)) {
						t.Errorf("%s: %q is not hidden: %s", format, value, shown)
					}
				}
				for _, value := range tt.shown {
					if !strings.Contains(shown, value) {
						t.Errorf("%s: %q is hidden: %s", format, value, shown)
					}
				}
				if strings.Count(shown, "‹secret ") != len(tt.hidden) {
					t.Errorf("%s: hides something else: %s", format, shown)
				}
			}
			for _, value := range tt.hidden {
				if strings.Contains(string(text), value) {
					t.Errorf("%q is in %s", value, text)
				}
			}
			if limits.Secrets = nil; tt.hidden != nil {
				if all, err := hostile.ReadFields([]byte(tt.document), limits); err != nil || !strings.Contains(drawnFields(all), tt.hidden[0]) {
					t.Errorf("revealed, it is not shown: %v %s", err, drawnFields(all))
				}
			}
		})
	}
}

// A secret stays hidden where a document is cut, and a secret of several lines is hidden as a whole.
func TestSecretsInWhatIsCut(t *testing.T) {
	t.Parallel()
	limits := hostile.Folded()
	limits.Secrets = secretfield.New(nil, []byte(declared))
	key := strings.Repeat("-key-\n", 300)
	for _, document := range []string{
		`{"private_key":"` + strings.ReplaceAll(key, "\n", `\n`) + `","a":"` + strings.Repeat("word ", 500) + `"}`,
		`{"a":"` + strings.Repeat("word ", 230) + `","private_key":"` + strings.ReplaceAll(key, "\n", `\n`) + `"}`,
	} {
		shown := drawnValue(hostile.ShowDocument([]byte(document), limits))
		if strings.Contains(shown, "-key-") || !strings.Contains(shown, hiddenAs(key)) || !strings.Contains(shown, "characters…") {
			t.Errorf("shown as %s", shown)
		}
	}
	one, other := `{"token":"one\ntwo\n"}`, `{"token":"one\n2\n"}`
	d, err := hostile.ReadDiff([]byte(one), []byte(other), limits)
	if err != nil || d.Added != 1 || d.Removed != 1 {
		t.Fatalf("difference %+v, %v", d, err)
	}
	for _, line := range d.Lines {
		if line.Line.Value != nil && strings.Contains(drawnValue(*line.Line.Value), "two") {
			t.Error("a difference shows a secret")
		}
	}
}

func TestDecisiveHidesWhatTheSchemaMarks(t *testing.T) {
	t.Parallel()
	limits := hostile.Brief()
	limits.Secrets = secretfield.New(nil, []byte(`{"properties":{"to":{"writeOnly":true},"token":{}}}`))
	fields := hostile.Decisive([]byte(`{"to":"ana","token":"t","n":1,"password":"p"}`), 3, limits)
	if len(fields.List) != 2 || fields.List[0].Name != "n" || fields.List[1].Name != "password" || fields.More != 2 {
		t.Errorf("%s and %d more", drawnFields(fields), fields.More)
	}
}
