package openapi_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Members next to a reference count in 3.1 but not in 3.0.
func TestBesideReferences(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version, schema string
		names, required []string
		output          string
	}{
		"3.1": {
			"3.1.0", `{"$ref": "#/components/schemas/Base", "required": ["name"], "properties": {"extra": {"type": "integer"}}}`,
			[]string{"name", "extra"},
			[]string{"name"},
			`{"$ref":"#/$defs/Base","required":["name"],"properties":{"extra":{"type":"integer"}},"type":"object","$defs":{"Base":{"type":"object","properties":{"name":{"type":"string"}}}}}`,
		},
		"3.0": {
			"3.0.3", `{"$ref": "#/components/schemas/Base", "required": ["name"], "properties": {"extra": {"type": "integer"}}}`,
			[]string{"name"},
			nil, `{"type":"object","properties":{"name":{"type":"string"}}}`,
		},
		"in allOf": {
			"3.1.0", `{"allOf": [{"$ref": "#/components/schemas/Base", "properties": {"extra": {}}, "required": ["extra"]}, {"properties": {"last": {}}}]}`,
			[]string{"name", "extra", "last"},
			[]string{"extra"},
			`{"allOf":[{"$ref":"#/$defs/Base","properties":{"extra":{}},"required":["extra"]},{"properties":{"last":{}}}],"type":"object",` +
				`"$defs":{"Base":{"type":"object","properties":{"name":{"type":"string"}}}}}`,
		},
		"more than an object": {
			"3.1.0", `{"$ref": "#/components/schemas/Base", "oneOf": [{"required": ["name"]}, {"required": ["other"]}]}`,
			[]string{"body"},
			nil,
			`{"$ref":"#/$defs/Base","anyOf":[{"required":["name"]},{"required":["other"]}],"type":"object","$defs":{"Base":{"type":"object","properties":{"name":{"type":"string"}}}}}`,
		},
		"an object only by it": {
			"3.1.0", `{"$ref": "#/components/schemas/Any", "type": "object", "properties": {"extra": {}}}`,
			[]string{"extra"},
			nil,
			`{"$ref":"#/$defs/Any","type":"object","properties":{"extra":{}},"$defs":{"Any":{"description":"Whatever."}}}`,
		},
		"nothing but it": {
			"3.1.0", `{"$ref": "#/components/schemas/Base"}`, []string{"name"}, nil, `{"type":"object","properties":{"name":{"type":"string"}}}`,
		},
		"round in circles": {
			"3.1.0", `{"$ref": "#/components/schemas/Circle", "required": ["name"]}`, nil, nil, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, server := openDocument(t, fmt.Sprintf(`{"openapi": %q, "paths": {"/a": {"post": {
				"requestBody": {"content": {"application/json": {"schema": %s}}}, "responses": {"200": {"content": {"application/json": {"schema": %s}}}}}}},
				"components": {"schemas": {"Base": {"type": "object", "properties": {"name": {"type": "string"}}}, "Any": {"description": "Whatever."},
				"Circle": {"$ref": "#/components/schemas/Circle", "title": "round"}}}}`, tc.version, tc.schema, tc.schema))
			listing, err := source.List(t.Context(), server)
			if err != nil || len(listing.Tools)+len(listing.Skipped) != 1 {
				t.Fatalf("%+v, %v", listing, err)
			}
			if tc.names == nil {
				if len(listing.Skipped) != 1 {
					t.Errorf("offered: %s", listing.Tools[0].InputSchema)
				}
				return
			}
			names, required := inputOf(t, listing.Tools[0])
			if !slices.Equal(names, tc.names) || !slices.Equal(required, tc.required) {
				t.Errorf("arguments %q, required %q; want %q, %q", names, required, tc.names, tc.required)
			}
			if diff := cmp.Diff(tc.output, string(listing.Tools[0].OutputSchema)); diff != "" {
				t.Errorf("output: %s", diff)
			}
		})
	}
}
