package manifest

import (
	"encoding/json"
	"fmt"
)

// schema is a JSON Schema, with its keywords in the order of a reader.
type schema struct {
	Schema               string            `json:"$schema,omitempty"`
	Title                string            `json:"title,omitempty"`
	Description          string            `json:"description,omitempty"`
	Type                 any               `json:"type,omitempty"`
	Enum                 []string          `json:"enum,omitempty"`
	Pattern              string            `json:"pattern,omitempty"`
	Minimum              json.Number       `json:"minimum,omitempty"`
	Maximum              json.Number       `json:"maximum,omitempty"`
	Const                any               `json:"const,omitempty"`
	AnyOf                []schema          `json:"anyOf,omitempty"`
	Items                *schema           `json:"items,omitempty"`
	MinItems             int               `json:"minItems,omitempty"`
	Properties           map[string]schema `json:"properties,omitempty"`
	Required             []string          `json:"required,omitempty"`
	MinProperties        int               `json:"minProperties,omitempty"`
	AdditionalProperties any               `json:"additionalProperties,omitempty"` // a *schema, or false
}

// Schema returns the JSON Schema of holdpoint.yaml, for editors.
func Schema() ([]byte, error) {
	top := buildSchema(topShape())
	top.Schema, top.Title = "http://json-schema.org/draft-07/schema#", "holdpoint.yaml"
	top.Description = "What holdpoint apply declares: skills, agents, rules and policies. Made from the types of the program: holdpoint schema."
	text, err := json.MarshalIndent(top, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return append(text, '\n'), nil
}

// scalar is the schema of a word: YAML's numbers and truth values are words, too.
func scalar() schema { return schema{Type: []string{"string", "number", "boolean"}} }

// durationPattern matches durations as Go writes them.
const durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

func buildSchema(s shape) schema {
	built := schema{}
	switch s.kind {
	case word:
		built = scalar()
		if s.values != nil {
			built = schema{Enum: s.values}
		}
	case boolean:
		built.Type = "boolean"
	case number, decimal:
		built.Type, built.Minimum, built.Maximum = "number", json.Number(s.low), json.Number(s.high)
		if s.kind == number {
			built.Type = "integer"
		}
	case duration:
		built.Type, built.Pattern = "string", durationPattern
	case list:
		of := buildSchema(*s.of)
		built.Type, built.Items = "array", &of
	case dictionary:
		of := buildSchema(*s.of)
		built.Type, built.AdditionalProperties = "object", &of
	case object:
		built = objectSchema(s)
	case free:
	}
	if s.secret {
		built = secretSchema()
	}
	built.Description = s.describeForEditors()
	return built
}

func objectSchema(s shape) schema {
	built := schema{Type: "object", Properties: map[string]schema{}, AdditionalProperties: false}
	for _, name := range s.listNames() {
		field := s.fields[name]
		built.Properties[name] = buildSchema(field)
		if field.required {
			built.Required = append(built.Required, name)
		}
		if !field.secret {
			continue
		}
		for suffix, reference := range references() {
			reference.Description = field.doc + " " + reference.Description
			built.Properties[name+"_"+suffix] = reference
		}
	}
	if s.short == "" {
		return built
	}
	short := buildSchema(s.fields[s.short])
	return schema{AnyOf: []schema{short, built}}
}

// references are the ways to name a secret that is elsewhere.
func references() map[string]schema {
	return map[string]schema{
		"env":  {Type: "string", Description: "The value is in this environment variable of the machine where holdpoint runs."},
		"file": {Type: "string", Description: "The value is in this file of the machine where holdpoint runs. A relative path starts from the folder of holdpoint.yaml."},
		"exec": {
			AnyOf:       []schema{{Type: "string"}, {Type: "array", Items: new(scalar()), MinItems: 1}},
			Description: "The value is what this program prints on the machine where holdpoint apply or diff runs: the program and its arguments.",
		},
	}
}

func secretSchema() schema {
	one := schema{
		Type: "object", MinProperties: 1, AdditionalProperties: false, Properties: references(),
	}
	one.Properties["stored"] = schema{Const: true, Description: "The server keeps the value that it has."}
	return schema{AnyOf: []schema{scalar(), one}}
}

// describeForEditors returns a field's description with its default and bounds.
func (s *shape) describeForEditors() string {
	text := s.doc
	if s.kind == duration && s.low != "" {
		text += " From " + s.low + " to " + s.high + "."
	}
	if s.otherwise != "" && text != "" {
		text += " Default: " + s.otherwise + "."
	}
	return text
}
