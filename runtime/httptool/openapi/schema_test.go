package openapi_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Converted schemas of requests and answers
func TestSchemas(t *testing.T) {
	t.Parallel()
	const same = "" // in answers as in requests
	for name, tc := range map[string]struct{ version, schema, input, output string }{
		"as it is":            {"3.1.0", `{"type":["string","null"],"const":"a","minLength":1}`, `{"type":["string","null"],"const":"a","minLength":1}`, same},
		"nullable":            {"3.0.3", `{"type":"string","nullable":true}`, `{"type":["string","null"]}`, same},
		"not nullable":        {"3.0.3", `{"type":"string","nullable":false}`, `{"type":"string"}`, same},
		"nullable enum":       {"3.0.3", `{"type":"string","nullable":true,"enum":["a"]}`, `{"type":["string","null"],"enum":["a",null]}`, same},
		"nullable reference":  {"3.0.3", `{"nullable":true,"allOf":[{"$ref":"#/components/schemas/S"}]}`, `{"anyOf":[{"allOf":[{"$ref":"#/$defs/S"}]},{"type":"null"}]}`, same},
		"exclusive flag":      {"3.0.3", `{"minimum":1,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}`, `{"maximum":9,"exclusiveMinimum":1}`, same},
		"exclusive":           {"3.1.0", `{"exclusiveMinimum":1,"exclusiveMaximum":9}`, `{"exclusiveMinimum":1,"exclusiveMaximum":9}`, same},
		"flag without bound":  {"3.0.3", `{"exclusiveMinimum":true}`, `{}`, same},
		"words of OpenAPI":    {"3.0.3", `{"type":"object","discriminator":{"propertyName":"a"},"xml":{},"externalDocs":{},"example":1,"x-a":1}`, `{"type":"object"}`, same},
		"examples":            {"3.1.0", `{"examples":[1],"x-mcp-header":"Host","$id":"https://a.example","$schema":"https://b.example","$anchor":"a"}`, `{}`, same},
		"format":              {"3.0.3", `{"type":"string","format":"date-time","default":"now"}`, `{"type":"string","format":"date-time","default":"now"}`, `{"type":"string"}`},
		"pattern":             {"3.0.3", `{"pattern":"^a+$"}`, `{"pattern":"^a+$"}`, same},
		"pattern of ECMA-262": {"3.0.3", `{"type":"string","pattern":"^(?!a)"}`, `{"type":"string"}`, same},
		"patterns of names":   {"3.1.0", `{"patternProperties":{"(?=a)":{}},"additionalProperties":false}`, `{"patternProperties":{}}`, same},
		"oneOf":               {"3.0.3", `{"oneOf":[{"type":"string"}]}`, `{"oneOf":[{"type":"string"}]}`, `{"anyOf":[{"type":"string"}]}`},
		"oneOf and anyOf":     {"3.0.3", `{"oneOf":[{}],"anyOf":[{"minLength":1}]}`, `{"oneOf":[{}],"anyOf":[{"minLength":1}]}`, `{"anyOf":[{"minLength":1}],"allOf":[{"anyOf":[{}]}]}`},
		"reference, 3.0":      {"3.0.3", `{"$ref":"#/components/schemas/S","minLength":3,"description":"d"}`, `{"$ref":"#/$defs/S","description":"d"}`, same},
		"reference, 3.1":      {"3.1.0", `{"$ref":"#/components/schemas/S","minLength":3,"description":"d"}`, `{"$ref":"#/$defs/S","minLength":3,"description":"d"}`, same},
		"any":                 {"3.1.0", `true`, `true`, same},
		"none":                {"3.1.0", `false`, `false`, same},
		"tuple, old":          {"3.1.0", `{"items":[{"type":"string"}]}`, `{"prefixItems":[{"type":"string"}]}`, same},
		"secret":              {"3.1.0", `{"type":"string","format":"password"}`, `{"type":"string","format":"password"}`, `{"type":"string"}`},
		"wrong kinds":         {"3.0.3", `{"writeOnly":"yes","required":true,"enum":"a","title":1,"allOf":[],"properties":[]}`, `{}`, same},
		"only one way": {
			"3.0.3", `{"required":["r","w"],"properties":{"r":{"readOnly":true},"w":{"writeOnly":true}}}`,
			`{"required":["w"],"properties":{"w":{"writeOnly":true}}}`, `{"required":["r"],"properties":{"r":{}}}`,
		},
		"only one way, said elsewhere": {
			"3.0.3", `{"allOf":[{"$ref":"#/components/schemas/Base"},{"required":["id","password","name"],"dependentRequired":{"name":["id","more"]}}]}`,
			`{"allOf":[{"$ref":"#/$defs/Base"},{"required":["password","name"],"dependentRequired":{"name":["more"]}}]}`,
			`{"allOf":[{"$ref":"#/$defs/Base"},{"required":["id","name"],"dependentRequired":{"name":["id","more"]}}]}`,
		},
		"only one way, one of several": {
			"3.1.0", `{"$ref":"#/components/schemas/Base","anyOf":[{"required":["id"]},{"required":["password"]}],"properties":{"sub":{"required":["id"]}}}`,
			`{"$ref":"#/$defs/Base","anyOf":[{},{"required":["password"]}],"properties":{"sub":{"required":["id"]}}}`,
			`{"$ref":"#/$defs/Base","anyOf":[{"required":["id"]},{}],"properties":{"sub":{"required":["id"]}}}`,
		},
		"only one way, by a reference": {
			"3.1.0", `{"required":["r","w"],"properties":{"r":{"allOf":[{"$ref":"#/components/schemas/Read"}]},"w":{"$ref":"#/components/schemas/S","writeOnly":true}}}`,
			`{"required":["w"],"properties":{"w":{"$ref":"#/$defs/S","writeOnly":true}}}`, `{"required":["r"],"properties":{"r":{"allOf":[{"$ref":"#/$defs/Read"}]}}}`,
		},
		"not what is unknown": {"3.1.0", `{"not":{"pattern":"^(?!x)"}}`, `{}`, same},
		"not what is known":   {"3.1.0", `{"not":{"pattern":"^x"}}`, `{"not":{"pattern":"^x"}}`, same},
		"not a format":        {"3.1.0", `{"not":{"allOf":[{"$ref":"#/components/schemas/Mail"}]}}`, `{}`, same},
		"not one of":          {"3.1.0", `{"not":{"oneOf":[{"type":"string"},{"minimum":1}]}}`, `{"not":{"oneOf":[{"type":"string"},{"minimum":1}]}}`, `{}`},
		"not hidden":          {"3.1.0", `{"$ref":"#/components/schemas/Base","not":{"required":["id"]}}`, `{"$ref":"#/$defs/Base"}`, `{"$ref":"#/$defs/Base","not":{"required":["id"]}}`},
		"not what has no end": {"3.1.0", `{"not":{"properties":{"a":{"$ref":"#/components/schemas/Parent"}}}}`, `{}`, same},
		"not not":             {"3.1.0", `{"not":{"not":{"items":{"pattern":"(?=a)"}}}}`, `{}`, same},
		"if unknown":          {"3.1.0", `{"if":{"properties":{"a":{"pattern":"(?=a)"}}},"then":{"required":["b"]},"else":{"required":["c"]}}`, `{}`, same},
		"if known":            {"3.1.0", `{"if":{"required":["a"]},"then":{"pattern":"(?=a)"},"else":false}`, `{"if":{"required":["a"]},"then":{},"else":false}`, same},
		"some of them":        {"3.1.0", `{"contains":{"pattern":"(?=a)"},"maxContains":2}`, `{"contains":{}}`, same},
		"one of formats":      {"3.1.0", `{"oneOf":[{"format":"ipv4"},{"format":"ipv6"}]}`, `{"anyOf":[{"format":"ipv4"},{"format":"ipv6"}]}`, `{"anyOf":[{},{}]}`},
		"names like words":    {"3.0.3", `{"properties":{"$ref":{"type":"string"},"nullable":{"type":"string"}}}`, `{"properties":{"$ref":{"type":"string"},"nullable":{"type":"string"}}}`, same},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := `{"schema": {"type": "object", "properties": {"v": ` + tc.schema + `}}}`
			source, server := openDocument(t, fmt.Sprintf(`{"openapi": %q, "paths": {"/a": {"post": {
				"requestBody": {"content": {"application/json": %s}}, "responses": {"200": {"content": {"application/json": %s}}}}}},
				"components": {"schemas": {"S": {"type": "string"}, "Read": {"readOnly": true}, "Mail": {"format": "email"},
				"Base": {"type": "object", "properties": {"id": {"readOnly": true}, "password": {"writeOnly": true}, "name": {}}},
				"Parent": {"oneOf": [{"$ref": "#/components/schemas/Child"}]}, "Child": {"allOf": [{"$ref": "#/components/schemas/Parent"}]}}}}`, tc.version, object, object))
			listing, err := source.List(t.Context(), server)
			if err != nil || len(listing.Tools) != 1 {
				t.Fatalf("%+v, %v", listing, err)
			}
			if tc.output == same {
				tc.output = tc.input
			}
			if diff := cmp.Diff(tc.input, propertySchema(t, listing.Tools[0].InputSchema)); diff != "" {
				t.Errorf("input: %s", diff)
			}
			if diff := cmp.Diff(tc.output, propertySchema(t, listing.Tools[0].OutputSchema)); diff != "" {
				t.Errorf("output: %s", diff)
			}
		})
	}
}

// propertySchema returns the schema of the property v.
func propertySchema(t *testing.T, schema json.RawMessage) string {
	t.Helper()
	var object struct {
		Properties struct {
			V json.RawMessage `json:"v"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(schema, &object); err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return string(object.Properties.V)
}

// An answer has no schema if correct answers could break it.
func TestOutputSchemas(t *testing.T) {
	t.Parallel()
	json := func(schema string) string { return `{"content": {"application/json": {"schema": ` + schema + `}}}` }
	for name, tc := range map[string]struct {
		responses, want, accept string
		change                  func(*tool.API)
	}{
		"object":          {responses: `"201": ` + json(`{"type":"object"}`), want: `{"type":"object"}`, accept: "application/json"},
		"array":           {responses: `"200": ` + json(`{"type":"array"}`), want: `{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]}`, accept: "application/json"},
		"all of 2xx":      {responses: `"2XX": ` + json(`{"properties":{}}`), want: `{"properties":{},"type":"object"}`, accept: "application/json"},
		"another of JSON": {responses: `"200": {"content": {"text/html": {}, "application/hal+json": {"schema": {"type":"object"}}}}`, want: `{"type":"object"}`, accept: "application/hal+json"},
		"reference": {
			responses: `"200": ` + json(`{"$ref":"#/components/schemas/Tree"}`), accept: "application/json",
			want: `{"type":"object","properties":{"sub":{"$ref":"#/$defs/Tree"}},"$defs":{"Tree":{"type":"object","properties":{"sub":{"$ref":"#/$defs/Tree"}}}}}`,
		},
		"all of it":         {responses: `"200": ` + json(`{"allOf":[{"type":"object"}]}`), want: `{"allOf":[{"type":"object"}],"type":"object"}`, accept: "application/json"},
		"default":           {responses: `"default": ` + json(`{"type":"object"}`)},
		"an error":          {responses: `"404": ` + json(`{"type":"object"}`)},
		"no JSON":           {responses: `"200": {"content": {"image/png": {}, "text/plain": {}}}`, accept: "image/png, text/plain"},
		"either":            {responses: `"200": ` + json(`{"oneOf":[{"type":"object"},{"type":"array"}]}`), accept: "application/json"},
		"null":              {responses: `"200": ` + json(`{"type":"object","nullable":true}`), accept: "application/json"},
		"nothing, too":      {responses: `"204": {}, "200": ` + json(`{"type":"object"}`), accept: "application/json"},
		"two that differ":   {responses: `"200": ` + json(`{"type":"object"}`) + `, "202": ` + json(`{"type":"array"}`), accept: "application/json"},
		"two of a kind":     {responses: `"200": ` + json(`{"type":"object"}`) + `, "201": ` + json(`{"type":"object"}`), want: `{"type":"object"}`, accept: "application/json"},
		"elsewhere":         {responses: `"200": ` + json(`{"$ref":"https://a.example/s.json"}`), accept: "application/json"},
		"invalid":           {responses: `"200": ` + json(`{"type":"object","properties":{"a":{"type":"strin"}}}`), accept: "application/json"},
		"not wanted":        {responses: `"200": ` + json(`{"type":"object"}`), accept: "application/json", change: func(a *tool.API) { a.NoOutputSchemas = true }},
		"something else of": {responses: `"200": ` + json(`{"type":"object"}`), accept: "application/json", change: func(a *tool.API) { a.Select = map[string]string{"it": ".a"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, server := openDocument(t, `{"openapi": "3.0.3", "paths": {"/a": {"get": {"operationId": "it", "responses": {`+tc.responses+`}}}},
				"components": {"schemas": {"Tree": {"type": "object", "properties": {"sub": {"$ref": "#/components/schemas/Tree"}}}}}}`)
			if tc.change != nil {
				tc.change(server.API)
			}
			listing, err := source.List(t.Context(), server)
			if err != nil || len(listing.Tools) != 1 {
				t.Fatalf("%+v, %v", listing, err)
			}
			if diff := cmp.Diff(tc.want, string(listing.Tools[0].OutputSchema)); diff != "" {
				t.Error(diff)
			}
			made := readBinding(t, listing.Tools[0])
			if made.Accept != tc.accept || made.Select != server.API.Select["it"] {
				t.Errorf("%+v", made)
			}
		})
	}
}
