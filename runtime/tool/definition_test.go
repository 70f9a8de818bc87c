package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

func pinOf(t *testing.T, text string) tool.Pin {
	t.Helper()
	d, err := tool.ParseDefinition(json.RawMessage(text))
	if err != nil {
		t.Fatalf("ParseDefinition(%s): %v", text, err)
	}
	return d.Pin()
}

func TestPin(t *testing.T) {
	t.Parallel()
	const base = `{"name":"a","description":"d","inputSchema":{"type":"object","maximum":9007199254740993}}`
	pin := pinOf(t, base)
	for name, same := range map[string]string{
		"order":         `{"inputSchema":{"maximum":9007199254740993,"type":"object"},"description":"d","name":"a"}`,
		"white space":   "{ \"name\" : \"a\",\n\"description\":\"d\", \"inputSchema\":{\"type\":\"object\",\"maximum\":9007199254740993}}",
		"escapes":       `{"name":"\u0061","description":"d","inputSchema":{"type":"object","maximum":9007199254740993}}`,
		"other members": `{"name":"a","description":"d","_meta":{"x":1},"inputSchema":{"type":"object","maximum":9007199254740993}}`,
	} {
		if pinOf(t, same) != pin {
			t.Errorf("%s: another pin", name)
		}
	}
	for name, other := range map[string]string{
		"name":        `{"name":"b","description":"d","inputSchema":{"type":"object","maximum":9007199254740993}}`,
		"description": `{"name":"a","description":"D","inputSchema":{"type":"object","maximum":9007199254740993}}`,
		"number":      `{"name":"a","description":"d","inputSchema":{"type":"object","maximum":9007199254740992}}`,
		"title":       `{"name":"a","title":"t","description":"d","inputSchema":{"type":"object","maximum":9007199254740993}}`,
		"annotations": `{"name":"a","description":"d","inputSchema":{"type":"object","maximum":9007199254740993},"annotations":{"readOnlyHint":true}}`,
		"letter case": `{"name":"a","description":"d","DESCRIPTION":"other","inputSchema":{"type":"object","maximum":9007199254740993}}`,
		"unknown":     `{"name":"a","description":"d","icons":[],"inputSchema":{"type":"object","maximum":9007199254740993}}`,
		"output":      `{"name":"a","description":"d","inputSchema":{"type":"object","maximum":9007199254740993},"outputSchema":{"type":"object"}}`,
	} {
		if pinOf(t, other) == pin {
			t.Errorf("%s: the same pin", name)
		}
	}
}

func TestParseDefinitionRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no name":          `{"inputSchema":{"type":"object"}}`,
		"no schema":        `{"name":"a"}`,
		"schema no object": `{"name":"a","inputSchema":true}`,
		"output no object": `{"name":"a","inputSchema":{},"outputSchema":[]}`,
		"duplicate":        `{"name":"a","name":"b","inputSchema":{}}`,
		"duplicate inside": `{"name":"a","inputSchema":{"type":"object","type":"array"}}`,
		"UTF-8":            "{\"name\":\"a\",\"description\":\"\xff\",\"inputSchema\":{}}",
		"not JSON":         `{"name":`,
		"an array":         `[]`,
	} {
		if _, err := tool.ParseDefinition(json.RawMessage(text)); !errors.Is(err, tool.ErrDefinition) {
			t.Errorf("%s: %v, want ErrDefinition", name, err)
		}
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	compile := func(text string) *tool.Schemas {
		d, err := tool.ParseDefinition(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		s, err := tool.CompileSchemas(d)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := compile(`{"name":"a","inputSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1},"a/b":{"type":"string"}},"required":["n"],"additionalProperties":false}}`)
	if problems := validInput(t, s, json.RawMessage(`{"n":9007199254740993}`)); len(problems) != 0 {
		t.Errorf("a fitting value: %v", problems)
	}
	problems := validInput(t, s, json.RawMessage(`{"n":0,"a/b":1,"x":2}`))
	found := map[string]bool{}
	for _, p := range problems {
		found[p.Pointer] = true
	}
	if len(problems) != 3 || !found["/n"] || !found["/a~1b"] || !found[""] {
		t.Errorf("three mistakes: %v", problems)
	}
	draft7 := compile(`{"name":"a","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"p":{"items":[{"type":"string"}]}}}}`)
	if problems := validInput(t, draft7, json.RawMessage(`{"p":[1]}`)); len(problems) != 1 {
		t.Errorf("draft-07 tuple: %v", problems)
	}
	var costly strings.Builder
	costly.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 40 {
		fmt.Fprintf(&costly, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	costly.WriteString(`"a40":{}}}`)
	for _, remote := range []string{
		`{"$ref":"https://example.com/schema.json"}`, `{"$ref":"file:///etc/passwd"}`, `{"type":"nonsense"}`,
		`{"multipleOf":1e-9999999}`, `{"minimum":1e999999999}`, costly.String(),
		`{"$ref":"#"}`, `{"$ref":"#/$defs/p","$defs":{"p":{"oneOf":[{"$ref":"#/$defs/c"}]},"c":{"allOf":[{"$ref":"#/$defs/p"}]}}}`,
		`{"properties":{"a":{"$ref":"#/$defs/p"}},"$defs":{"p":{"if":{"type":"object"},"then":{"not":{"$ref":"#/$defs/p"}}}}}`,
		`{"dependentSchemas":{"a":{"anyOf":[{"type":"array"},{"$ref":"#"}]}}}`,
	} {
		d, err := tool.ParseDefinition(json.RawMessage(`{"name":"a","inputSchema":` + remote + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tool.CompileSchemas(d); !errors.Is(err, tool.ErrDefinition) {
			t.Errorf("schema %s: %v, want ErrDefinition", remote, err)
		}
	}
}

// TestSchemasOfTrees: a schema that applies itself to parts of a value ends with the value.
func TestSchemasOfTrees(t *testing.T) {
	t.Parallel()
	d, err := tool.ParseDefinition(json.RawMessage(`{"name":"a","inputSchema":{"type":"object","properties":{"sub":{"items":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"n":{"type":"integer"}},
		"additionalProperties":{"allOf":[{"$ref":"#"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := tool.CompileSchemas(d)
	if err != nil {
		t.Fatal(err)
	}
	if problems := validInput(t, s, json.RawMessage(`{"sub":[{"sub":[null,{"n":1}]}],"x":{"n":2}}`)); len(problems) != 0 {
		t.Errorf("a fitting value: %v", problems)
	}
	if problems := validInput(t, s, json.RawMessage(`{"x":{"sub":[{"n":1.5}]}}`)); len(problems) == 0 {
		t.Error("no integer passed")
	}
}

// TestValidationIsBounded: values that would take endless time or memory are reported as problems.
func TestValidationIsBounded(t *testing.T) {
	t.Parallel()
	d, err := tool.ParseDefinition(json.RawMessage(`{"name":"a","inputSchema":{"type":"object"},
		"outputSchema":{"type":"object","properties":{"n":{"type":"number","minimum":0}},"additionalProperties":{"items":{"type":"string"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := tool.CompileSchemas(d)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"exponent":  `{"n":1e9999999}`,
		"exponents": `{"n":[` + strings.Repeat(`1e999,`, 1000) + `1]}`,
		"digits":    `{"n":` + strings.Repeat("1", 100_000) + `}`,
		"long name": `{"` + strings.Repeat("x", 100_000) + `":[` + strings.Repeat("1,", 60) + `1]}`,
	} {
		problems := validOutput(t, s, json.RawMessage(text))
		size := 0
		for _, p := range problems {
			size += len(p.String())
		}
		if len(problems) == 0 || size > 50*1000 {
			t.Errorf("%s: %d problems of %d bytes", name, len(problems), size)
		}
	}
}

// validInput returns the problems of arguments that can be validated.
func validInput(t testing.TB, s *tool.Schemas, arguments json.RawMessage) []tool.Problem {
	t.Helper()
	problems, err := s.ValidateInput(t.Context(), arguments)
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

// validOutput returns the problems of a result that can be validated.
func validOutput(t testing.TB, s *tool.Schemas, structured json.RawMessage) []tool.Problem {
	t.Helper()
	problems, err := s.ValidateOutput(t.Context(), structured)
	if err != nil {
		t.Fatal(err)
	}
	return problems
}
