package openapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// polymorphic has a parent that lists its children, each with allOf the parent, and infinite schemas.
const polymorphic = `{"openapi": "3.0.3", "servers": [{"url": "https://pets.example"}], "paths": {
"/pets": {"post": {"operationId": "add",
  "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}},
  "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}}}},
"/cats": {"post": {"operationId": "addCat",
  "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Cat"}}}},
  "responses": {"200": {"content": {"application/json": {"schema": {"type": "object", "properties": {"all": {"type": "array", "items": {"$ref": "#/components/schemas/Cat"}}}}}}}}}},
"/endless": {"post": {"operationId": "endless",
  "requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/Endless"}}}}}}}},
"/answer": {"get": {"operationId": "answer", "responses": {"200": {"content": {"application/json": {"schema": {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/Endless"}}}}}}}}}},
"components": {"schemas": {
  "Pet": {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}, "discriminator": {"propertyName": "kind"},
    "unevaluatedProperties": false, "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]},
  "Cat": {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"type": "object", "properties": {"lives": {"type": "integer"}}}]},
  "Dog": {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"type": "object", "properties": {"tricks": {"anyOf": [{"type": "array"}, {"type": "string"}]}}}]},
  "Endless": {"allOf": [{"$ref": "#/components/schemas/More"}]}, "More": {"not": {"$ref": "#/components/schemas/Endless"}}}}}`

// An operation with an infinite schema is skipped, because no arguments or answer could be valid.
func TestCycles(t *testing.T) {
	t.Parallel()
	source, server := openDocument(t, polymorphic)
	listing, err := source.List(t.Context(), server)
	if err != nil || len(listing.Tools) != 3 || len(listing.Skipped) != 1 {
		t.Fatalf("%+v, %v", listing, err)
	}
	if s := listing.Skipped[0]; s.Name != "endless" || !strings.Contains(s.Reason, `applies itself to the same value again`) {
		t.Errorf("%+v", s)
	}
	schemas := map[string]*tool.Schemas{}
	for _, d := range listing.Tools {
		compiled, err := tool.CompileSchemas(d)
		if err != nil {
			t.Fatal(err)
		}
		schemas[d.Name] = compiled
		if strings.Contains(string(d.InputSchema), "Dog") || d.Name == "answer" && d.OutputSchema != nil {
			t.Errorf("%s: %s, %s", d.Name, d.InputSchema, d.OutputSchema)
		}
	}
	for _, tc := range []struct {
		tool, input, output string
		wrong               bool
	}{
		{tool: "add", input: `{"body": {"kind": "cat", "lives": 9}}`, output: `{"kind": "cat", "lives": 9}`},
		{tool: "addCat", input: `{"body": {"kind": "cat", "lives": 9}}`, output: `{"all": [{"kind": "cat", "lives": 9}]}`},
		{tool: "addCat", input: `{"body": {"kind": "cat", "lives": "nine"}}`, output: `{"all": [{"lives": 9}]}`, wrong: true},
	} {
		in, out := validInput(t, schemas[tc.tool], json.RawMessage(tc.input)), validOutput(t, schemas[tc.tool], json.RawMessage(tc.output))
		if len(in) > 0 != tc.wrong || len(out) > 0 != tc.wrong {
			t.Errorf("%s: %v, %v", tc.tool, in, out)
		}
	}
	// Examine explains why there is no output schema.
	found, err := openapi.Examine(t.Context(), []byte(polymorphic), "", openapi.Limits{})
	if err != nil || len(found.Operations) != 4 || !strings.Contains(found.Operations[3].NoOutputSchema, "applies itself to the same value again") {
		t.Errorf("%+v, %v", found.Operations, err)
	}
}
