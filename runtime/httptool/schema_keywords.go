package httptool

import (
	"regexp"
	"slices"
)

// keyword converts one member of a schema. Members that are no keywords of JSON Schema, or not such as they have to be, say nothing.
func (s *schemas) keyword(result *value, name string, v *value) error {
	switch name {
	case "properties", "patternProperties", "dependentSchemas":
		return s.schemaMap(result, name, v)
	case "anyOf", "oneOf":
		if s.leadsBack(v) {
			return nil
		}
		return s.schemaList(result, name, v)
	case "allOf", "prefixItems":
		return s.schemaList(result, name, v)
	case "items":
		if v.kind == '[' { // JSON Schema before 2020-12
			return s.schemaList(result, "prefixItems", v)
		}
		return s.schema(result, name, v)
	case "not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames":
		return s.schema(result, name, v)
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
		// Most are for ECMA-262; the validator takes what RE2 does.
		if _, err := regexp.Compile(v.str()); err == nil && v.kind == '"' {
			result.set(name, *v)
		}
	case "default", "format", "contentMediaType", "contentEncoding", "deprecated":
		if s.way == input {
			result.set(name, *v)
		}
	case "type", "const", "multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "maxLength", "minLength", "maxItems", "minItems",
		"uniqueItems", "maxProperties", "minProperties", "dependentRequired", "minContains", "maxContains":
		result.set(name, *v)
	}
	return nil
}

func (s *schemas) schema(result *value, name string, v *value) error {
	converted, err := s.convert(v)
	if err != nil {
		return err
	}
	result.set(name, converted)
	return nil
}

func (s *schemas) schemaList(result *value, name string, v *value) error {
	if v.kind != '[' || len(v.members) == 0 {
		return nil
	}
	list := value{kind: '['}
	for i := range v.members {
		converted, err := s.convert(&v.members[i].value)
		if err != nil {
			return err
		}
		list.members = append(list.members, member{value: converted})
	}
	result.set(name, list)
	return nil
}

func (s *schemas) schemaMap(result *value, name string, v *value) error {
	if v.kind != '{' {
		return nil
	}
	list := value{kind: '{'}
	for i := range v.members {
		m := &v.members[i]
		if name == "patternProperties" {
			if _, err := regexp.Compile(m.name); err != nil {
				continue
			}
		}
		converted, err := s.convert(&m.value)
		if err != nil {
			return err
		}
		list.members = append(list.members, member{m.name, converted})
	}
	result.set(name, list)
	return nil
}

// widen lets answers pass that keep to what a schema means.
func (s *schemas) widen(result *value) {
	oneOf := result.get("oneOf")
	if oneOf == nil {
		return
	}
	either := *oneOf
	result.drop("oneOf")
	if result.get("anyOf") == nil {
		result.set("anyOf", either)
		return
	}
	all := value{kind: '['}
	if present := result.get("allOf"); present != nil {
		all.members = slices.Clone(present.members)
	}
	all.members = append(all.members, member{value: object(member{"anyOf", either})})
	result.set("allOf", all)
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
func open(v, result *value) {
	for _, name := range []string{"anyOf", "oneOf"} {
		if len(v.get(name).all()) > 0 && result.get(name) == nil {
			result.drop("unevaluatedProperties")
			result.drop("unevaluatedItems")
		}
	}
	patterns := v.get("patternProperties")
	unknown := func(m member) bool { _, err := regexp.Compile(m.name); return err != nil }
	if patterns.is('{') && slices.ContainsFunc(patterns.members, unknown) {
		result.drop("additionalProperties")
		result.drop("unevaluatedProperties")
	}
}

// hidden takes away the properties that do not go this way: readOnly ones in requests, writeOnly ones in answers.
func (s *schemas) hidden(v, result *value) {
	flag := "readOnly"
	if s.way == output {
		flag = "writeOnly"
	}
	properties := v.get("properties")
	gone := map[string]bool{}
	for i := range properties.all() {
		m := &properties.members[i]
		target, err := s.doc.follow(&m.value)
		if err == nil && (target.get(flag).isTrue() || m.value.get(flag).isTrue()) {
			gone[m.name] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	left := result.get("properties")
	left.members = slices.DeleteFunc(slices.Clone(left.members), func(m member) bool { return gone[m.name] })
	required := slices.DeleteFunc(result.get("required").strings(), func(name string) bool { return gone[name] })
	if len(required) > 0 {
		result.set("required", texts(required))
	} else {
		result.drop("required")
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
