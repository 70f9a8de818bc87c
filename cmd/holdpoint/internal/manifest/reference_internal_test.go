package manifest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdpoint/holdpoint/runtime/agent"
)

var update = flag.Bool("update", false, "write the files in docs/reference")

const (
	referenceFile = "../../../../docs/reference/holdpoint-yaml.md"
	schemaFile    = "../../../../docs/reference/holdpoint.schema.json"
)

// wantFile compares a committed file with what it should be.
func wantFile(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s is not as the program has it (%v): go generate ./cmd/holdpoint/internal/manifest", name, err)
	}
}

// TestSchemaFile: the committed schema is that of the program.
func TestSchemaFile(t *testing.T) {
	t.Parallel()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, schemaFile, string(text))
}

// eachField calls f with every key of the file, by its path without numbers and names of dictionaries.
func eachField(s shape, path string, f func(path string, field shape)) {
	switch s.kind {
	case list, dictionary:
		eachField(*s.of, path, f)
	case object:
		for _, name := range s.listNames() {
			at := joinPath(path, name)
			f(at, s.fields[name])
			eachField(s.fields[name], at, f)
		}
	}
}

// TestEveryKeyIsDescribed: a new field of a spec has a description, and a number has a unit.
func TestEveryKeyIsDescribed(t *testing.T) {
	t.Parallel()
	eachField(topShape(), "", func(path string, field shape) {
		if !strings.HasSuffix(field.doc, ".") {
			t.Errorf("%s: the description must be a sentence, in the tag doc: %q", path, field.doc)
		}
		if isNumber := field.kind == number || field.kind == decimal; isNumber && field.unit == "" {
			t.Errorf("%s: the number must have a unit, in the tag unit", path)
		}
	})
}

// TestSchemaAgreesWithTheParser: the schema takes what the parser takes, and refuses its errors.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	options := Options{
		Getenv: func(string) string { return "x" }, ReadFile: func(string) ([]byte, error) { return []byte("x"), nil },
		Run: func(string, []string) ([]byte, error) { return []byte("x"), nil },
	}
	for _, test := range []struct {
		text string
		ok   bool
	}{
		{`{"server":{"addr":":1"},"skills":[{"name":"a","transport":"http","url":"http://x","headers":{"A":{"env":"X"},"B":{"stored":true},"C":"c","D":{"exec":["p","a"]},"E":1}}]}`, true},
		{`{"skills":[{"name":"a","transport":"http","identity_headers":true,"call_timeout":"1m30s"}]}`, true},
		{`{"skills":[{"name":"a","transport":"http","oauth":{"client_secret_exec":"p","private_key_file":"k"}}]}`, true},
		{`{"agents":[{"name":"a","skills":["x",{"skill":"y","tools":["t"]}],"limits":{"conversation_cost":1.5,"pending":3}}]}`, true},
		{`{"rules":[{"name":"a","effect":"deny","agents":["x"]}],"policies":[{"name":"p","any":[{"all":[{"count":1}]}]}]}`, true},
		{`{"skills":[{"name":"a","transport":"http","autoapprove":true}]}`, false},
		{`{"skills":{"name":"a"}}`, false},
		{`{"skills":[{"name":"a","transport":"http","call_timeout":60}]}`, false},
		{`{"skills":[{"name":"a","transport":"http","auto_approve":"yes"}]}`, false},
		{`{"skills":[{"name":"a","transport":"http","headers":{"A":{"vault":"X"}}}]}`, false},
		{`{"skills":[{"name":"a","transport":"http","url":{"env":"X"}}]}`, false},
		{`{"agents":[{"name":"a","limits":{"pending":"few"}}]}`, false},
		{`{"other":[]}`, false},
	} {
		_, parseErr := Parse("f.yaml", []byte(test.text), options)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(test.text))
		if err != nil {
			t.Fatal(err)
		}
		schemaErr := compiled.Validate(value)
		if (parseErr == nil) != test.ok || (schemaErr == nil) != test.ok {
			t.Errorf("%s: want valid %v\nparser: %v\nschema: %v", test.text, test.ok, parseErr, schemaErr)
		}
	}
}

// TestReference: the committed reference has every key, with the errors that wrong values have.
func TestReference(t *testing.T) {
	t.Parallel()
	found := findErrors(t)
	var b strings.Builder
	b.WriteString(referenceHead)
	writeFormErrors(t, &b)
	top := topShape()
	writeSection(&b, "", top, found)
	for _, name := range top.listNames() {
		if name != "server" {
			writeSections(&b, name, top.fields[name], found)
		}
	}
	wantFile(t, referenceFile, b.String())
}

const referenceHead = `# holdpoint.yaml

<!-- Made by go generate ./cmd/holdpoint/internal/manifest from the types of the program and the errors of wrong values. Do not edit. -->

After this page you know every key of the files that ` + "`holdpoint apply`" + ` takes: its type, unit and default, and what is an error.
[Configuration as files](../apply.md) says how to use the files. For completion and checks in an editor, see
` + "[holdpoint.schema.json](holdpoint.schema.json), which `holdpoint schema` prints.\n" + `
A **text** is a YAML scalar; numbers and truth values are taken as they are written. A **duration** is a number with a unit, as in ` + "`90s`, `5m` or\n`1h30m`" + `.
A **secret** is a text, or a reference to one:

| form | value |
|---|---|
| ` + "`{env: NAME}`, `KEY_env: NAME`" + ` | an environment variable of the machine where the command runs |
| ` + "`{file: PATH}`, `KEY_file: PATH`" + ` | a file there, without the line break at its end; relative to the folder of the file that names it |
| ` + "`{exec: [PROGRAM, ARGUMENT, …]}`, `KEY_exec: […]`" + ` | what a program prints that runs there, for at most 30 s, in the same folder |
| ` + "`{stored: true}`" + ` | the value that the server has. An error if it has none, or if it was given for another server, program or client |

A name may be declared once, in all files together. Under *Errors* is what the server says about wrong values; ` + "`[]`" + ` stands for a number and
` + "`*`" + ` for a name. Other errors depend on what the server has, such as a policy that does not exist.
`

func writeSections(b *strings.Builder, path string, s shape, found map[string][]string) {
	for s.kind == list || s.kind == dictionary {
		s = *s.of
	}
	if s.kind != object {
		return
	}
	writeSection(b, path, s, found)
	for _, name := range s.listNames() {
		writeSections(b, path+"."+name, s.fields[name], found)
	}
}

func writeSection(b *strings.Builder, path string, s shape, found map[string][]string) {
	title := path
	if path == "" {
		title = "The file"
	}
	fmt.Fprintf(b, "\n## %s\n\n| key | type | default | meaning |\n|---|---|---|---|\n", title)
	var wrong []string
	for _, name := range s.listNames() {
		field := s.fields[name]
		otherwise := field.otherwise
		if field.required {
			otherwise = "**required**"
		}
		kind := describeKind(&field)
		if field.values != nil {
			var values []string
			for _, value := range field.values {
				if value != "" {
					values = append(values, "`"+value+"`")
				}
			}
			kind = strings.Join(values, ", ")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, kind, escapeTable(otherwise), escapeTable(field.doc))
		at := joinPath(path, name)
		for key, messages := range maps.All(found) {
			if rest, ok := strings.CutPrefix(key, at); ok && (rest == "" || rest == "[]" || rest == ".*" || rest == "[][]") {
				for _, message := range messages {
					wrong = append(wrong, fmt.Sprintf("- `%s%s`: %s\n", name, rest, message))
				}
			}
		}
	}
	if slices.Sort(wrong); len(wrong) > 0 {
		b.WriteString("\nErrors:\n\n" + strings.Join(wrong, ""))
	}
}

func escapeTable(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// describeKind returns the type of a value, and its unit.
func describeKind(s *shape) string {
	switch {
	case s.secret:
		return "secret"
	case s.kind == dictionary && s.of.kind == object, s.kind == list && s.of.kind == object:
		return map[kind]string{list: "list, see below", dictionary: "mapping of names, see below"}[s.kind]
	case s.kind == list:
		return "list: " + describeKind(s.of)
	case s.kind == dictionary:
		return "mapping of names: " + describeKind(s.of)
	case s.kind == number:
		return "whole number (" + s.unit + ")"
	case s.kind == decimal:
		return "number (" + s.unit + ")"
	case s.file != "":
		return "URL, or the path of a file"
	}
	return map[kind]string{word: "text", boolean: "`true` or `false`", duration: "duration", object: "mapping, see below", free: "any value"}[s.kind]
}

// writeFormErrors writes the errors of the form, which come from the parser.
func writeFormErrors(t *testing.T, b *strings.Builder) {
	t.Helper()
	b.WriteString("\n## Errors of the form\n\nEach error is shown as `FILE:LINE:COLUMN: KEY: MESSAGE`, and all of them are shown together.\n\n| wrong | message |\n|---|---|\n")
	for _, test := range []struct{ about, text string }{
		{"a key that is not on this page", "skills: [{naem: a}]"},
		{"a key twice", "skills: [{auth: {secret: a, secret_env: b}}]"},
		{"a name twice", "agents: [{name: a}, {name: a}]"},
		{"no list", "skills: a"},
		{"no mapping", "skills: [5]"},
		{"no text", "skills: [{name: [a]}]"},
		{"nothing", "skills: [{name: }]"},
		{"no `true` or `false`", "skills: [{auto_approve: 1}]"},
		{"no duration", "skills: [{call_timeout: 60}]"},
		{"no whole number", "agents: [{limits: {pending: few}}]"},
		{"no number", "agents: [{limits: {conversation_cost: few}}]"},
		{"no secret", "skills: [{headers: {X: [a]}}]"},
		{"a variable that is not set", "skills: [{headers: {X: {env: TOKEN}}}]"},
		{"a file that is missing", "skills: [{headers: {X: {file: token.txt}}}]"},
		{"a program that fails", "skills: [{headers: {X: {exec: [pass, show]}}}]"},
		{"`stored` that is not true", "skills: [{headers: {X: {stored: no}}}]"},
		{"a document that is missing", "skills: [{spec: shop.yaml}]"},
		{"a merge key", "skills: [{<<: {name: a}}]"},
		{"several documents", "skills: []\n---\nagents: []"},
		{"an empty file", "# nothing"},
	} {
		_, wrong := ParseFiles([]File{{"f.yaml", []byte(test.text)}}, Options{
			Getenv: func(string) string { return "" },
			ReadFile: func(name string) ([]byte, error) {
				return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
			},
			Run: func(string, []string) ([]byte, error) { return nil, errors.New("exit status 1") },
		})
		if len(wrong) != 1 {
			t.Fatalf("%s: %v", test.text, wrong)
		}
		fmt.Fprintf(b, "| %s | %s |\n", test.about, escapeTable(wrong[0].Message))
	}
}

// bases are parts that are right, in which one value after another is made wrong.
var bases = map[string][]string{
	"skills": {
		`{"name":"a","transport":"http","url":"http://h/"}`,
		`{"name":"a","transport":"http","url":"http://h/","oauth":{"client_id":"c","client_secret":"s"}}`,
		`{"name":"a","transport":"http","url":"http://h/","headers":{"X-Own":"x"},"identity_headers":{"enabled":true}}`,
		`{"name":"a","transport":"http","url":"http://h/","oauth":{"grant":"enterprise_managed","auth_method":"none","idp":{"issuer":"https://h/","client_id":"c"}}}`,
		`{"name":"a","transport":"http","url":"http://h/","team":"b","escalation":[{"after":"2m","teams":["a"]}]}`,
		`{"name":"a","transport":"stdio","command":["x"]}`,
		`{"name":"a","transport":"openapi","spec":"http://h/openapi.json","base_url":"http://h/"}`,
		`{"name":"a","transport":"http-api","base_url":"http://h/","endpoints":[{"name":"x","path":"/x"}],"auth":{"type":"api_key","in":"header","name":"X-Key","secret":"s"}}`,
	},
	"agents":   {`{"name":"a"}`, `{"name":"a","model":{"provider":"openai","name":"m"}}`, `{"name":"a","model":{"provider":"scripted","name":"m"}}`},
	"rules":    {`{"name":"a","effect":"allow","skills":["*"]}`, `{"name":"a","effect":"park"}`, `{"name":"a","effect":"deny"}`},
	"policies": {`{"name":"a","any":[{"all":[{"count":1}]}]}`},
}

// wrongValues are values of a kind that may be wrong.
func wrongValues(s *shape) []any {
	long := strings.Repeat("x", 70_000)
	switch s.kind {
	case word:
		return []any{"", "a b", "a\x00", " a ", long, "nonsense", "ftp://h/", "http://h/#x", "http://u:p@h/", "http://h/?q=1", "Host", "args.a = 1"}
	case boolean:
		return []any{true, false}
	case number:
		return []any{-1, 1 << 50}
	case decimal:
		return []any{-1, 1e15}
	case duration:
		return []any{"-1s", "0s", "1ns", "1000000h"}
	case list:
		values := []any{[]any{}}
		for _, wrong := range wrongValues(s.of) {
			values = append(values, []any{wrong}, slices.Repeat([]any{wrong}, 2))
		}
		if s.of.kind == word {
			values = append(values, slices.Repeat([]any{"x"}, 11_000))
		}
		return values
	case dictionary:
		values := []any{map[string]any{}}
		for _, wrong := range wrongValues(s.of) {
			values = append(values, map[string]any{"x": wrong}, map[string]any{"a b": wrong}, map[string]any{"Host": wrong})
		}
		return values
	case object:
		return []any{map[string]any{}}
	default:
		return []any{5, "x", map[string]any{"type": "nonsense"}}
	}
}

var (
	numberInPath = regexp.MustCompile(`\[\d+\]`)
	givenValue   = regexp.MustCompile(`(?s)(--stdio-run-as|cannot be resolved:|cannot be used:|is not a jq program[^:]*:) .*`)
	givenText    = regexp.MustCompile(`^"(\\.|[^"])*"`)
	inCondition  = regexp.MustCompile(`(?s)^\d+:\d+: .*`)
	namedParts   = regexp.MustCompile(`(headers|env|tools|parameters)\.[^.]*`)
)

// findErrors returns the errors of wrong values, by the paths of their keys without the number of the part.
func findErrors(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	note := func(list string, part map[string]any) {
		text, err := json.Marshal(map[string]any{list: []any{part}})
		if err != nil {
			t.Fatal(err)
		}
		var spec agent.Spec
		if json.Unmarshal(text, &spec) != nil {
			return // an error of the form
		}
		for _, wrong := range agent.CheckSpec(spec) {
			path := numberInPath.ReplaceAllString(strings.TrimPrefix(wrong.Name, list+"[0]."), "[]")
			path = list + "." + namedParts.ReplaceAllString(path, "$1.*")
			path = strings.NewReplacer("[].", ".", ".*.", ".").Replace(path) // only the last part matters
			message := givenValue.ReplaceAllString(givenText.ReplaceAllString(wrong.Expected, `"…"`), "$1 …")
			message = inCondition.ReplaceAllString(message, "LINE:COLUMN: … (where the condition is wrong)")
			if !slices.Contains(found[path], message) {
				found[path] = append(found[path], message)
			}
		}
	}
	for list, texts := range bases {
		of := *topShape().fields[list].of
		for _, text := range texts {
			eachField(of, "", func(path string, field shape) {
				for _, wrong := range append(wrongValues(&field), nil) {
					var part map[string]any
					if err := json.Unmarshal([]byte(text), &part); err != nil {
						t.Fatal(err)
					}
					if setAt(part, of, strings.Split(path, "."), wrong) {
						note(list, part)
					}
				}
			})
		}
	}
	for path := range found {
		slices.Sort(found[path])
	}
	return found
}

// setAt sets the value at a path, in the first element of each list and in the member x of each dictionary. nil removes it. It reports whether
// the value is another one.
func setAt(fields map[string]any, s shape, path []string, value any) bool {
	name, field := path[0], s.fields[path[0]]
	if len(path) == 1 {
		_, had := fields[name]
		if value == nil {
			delete(fields, name)
			return had
		}
		fields[name] = value
		return true
	}
	of := field
	inner := map[string]any{}
	switch field.kind {
	case list:
		items, _ := fields[name].([]any)
		if len(items) == 0 {
			items = []any{inner}
		}
		inner, _ = items[0].(map[string]any)
		fields[name], of = items, *field.of
	case dictionary:
		fields[name], of = map[string]any{"x": inner}, *field.of
	default:
		if existing, has := fields[name].(map[string]any); has {
			inner = existing
		}
		fields[name] = inner
	}
	return setAt(inner, of, path[1:], value)
}
