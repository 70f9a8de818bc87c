package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schemas checks those of an endpoint and of its parameters.
func (p *problems) schemas(at string, e *Endpoint) {
	for _, name := range slices.Sorted(maps.Keys(e.Parameters)) {
		if schema := e.Parameters[name].Schema; len(schema) > 0 {
			// As a part of the schema that it will be in: what it refers to has to be there.
			whole := fmt.Appendf(nil, `{"type":"object","properties":{"value":%s}}`, schema)
			p.compiles(at+".parameters."+name+".schema", schema, Definition{InputSchema: whole})
		}
	}
	any1 := json.RawMessage(`{"type":"object"}`)
	if len(e.InputSchema) > 0 && p.compiles(at+".input_schema", e.InputSchema, Definition{InputSchema: e.InputSchema}) {
		p.fits(at+".input_schema", e)
	}
	if len(e.OutputSchema) > 0 && p.compiles(at+".output_schema", e.OutputSchema, Definition{InputSchema: any1, OutputSchema: e.OutputSchema}) {
		var root struct {
			Type string `json:"type"`
		}
		err := json.Unmarshal(e.OutputSchema, &root)
		p.check(err == nil && root.Type != "", at+".output_schema", "must have a type: object, array, string, number, integer or boolean")
	}
}

// compiles checks one schema, in the definition that it would be in.
func (p *problems) compiles(at string, schema json.RawMessage, in Definition) bool {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(schema, &members); err != nil {
		p.add(at, "must be a JSON Schema: an object")
		return false
	}
	in.Name = "endpoint"
	text, err := json.Marshal(in)
	if err == nil {
		_, err = ParseDefinition(text)
	}
	if err == nil {
		_, err = CompileSchemas(in)
	}
	if err != nil {
		p.add(at, "cannot be used: "+clip(strings.TrimPrefix(err.Error(), ErrDefinition.Error()+`: "endpoint": `)))
		return false
	}
	return true
}

// fits compares an input schema with the parameters: an argument that goes nowhere would be a promise that is not kept.
func (p *problems) fits(at string, e *Endpoint) {
	var schema struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(e.InputSchema, &schema); err != nil || schema.Type != "object" {
		p.add(at, "must be of type object")
		return
	}
	all := e.AllParameters()
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		_, known := all[name]
		p.check(known, at+".properties."+clip(name), "is none of the endpoint's parameters")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p.check(all[name].In != "path" || slices.Contains(schema.Required, name), at+".required", fmt.Sprintf("must have %s, which the path needs", clip(name)))
	}
}
