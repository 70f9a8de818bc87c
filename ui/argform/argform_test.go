package argform_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/ui/argform"
)

const schema = `{"type":"object","properties":{
	"to":{"type":"string","title":"Recipient","description":"Who gets it"},
	"amount":{"type":"number"},"count":{"type":"integer"},"fast":{"type":"boolean"},
	"mode":{"type":"string","enum":["copy","move"]},"tags":{"type":"array"},"note":{"type":"string"}},
	"required":["to","amount"]}`

// readForm returns the form as text: name, kind, value, and whether it is submitted.
func readForm(t *testing.T, document string) string {
	t.Helper()
	form, err := argform.Read([]byte(schema), []byte(document))
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, f := range form.Fields {
		fmt.Fprintf(&b, "%s %s %q required=%v present=%v %v\n", f.Name, f.Kind, f.Value, f.Required, f.Present, f.Options)
	}
	return b.String()
}

func TestStoredFieldsComeFirst(t *testing.T) {
	t.Parallel()
	want := `amount number "1e2" required=true present=true []
to text "a@example.com" required=true present=true []
extra number "9007199254740993" required=false present=true []
count number "" required=false present=false []
fast choice "" required=false present=false [true false]
mode choice "" required=false present=false [copy move]
note text "" required=false present=false []
`
	if got := readForm(t, `{"amount":1e2,"to":"a@example.com","extra":9007199254740993}`); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestReadRefusesNestedAndInvisible(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		`{"to":"a","amount":1,"tags":["x"]}`, `{"to":"a","amount":1,"nested":{}}`, `{"to":null,"amount":1}`,
		`{"to":"a\u202eb","amount":1}`, `{"to":"a\tb","amount":1}`, `{"to":" a","amount":1}`, `{"to":"` + strings.Repeat("x", 30_000) + `","amount":1}`, `[1]`, `{"to":`,
	} {
		if _, err := argform.Read([]byte(schema), []byte(document)); !errors.Is(err, argform.ErrNotFlat) {
			t.Errorf("%.60s: %v", document, err)
		}
	}
	for _, odd := range []string{`true`, `{}`, `{"properties":{"a":{"type":["string","null"]}},"required":["a"]}`, `{"properties":7}`} {
		if _, err := argform.Read([]byte(odd), []byte(`{}`)); !errors.Is(err, argform.ErrNotFlat) {
			t.Errorf("schema %s: %v", odd, err)
		}
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	const document = `{"amount":1.00,"t\u006f":"\u0061 line","mode":"copy"}`
	form, err := argform.Read([]byte(schema), []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, values, want, problem string
	}{
		{"nothing changed", "f0=1.00&f1=a+line&s2=1&f2=copy", document, ""},
		{"a number", "f0=2.50&f1=a+line&s2=1&f2=copy", `{"amount":2.50,"t\u006f":"\u0061 line","mode":"copy"}`, ""},
		{"an optional one left out", "f0=1.00&f1=a+line&f2=copy", `{"amount":1.00,"t\u006f":"\u0061 line"}`, ""},
		{"one added", "f0=1.00&f1=a+line&s3=1&f3=7", `{"amount":1.00,"t\u006f":"\u0061 line","count":7}`, ""},
		{"text of two lines", "f0=1.00&f1=a%0D%0Ab", `{"amount":1.00,"t\u006f":"a\nb"}`, ""},
		{"text that looks like JSON", `f0=1.00&f1=%22%7D%5C`, `{"amount":1.00,"t\u006f":"\"}\\"}`, ""},
		{"no number", "f0=NaN&f1=x", "", "amount: must be a number, such as 12 or -0.5"},
		{"a number with a leading zero", "f0=007&f1=x", "", "amount: must be a number, such as 12 or -0.5"},
		{"no choice", "f0=1&f1=x&s2=1&f2=delete", "", "mode: must be one of the choices"},
		{"no truth", "f0=1&f1=x&s4=1&f4=maybe", "", "fast: must be one of the choices"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			values, err := url.ParseQuery(tt.values)
			if err != nil {
				t.Fatal(err)
			}
			got, problems := form.Bytes(values)
			if tt.problem != "" {
				if len(problems) != 1 || problems[0].Field+": "+problems[0].Expected.In(t.Context()) != tt.problem {
					t.Errorf("problems %v, want %s", problems, tt.problem)
				}
				return
			}
			if string(got) != tt.want || len(problems) != 0 {
				t.Errorf("got %s %v, want %s", got, problems, tt.want)
			}
		})
	}
	again := form.With(url.Values{"f0": {"x"}})
	if again.Fields[0].Value != "x" || again.Fields[2].Present {
		t.Errorf("shown again: %+v", again.Fields)
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		`{"a":1.0,"b":["x",{}],"c":"\u0065"}`:  "{\n  \"a\": 1.0,\n  \"b\": [\n    \"x\",\n    {}\n  ],\n  \"c\": \"\\u0065\"\n}",
		"{\"a\":\"x\u202ey\U000E0041\u00a0\"}": "{\n  \"a\": \"x\\u202ey\\udb40\\udc41\\u00a0\"\n}",
		`{"a":"é ü 漢"}`:                        "{\n  \"a\": \"é ü 漢\"\n}",
	} {
		if got := argform.Source([]byte(document)); got != want {
			t.Errorf("%s: got %s, want %s", document, got, want)
		}
	}
}
