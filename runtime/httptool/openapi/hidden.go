package openapi

import (
	"maps"
	"slices"
)

// hiddenNames are the properties of a value that do not go in the direction of a schema.
type hiddenNames map[string]bool

// hiddenOf returns the hidden properties: readOnly ones in requests, writeOnly ones in answers. It looks in the schema and its allOf, and
// follows references: one annotation of a property counts for all (JSON Schema 2020-12 Validation, section 9.4). outer are the
// hidden properties of enclosing schemas that apply to the same value. Once a document has taken too many lookups, no more are hidden.
func (s *converter) hiddenOf(v *value, outer hiddenNames) hiddenNames {
	found := s.gatherHidden(v)
	if s.lookups -= len(found); s.lookups < 0 || !slices.ContainsFunc(found, func(name string) bool { return !outer[name] }) {
		return outer
	}
	s.lookups -= len(outer)
	gone := make(hiddenNames, len(outer)+len(found))
	maps.Copy(gone, outer)
	for _, name := range found {
		gone[name] = true
	}
	return gone
}

// gatherHidden returns the names of the hidden properties of a schema. It searches each schema once.
func (s *converter) gatherHidden(v *value) []string {
	if !v.is('{') {
		return nil
	}
	found, known := s.hidden[v]
	if known || s.lookups < 0 {
		return found
	}
	s.doc.spend(1 + len(v.members))
	s.hidden[v] = nil // in case it refers to itself
	if ref := v.get("$ref"); ref.is('"') {
		if target, err := s.doc.lookupRef(ref.text); err == nil {
			found = s.gatherHidden(target)
		}
		if !s.doc.hasVersion("3.1") {
			s.hidden[v] = found
			return found
		}
	}
	flag := "readOnly"
	if s.direction == output {
		flag = "writeOnly"
	}
	properties, parts := v.get("properties"), v.get("allOf")
	found = slices.Clip(found) // it may belong to another schema
	if properties.is('{') {
		for i := range properties.members {
			if s.lookups--; s.lookups >= 0 && s.doc.hasFlag(&properties.members[i].value, flag) {
				found = append(found, properties.members[i].name)
			}
		}
	}
	for i := range parts.all() {
		more := s.gatherHidden(&parts.members[i].value)
		if s.lookups -= 1 + len(more); s.lookups < 0 {
			break
		}
		found = append(found, more...)
	}
	s.hidden[v] = found
	return found
}

// hasFlag reports whether a schema, a schema that it refers to, or one of its allOf has a flag.
func (d *document) hasFlag(v *value, flag string) bool {
	budget := maxHops
	var look func(v *value) bool
	look = func(v *value) bool {
		if budget--; budget < 0 || !v.is('{') {
			return false
		}
		if v.get(flag).isTrue() {
			return true
		}
		if ref := v.get("$ref"); ref.is('"') {
			if target, err := d.lookupRef(ref.text); err == nil && look(target) {
				return true
			}
		}
		return slices.ContainsFunc(v.get("allOf").all(), func(m member) bool { return look(&m.value) })
	}
	return look(v)
}

// removeHidden removes hidden properties from a schema, and from the properties that it requires.
func removeHidden(result *value, gone hiddenNames) {
	if len(gone) == 0 {
		return
	}
	keep := func(list []string) []string {
		return slices.DeleteFunc(list, func(name string) bool { return gone[name] })
	}
	if properties := result.get("properties"); properties != nil {
		properties.members = slices.DeleteFunc(slices.Clone(properties.members), func(m member) bool { return gone[m.name] })
	}
	if required := keep(result.get("required").strings()); len(required) > 0 {
		result.set("required", texts(required))
	} else {
		result.drop("required")
	}
	if dependent := result.get("dependentRequired"); dependent.is('{') {
		dependent.members = slices.Clone(dependent.members)
		for i := range dependent.members {
			dependent.members[i].value = texts(keep(dependent.members[i].value.strings()))
		}
	}
}
