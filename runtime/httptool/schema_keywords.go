package httptool

import "slices"

// keyword converts one member of a schema. Members that are no keywords of JSON Schema, or not such as they have to be, say nothing.
func (s *schemas) keyword(result *value, name string, v *value, gone hiddenNames) error {
	switch name {
	case "properties", "patternProperties":
		return s.schemaMap(result, name, v, nil)
	case "dependentSchemas":
		return s.schemaMap(result, name, v, gone)
	case "allOf", "anyOf", "oneOf":
		if name != "allOf" && s.leadsBack(v) {
			return nil
		}
		return s.schemaList(result, name, v, gone)
	case "prefixItems":
		return s.schemaList(result, name, v, nil)
	case "items":
		if v.kind == '[' { // JSON Schema before 2020-12
			return s.schemaList(result, "prefixItems", v, nil)
		}
		return s.schema(result, name, v, nil)
	case "not", "if", "then", "else":
		return s.schema(result, name, v, gone)
	case "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames":
		return s.schema(result, name, v, nil)
	}
	s.assertion(result, name, v)
	return nil
}

// assertion takes over a member that has no schemas in it.
func (s *schemas) assertion(result *value, name string, v *value) {
	switch name {
	case "title", "description":
		if v.kind == '"' {
			result.set(name, *v)
		}
	case "required":
		if required := v.strings(); len(required) > 0 {
			result.set(name, texts(distinct(required)))
		}
	case "enum":
		if v.kind == '[' && len(v.members) > 0 {
			result.set(name, *v)
		}
	case "pattern":
		if v.kind == '"' && s.doc.isPattern(v.text) {
			result.set(name, *v)
		}
	case "default", "format", "contentMediaType", "contentEncoding", "deprecated":
		if s.way == input {
			result.set(name, *v)
		}
	case "writeOnly": // the dashboard hides such arguments
		if s.way == input && v.kind == 't' {
			result.set(name, *v)
		}
	case "type", "const", "multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "maxLength", "minLength", "maxItems", "minItems",
		"uniqueItems", "maxProperties", "minProperties", "dependentRequired", "minContains", "maxContains":
		result.set(name, *v)
	}
}

func (s *schemas) schema(result *value, name string, v *value, gone hiddenNames) error {
	converted, err := s.within(v, gone)
	if err != nil {
		return err
	}
	result.set(name, converted)
	return nil
}

func (s *schemas) schemaList(result *value, name string, v *value, gone hiddenNames) error {
	if v.kind != '[' || len(v.members) == 0 {
		return nil
	}
	list := value{kind: '['}
	for i := range v.members {
		converted, err := s.within(&v.members[i].value, gone)
		if err != nil {
			return err
		}
		list.members = append(list.members, member{value: converted})
	}
	result.set(name, list)
	return nil
}

func (s *schemas) schemaMap(result *value, name string, v *value, gone hiddenNames) error {
	if v.kind != '{' {
		return nil
	}
	list := value{kind: '{'}
	for i := range v.members {
		m := &v.members[i]
		if name == "patternProperties" {
			if !s.doc.isPattern(m.name) {
				continue
			}
		}
		converted, err := s.within(&m.value, gone)
		if err != nil {
			return err
		}
		list.members = append(list.members, member{m.name, converted})
	}
	result.set(name, list)
	return nil
}

// exclusive makes the bounds of 3.0, which are flags, those of JSON Schema.
func (s *schemas) exclusive(result *value) {
	for _, pair := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		flag, bound := result.get(pair[0]), result.get(pair[1])
		if flag == nil || flag.kind == '0' {
			continue
		}
		isSet := flag.isTrue()
		result.drop(pair[0])
		if isSet && bound.is('0') {
			limit := *bound
			result.drop(pair[1])
			result.set(pair[0], limit)
		}
	}
}

// open lets pass the members that something would that was left out: a pattern that is not understood, a list of children.
func (s *schemas) open(v, result *value) {
	for _, name := range []string{"anyOf", "oneOf"} {
		if len(v.get(name).all()) > 0 && result.get(name) == nil {
			result.drop("unevaluatedProperties")
			result.drop("unevaluatedItems")
		}
	}
	patterns := v.get("patternProperties")
	unknown := func(m member) bool { return !s.doc.isPattern(m.name) }
	if patterns.is('{') && slices.ContainsFunc(patterns.members, unknown) {
		result.drop("additionalProperties")
		result.drop("unevaluatedProperties")
	}
}

// nullable also lets null pass.
func nullable(v value) value {
	null := text("null")
	if enum := v.get("enum"); enum != nil && !slices.ContainsFunc(enum.members, func(m member) bool { return m.value.kind == 'n' }) {
		v.set("enum", value{kind: '[', members: append(slices.Clone(enum.members), member{value: value{kind: 'n'}})})
	}
	kind := v.get("type")
	switch {
	case kind.is('"') && kind.text != "null":
		v.set("type", array(*kind, null))
	case kind.is('[') && !slices.Contains(kind.strings(), "null"):
		v.set("type", value{kind: '[', members: append(slices.Clone(kind.members), member{value: null})})
	}
	for _, combined := range []string{"$ref", "allOf", "anyOf", "oneOf", "const"} {
		if v.get(combined) != nil {
			return object(member{"anyOf", array(v, object(member{"type", null}))})
		}
	}
	return v
}

// distinct keeps the first of each.
func distinct(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		before := seen[s]
		seen[s] = true
		return before
	})
}
