package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// triples is a schema whose cost triples with each level of a value.
const triples = `{"$ref":"#/$defs/n","$defs":{"n":{"required":["q"],"properties":{"x":{"anyOf":[
	{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}}`

func schemasOf(t testing.TB, input string) *Schemas {
	t.Helper()
	s, err := CompileSchemas(Definition{Name: "a", InputSchema: json.RawMessage(input)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// nestValue returns a value with this number of levels.
func nestValue(levels int, open, inner, end string) string {
	return strings.Repeat(open, levels) + inner + strings.Repeat(end, levels)
}

// sumSpent returns the number of applications that a schema's validations have used.
func (v *validators) sumSpent() int {
	n := 0
	for _, one := range v.idle {
		n += one.meter.spent
	}
	return n
}

// TestCostlyValuesAreRefused: the number of applications is limited for every schema.
func TestCostlyValuesAreRefused(t *testing.T) {
	t.Parallel()
	const recursive = `{"$ref":"#/$defs/n","$defs":{"n":{%s}}}`
	three := `[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]`
	for name, tc := range map[string]struct{ schema, value string }{
		"anyOf":      {triples, nestValue(33, `{"x":`, `{"q":1}`, `}`)}, // 205 bytes
		"allOf":      {fmt.Sprintf(recursive, `"items":{"allOf":`+three+`}`), nestValue(40, `[`, `1`, `]`)},
		"oneOf":      {fmt.Sprintf(recursive, `"items":{"oneOf":`+three+`}`), nestValue(40, `[`, `1`, `]`)},
		"draft 7":    {`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}`, nestValue(40, `[`, `1`, `]`)},
		"draft 4":    {`{"$schema":"http://json-schema.org/draft-04/schema#","items":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}`, nestValue(40, `[`, `1`, `]`)},
		"draft 2019": {`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":{"allOf":[{"$recursiveRef":"#"},{"$recursiveRef":"#"}]}}`, nestValue(40, `[`, `1`, `]`)},
		"not":        {fmt.Sprintf(recursive, `"properties":{"a":{"not":{"anyOf":`+three+`}}},"minProperties":2`), nestValue(40, `{"b":1,"a":`, `{}`, `}`)},
		"patterns":   {fmt.Sprintf(recursive, `"patternProperties":{"a":{"$ref":"#/$defs/n"},"aa":{"$ref":"#/$defs/n"},"^a":{"$ref":"#/$defs/n"}}`), nestValue(40, `{"aaa":`, `{}`, `}`)},
		"only an anchor": {`{"$id":"https://x.example/","$dynamicRef":"#a","$defs":{
			"start":{"$dynamicAnchor":"a","items":{"$ref":"https://x.example/inner"}},
			"inner":{"$id":"inner","items":{"allOf":[{"$dynamicRef":"#a"},{"$dynamicRef":"#a"}]},"$defs":{"start":{"$dynamicAnchor":"a"}}}}}`, nestValue(60, `[`, `1`, `]`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := schemasOf(t, tc.schema)
			problems, err := s.ValidateInput(t.Context(), json.RawMessage(tc.value))
			if !errors.Is(err, ErrTooComplex) || problems != nil {
				t.Errorf("%v, %v, want ErrTooComplex", problems, err)
			}
			most := baseApplications + baseFindings + (applicationsByByte+findingsByByte)*len(tc.value)
			if n := s.input.sumSpent(); n > most+1000 {
				t.Errorf("%d applications, want at most %d", n, most)
			}
		})
	}
}

// TestOrdinaryValuesAreJudged: ordinary values are validated, however large they are.
func TestOrdinaryValuesAreJudged(t *testing.T) {
	t.Parallel()
	tree := `{"type":"object","properties":{"op":{"enum":["and","or","not"]},"of":{"type":"array","items":{"oneOf":[{"$ref":"#"},{"type":"string"},{"type":"integer"}]}}},"required":["op"],"additionalProperties":false}`
	wide := `{"type":"object","properties":{"n":{"type":"array","items":{"anyOf":[{"type":"null"},{"type":"boolean"},{"type":"string","maxLength":3},{"type":"integer","maximum":9}]}}}}`
	encoded := `{"type":"object","properties":{"file":{"type":"string","pattern":"^data:image/(png|jpe?g|gif);base64,[A-Za-z0-9+/]+={0,2}$"}}}`
	ones := strings.TrimSuffix(strings.Repeat("1,", 100_000), ",")
	for name, tc := range map[string]struct {
		schema, value string
		wrong         string // JSON pointer
	}{
		"tree":            {schema: tree, value: nestValue(60, `{"op":"and","of":["a",1,`, `{"op":"not"}`, `]}`)},
		"wrong tree":      {schema: tree, value: nestValue(4, `{"op":"and","of":[`, `{"op":"nor"}`, `]}`), wrong: "/of/0/of/0/of/0/of/0/op"},
		"numbers":         {schema: wide, value: `{"n":[` + ones[:19_999] + `]}`},
		"wrong number":    {schema: wide, value: `{"n":[` + ones[:40_001] + `,10]}`, wrong: "/n/20001"},
		"long text":       {schema: encoded, value: `{"file":"data:image/png;base64,` + strings.Repeat("A", 1_000_000) + `=="}`},
		"wrong long text": {schema: encoded, value: `{"file":"data:image/png;base64,` + strings.Repeat("A", 1_000_000) + `==="}`, wrong: "/file"},
		"letters":         {schema: `{"properties":{"a":{"pattern":"^[\\p{L}\\p{N}\\p{M} '-]{1,255}$"}}}`, value: `{"a":"Zoë"}`},
		"tripling":        {schema: triples, value: nestValue(100, `{"q":1,"x":`, `{"q":1}`, `}`)},
		"wrong tripling":  {schema: triples, value: nestValue(3, `{"q":1,"x":`, `{}`, `}`), wrong: "/x/x/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems, err := schemasOf(t, tc.schema).ValidateInput(t.Context(), json.RawMessage(tc.value))
			found := false
			for _, p := range problems {
				found = found || p.Pointer == tc.wrong
			}
			if err != nil || found != (tc.wrong != "") || tc.wrong == "" && len(problems) > 0 {
				t.Errorf("%.500v, %v, want a problem at %q", problems, err, tc.wrong)
			}
		})
	}
}

// TestPatternsAreBounded: patterns are limited in size and in the work of a match.
func TestPatternsAreBounded(t *testing.T) {
	t.Parallel()
	large := `"` + strings.Repeat(`a{1000}`, 101) + `"`
	for _, schema := range []string{
		`{"pattern":` + large + `}`,
		`{"patternProperties":{` + large + `:{}}}`,
		`{"allOf":[{"pattern":"` + strings.Repeat(`a{1000}`, 9) + `"}` + strings.Repeat(`,{"pattern":"`+strings.Repeat(`b{1000}`, 9)+`"}`, 6) + `]}`,
	} {
		if _, err := CompileSchemas(Definition{Name: "a", InputSchema: json.RawMessage(schema)}); !errors.Is(err, ErrDefinition) || !strings.Contains(err.Error(), "steps") {
			t.Errorf("%.100s: %v", schema, err)
		}
	}
	for _, tc := range []struct{ schema, value, gist string }{
		{`{"properties":{"a":{"pattern":"(x{0,1000}y){0,1}z$"}}}`, `{"a":"` + strings.Repeat("x", 900_000) + `"}`, "too long for its pattern"},
		{
			`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"regex","type":"string"}}}`,
			`{"a":"` + strings.Repeat("x", 5000) + `"}`, "a regular expression of 5000 bytes",
		},
	} {
		problems, err := schemasOf(t, tc.schema).ValidateInput(t.Context(), json.RawMessage(tc.value))
		if !errors.Is(err, ErrTooComplex) || !strings.Contains(err.Error(), tc.gist) {
			t.Errorf("%s: %.200v, %v, want %s", tc.schema, problems, err, tc.gist)
		}
	}
}

// TestValidationEndsWithItsRequest: a validation ends with its request, and its error says so.
func TestValidationEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	s := schemasOf(t, triples)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.ValidateInput(ctx, json.RawMessage(`{"q":1}`)); !errors.Is(err, context.Canceled) || errors.Is(err, ErrTooComplex) {
		t.Errorf("%v, want that it was cancelled", err)
	}
	if problems, err := s.ValidateInput(t.Context(), json.RawMessage(`{"q":1}`)); err != nil || problems != nil {
		t.Errorf("the next one: %v, %v", problems, err)
	}
	one, err := s.input.takeIdle()
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(nestValue(33, `{"x":`, `{"q":1}`, `}`)))
	if err != nil {
		t.Fatal(err)
	}
	one.meter.ctx = &impatient{t.Context(), 3}
	if _, err := one.findErrors(value, 1_000_000); err == nil || !strings.Contains(err.Error(), "takes longer") {
		t.Errorf("%v, want that it ends in its middle", err)
	}
}

// impatient is a context that ends after a number of checks.
type impatient struct {
	context.Context
	looks int
}

func (c *impatient) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestMatchesEndWithTheirRequest: a match ends with its request, however long the text is.
func TestMatchesEndWithTheirRequest(t *testing.T) {
	t.Parallel()
	m := &meter{}
	slow, err := m.compilePattern(`(x{0,1000}y){0,1}z$`)
	if err != nil {
		t.Fatal(err)
	}
	m.ctx = &impatient{t.Context(), 5}
	match := func() (err error) {
		defer m.startPass(baseApplications)(&err)
		slow.MatchString(strings.Repeat("x", 200_000))
		return nil
	}
	if err := match(); !errors.Is(err, ErrTooComplex) {
		t.Errorf("%v, want that it ends", err)
	}
}

// TestSchemasAreReadInTime: a listing that uses up its time gets no tools.
func TestSchemasAreReadInTime(t *testing.T) {
	t.Parallel()
	definition, err := ParseDefinition([]byte(`{"name":"a","inputSchema":{"type":"object"}}`))
	if err != nil {
		t.Fatal(err)
	}
	kept, _, err := filterUsable(&impatient{t.Context(), 2}, []Definition{definition, definition, definition}, nil)
	if !errors.Is(err, context.Canceled) || kept != nil {
		t.Errorf("%v, %v", kept, err)
	}
}

// TestComparisonsAreCounted: each compared value counts as an application, so a validation with many comparisons also
// ends with its request and within its limits.
func TestComparisonsAreCounted(t *testing.T) {
	t.Parallel()
	var numbers []string
	for i := range 20_000 {
		numbers = append(numbers, strconv.Itoa(i))
	}
	ones := "[" + strings.TrimSuffix(strings.Repeat("-1,", 20_000), ",") + "]"
	list := "[" + strings.Join(numbers, ",") + "]"
	for schema, value := range map[string]string{
		`{"items":{"enum":[` + strings.Join(numbers[:50], ",") + `]}}`: ones,
		`{"items":{"const":7}}`:  ones,
		`{"const":` + list + `}`: list,
		`{"uniqueItems":true}`:   list,
	} {
		s := schemasOf(t, schema)
		problems, err := s.ValidateInput(t.Context(), json.RawMessage(value))
		if err != nil {
			t.Fatal(err)
		}
		want := 3 * len(numbers) // an array counts each of its values twice
		if len(problems) > 0 {   // there was a second pass
			want *= 2
		}
		if n := s.input.sumSpent(); n < want {
			t.Errorf("%.50s: %d applications to %d values", schema, n, len(numbers))
		}
	}
}

// TestComparisonsAreTheLibrarys: the meter and the library agree on equal values.
func TestComparisonsAreTheLibrarys(t *testing.T) {
	t.Parallel()
	values := []string{
		`0`, `-0`, `0.0`, `1`, `1.0`, `10e-1`, `0.1e1`, `1.5`, `15e-1`, `100`, `1e2`, `-1`, `12345678901234567890`, `12345678901234567890.0`,
		`12345678901234567891`, `"1"`, `""`, `"null"`, `null`, `true`, `"true"`, `false`, `[]`, `{}`, `[[]]`, `[[0],0]`, `[[0,0]]`, `[0,0]`, `[0]`,
		`["a","b"]`, `["ab"]`, `["a\"1:b"]`, `{"a":1,"b":2}`, `{"b":2.0,"a":1}`, `{"a":1}`, `{"a":{"b":1}}`, `{"a":1,"b":null}`, `"é"`, `"e\u0301"`,
	}
	library := func(schema string) *jsonschema.Schema {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("test:///schema.json", doc); err != nil {
			t.Fatal(err)
		}
		return c.MustCompile("test:///schema.json")
	}
	for _, a := range values {
		for _, schema := range []string{`{"const":` + a + `}`, `{"enum":["other",` + a + `]}`, `{"uniqueItems":true}`} {
			ours, theirs := schemasOf(t, schema), library(schema)
			for _, b := range values {
				if strings.Contains(schema, "unique") {
					b = "[" + a + ",7," + b + "]"
				}
				parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(b))
				if err != nil {
					t.Fatal(err)
				}
				problems, err := ours.ValidateInput(t.Context(), json.RawMessage(b))
				if want := theirs.Validate(parsed); err != nil || (want == nil) != (len(problems) == 0) {
					t.Errorf("%s with %s: %v, %v; the library: %v", schema, b, problems, err, want)
				}
			}
		}
	}
}

// BenchmarkTripling refuses a few bytes whose validation would take gigabytes.
func BenchmarkTripling(b *testing.B) {
	s := schemasOf(b, triples)
	value := json.RawMessage(nestValue(33, `{"x":`, `{"q":1}`, `}`))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.ValidateInput(b.Context(), value); !errors.Is(err, ErrTooComplex) {
			b.Fatal(err)
		}
	}
}

// BenchmarkOrdinary validates a typical call.
func BenchmarkOrdinary(b *testing.B) {
	s := schemasOf(b, `{"type":"object","properties":{"to":{"type":"string","pattern":"^[^@]+@[^@]+$"},"lines":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer","minimum":1},"text":{"type":"string"}},"required":["n"]}}},"required":["to"],"additionalProperties":false}`)
	value := json.RawMessage(`{"to":"a@example.com","lines":[{"n":1,"text":"a"},{"n":2,"text":"b"},{"n":3,"text":"c"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if problems, err := s.ValidateInput(b.Context(), value); err != nil || problems != nil {
			b.Fatal(problems, err)
		}
	}
}
