package openapi_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Hidden properties are not required, wherever in allOf they are annotated. This holds for bodies of one or several
// arguments, and for answers.
func TestHiddenProperties(t *testing.T) {
	t.Parallel()
	const account = `{"allOf": [{"$ref": "#/components/schemas/Account"}, {"required": ["id", "password", "name"], "properties": {"id": {"type": "string"}}}]}`
	source, server := openDocument(t, `{"openapi": "3.0.3", "paths": {
		"/a": {"put": {"operationId": "put", "requestBody": {"content": {"application/json": {"schema": `+account+`}}},
			"responses": {"200": {"content": {"application/json": {"schema": `+account+`}}}}}},
		"/all": {"post": {"operationId": "all", "requestBody": {"content": {"application/json": {"schema": {"type": "array", "items": `+account+`}}}}}}},
		"components": {"schemas": {"Account": {"type": "object", "properties": {
			"id": {"type": "string", "readOnly": true}, "password": {"type": "string", "writeOnly": true}, "name": {"type": "string"}}}}}}`)
	listing, err := source.List(t.Context(), server)
	if err != nil || len(listing.Tools) != 2 {
		t.Fatalf("%+v, %v", listing, err)
	}
	put, all := listing.Tools[0], listing.Tools[1]
	names, required := inputOf(t, put)
	if !slices.Equal(names, []string{"password", "name"}) || !slices.Equal(required, []string{"password", "name"}) {
		t.Errorf("arguments %q, required %q", names, required)
	}
	for _, tc := range []struct {
		definition tool.Definition
		output     bool
		value      string
		fits       bool
	}{
		{definition: all, value: `{"body": [{"password": "geheim", "name": "a"}]}`, fits: true},
		{definition: all, value: `{"body": [{"name": "a"}]}`},
		{definition: put, output: true, value: `{"id": "1", "name": "a"}`, fits: true},
		{definition: put, output: true, value: `{"name": "a"}`},
	} {
		schemas, err := tool.CompileSchemas(tc.definition)
		if err != nil {
			t.Fatal(err)
		}
		problems := validInput(t, schemas, json.RawMessage(tc.value))
		if tc.output {
			problems = validOutput(t, schemas, json.RawMessage(tc.value))
		}
		if tc.fits != (len(problems) == 0) {
			t.Errorf("%s, %s: %v", tc.definition.Name, tc.value, problems)
		}
	}
}

// The dashboard masks writeOnly arguments, so each argument of a body keeps the annotation.
func TestWriteOnlyArgumentsAreMarked(t *testing.T) {
	t.Parallel()
	source, server := openDocument(t, `{"openapi": "3.1.0", "paths": {"/a": {"post": {"requestBody": {"content": {"application/json": {"schema":
		{"type": "object", "properties": {"phrase": {"type": "string", "writeOnly": true}, "pin": {"$ref": "#/components/schemas/Pin"}}}}}}}}},
		"components": {"schemas": {"Pin": {"type": "integer", "writeOnly": true}}}}`)
	listing, err := source.List(t.Context(), server)
	if err != nil || len(listing.Tools) != 1 {
		t.Fatalf("%+v, %v", listing, err)
	}
	var schema struct {
		Properties map[string]struct{ WriteOnly bool } `json:"properties"`
		Defs       map[string]struct{ WriteOnly bool } `json:"$defs"`
	}
	if err := json.Unmarshal(listing.Tools[0].InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	if !schema.Properties["phrase"].WriteOnly || !schema.Defs["Pin"].WriteOnly {
		t.Errorf("%s", listing.Tools[0].InputSchema)
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
