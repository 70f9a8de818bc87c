package openapi

import (
	"fmt"
	"strings"
	"testing"
)

// TestHiddenNamesOnce: a schema's hidden properties are searched once, however many schemas refer to it.
func TestHiddenNamesOnce(t *testing.T) {
	t.Parallel()
	const properties, references = 2000, 4000
	var large, either strings.Builder
	for i := range properties {
		fmt.Fprintf(&large, `,"p%d": {"readOnly": %t, "allOf": [{}, {}, {}]}`, i, i%100 == 0)
	}
	for range references {
		either.WriteString(`,{"$ref": "#/components/schemas/Large"}`)
	}
	doc, err := readDocument(t.Context(), fmt.Appendf(nil, `{"openapi": "3.1.0", "paths": {}, "components": {"schemas": {"Large": {"properties": {%s}},
		"Any": {"anyOf": [%s]}, "Both": {"allOf": [{"$ref": "#/components/schemas/Large"}, {"required": ["p0", "p1"]}]}}}}`, large.String()[1:], either.String()[1:]))
	if err != nil {
		t.Fatal(err)
	}
	s := newConverter(doc, input)
	for _, name := range []string{"Any", "Both"} {
		v, err := doc.lookupRef("#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		converted, err := s.convertSchema(v)
		if err != nil {
			t.Fatal(err)
		}
		if name == "Both" {
			if got := converted.get("allOf").members[1].value.get("required").strings(); len(got) != 1 || got[0] != "p1" {
				t.Errorf("required: %q", got)
			}
		}
	}
	if lookups := maxValues - s.lookups; lookups > 10*(properties+references) {
		t.Errorf("%d lookups", lookups)
	}
}
