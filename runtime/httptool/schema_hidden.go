package httptool

import (
	"maps"
	"slices"
)

// hiddenNames are the properties of a value that do not go the way that a schema is for.
type hiddenNames map[string]bool

// hidden are the properties that do not go this way: readOnly ones in requests, writeOnly ones in answers. They are those of a schema and of all of
// its allOf, references followed: where one of them says so of a property, it is so for all (JSON Schema 2020-12 Validation, section 9.4). outer are
// those of the schemas around it that apply to the same value. In a document of which too much had to be looked at for this nothing more is hidden.
func (s *schemas) hidden(v *value, outer hiddenNames) hiddenNames {
	found := s.gather(v)
	if s.looks -= len(found); s.looks < 0 || !slices.ContainsFunc(found, func(name string) bool { return !outer[name] }) {
		return outer
	}
	s.looks -= len(outer)
	gone := make(hiddenNames, len(outer)+len(found))
	maps.Copy(gone, outer)
	for _, name := range found {
		gone[name] = true
	}
	return gone
}

// gather finds the names of the properties of a schema that do not go this way, each schema once.
func (s *schemas) gather(v *value) []string {
	if !v.is('{') {
		return nil
	}
	found, known := s.gathered[v]
	if known || s.looks < 0 {
		return found
	}
	s.doc.spend(1 + len(v.members))
	s.gathered[v] = nil // should it lead back to itself
	if ref := v.get("$ref"); ref.is('"') {
		if target, err := s.doc.lookup(ref.text); err == nil {
			found = s.gather(target)
		}
		if !s.doc.is("3.1") {
			s.gathered[v] = found
			return found
		}
	}
	properties, parts := v.get("properties"), v.get("allOf")
	found = slices.Clip(found) // it may be another schema's too
	if properties.is('{') {
		for i := range properties.members {
			if s.looks--; s.looks >= 0 && s.doc.flagged(&properties.members[i].value, s.hides()) {
				found = append(found, properties.members[i].name)
			}
		}
	}
	for i := range parts.all() {
		more := s.gather(&parts.members[i].value)
		if s.looks -= 1 + len(more); s.looks < 0 {
			break
		}
		found = append(found, more...)
	}
	s.gathered[v] = found
	return found
}

// hides is the keyword of what does not go this way.
func (s *schemas) hides() string {
	if s.way == output {
		return "writeOnly"
	}
	return "readOnly"
}

// flagged reports whether a schema, or one that it refers to or is allOf, has a flag.
func (d *document) flagged(v *value, flag string) bool {
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
			if target, err := d.lookup(ref.text); err == nil && look(target) {
				return true
			}
		}
		return slices.ContainsFunc(v.get("allOf").all(), func(m member) bool { return look(&m.value) })
	}
	return look(v)
}

// hide takes hidden properties away, and the duty to give them.
func hide(result *value, gone hiddenNames) {
	if len(gone) == 0 {
		return
	}
	left := func(list []string) []string {
		return slices.DeleteFunc(list, func(name string) bool { return gone[name] })
	}
	if properties := result.get("properties"); properties != nil {
		properties.members = slices.DeleteFunc(slices.Clone(properties.members), func(m member) bool { return gone[m.name] })
	}
	if required := left(result.get("required").strings()); len(required) > 0 {
		result.set("required", texts(required))
	} else {
		result.drop("required")
	}
	if dependent := result.get("dependentRequired"); dependent.is('{') {
		dependent.members = slices.Clone(dependent.members)
		for i := range dependent.members {
			dependent.members[i].value = texts(left(dependent.members[i].value.strings()))
		}
	}
}
