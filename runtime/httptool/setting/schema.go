package setting

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// checkSchemas checks the schemas of an endpoint and of its parameters.
func (p *problemList) checkSchemas(at string, e *tool.Endpoint) {
	for _, name := range slices.Sorted(maps.Keys(e.Parameters)) {
		if schema := e.Parameters[name].Schema; len(schema) > 0 {
			// Inside the schema that will contain it, because its references must resolve there.
			whole := fmt.Appendf(nil, `{"type":"object","properties":{"value":%s}}`, schema)
			p.checkSchema(at+".parameters."+name+".schema", schema, tool.Definition{InputSchema: whole})
		}
	}
	anyObject := json.RawMessage(`{"type":"object"}`)
	if len(e.InputSchema) > 0 && p.checkSchema(at+".input_schema", e.InputSchema, tool.Definition{InputSchema: e.InputSchema}) {
		p.checkInputSchema(at+".input_schema", e)
	}
	if len(e.OutputSchema) > 0 && p.checkSchema(at+".output_schema", e.OutputSchema, tool.Definition{InputSchema: anyObject, OutputSchema: e.OutputSchema}) {
		var root struct {
			Type string `json:"type"`
		}
		err := json.Unmarshal(e.OutputSchema, &root)
		p.check(err == nil && root.Type != "", at+".output_schema", "must have a type: object, array, string, number, integer or boolean")
	}
}

// checkSchema compiles a schema inside the definition that will contain it. It reports whether that worked.
func (p *problemList) checkSchema(at string, schema json.RawMessage, in tool.Definition) bool {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(schema, &members); err != nil {
		p.add(at, "must be a JSON Schema: an object")
		return false
	}
	in.Name = "endpoint"
	text, err := json.Marshal(in)
	if err == nil {
		_, err = tool.ParseDefinition(text)
	}
	if err == nil {
		_, err = tool.CompileSchemas(in)
	}
	if err != nil {
		p.add(at, "cannot be used: "+tool.Clip(strings.TrimPrefix(err.Error(), tool.ErrDefinition.Error()+`: "endpoint": `)))
		return false
	}
	return true
}

// checkInputSchema compares an input schema with the parameters: each property must be a parameter, or its argument would be lost.
func (p *problemList) checkInputSchema(at string, e *tool.Endpoint) {
	var schema struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(e.InputSchema, &schema); err != nil || schema.Type != "object" {
		p.add(at, "must be of type object")
		return
	}
	all := ParametersOf(e)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		_, known := all[name]
		p.check(known, at+".properties."+tool.Clip(name), "is none of the endpoint's parameters")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p.check(all[name].In != "path" || slices.Contains(schema.Required, name), at+".required", fmt.Sprintf("must have %s, which the path needs", tool.Clip(name)))
	}
}
