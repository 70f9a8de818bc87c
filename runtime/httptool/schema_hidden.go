package httptool

import "slices"

// hiddenNames are the properties of a value that do not go the way that a schema is for.
type hiddenNames map[string]bool

// maxHidden bounds how many properties of other schemas, and how many of these, are looked at to find out which of one are hidden.
const maxHidden = 5000

// hidden are the properties that do not go this way: readOnly ones in requests, writeOnly ones in answers. They are those of a schema and of all of
// its allOf, references followed: where one of them says so of a property, it is so for all (JSON Schema 2020-12 Validation, section 9.4). outer are
// those of the schemas around it that apply to the same value.
func (s *schemas) hidden(v *value, outer hiddenNames) hiddenNames {
	flag := "readOnly"
	if s.way == output {
		flag = "writeOnly"
	}
	g := gathering{doc: s.doc, flag: flag, budget: maxHidden + len(v.get("properties").all())}
	g.add(v)
	found := g.found
	if len(found) == 0 {
		return outer
	}
	gone := make(hiddenNames, len(outer)+len(found))
	for name := range outer {
		gone[name] = true
	}
	for _, name := range found {
		gone[name] = true
	}
	return gone
}

// gathering finds the names of properties that have a flag.
type gathering struct {
	doc    *document
	flag   string
	budget int
	found  []string
}

func (g *gathering) add(v *value) {
	if g.budget--; g.budget < 0 || !v.is('{') {
		return
	}
	if ref := v.get("$ref"); ref.is('"') {
		if target, err := g.doc.lookup(ref.text); err == nil {
			g.add(target)
		}
		if !g.doc.is("3.1") {
			return
		}
	}
	properties, parts := v.get("properties"), v.get("allOf")
	if properties.is('{') {
		for i := range properties.members {
			if g.budget--; g.budget >= 0 && g.doc.flagged(&properties.members[i].value, g.flag) {
				g.found = append(g.found, properties.members[i].name)
			}
		}
	}
	for i := range parts.all() {
		g.add(&parts.members[i].value)
	}
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
