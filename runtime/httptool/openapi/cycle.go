package openapi

// subschemasInPlace returns the schemas that apply to the same value as v.
func (d *document) subschemasInPlace(v *value) []*value {
	var list []*value
	if ref := v.get("$ref"); ref.is('"') {
		if target, err := d.lookupRef(ref.text); err == nil {
			list = append(list, target)
		}
		if !d.hasVersion("3.1") {
			return list
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf", "dependentSchemas"} {
		members := v.get(name).all()
		for i := range members {
			list = append(list, &members[i].value)
		}
	}
	for _, name := range []string{"not", "if", "then", "else"} {
		if one := v.get(name); one != nil {
			list = append(list, one)
		}
	}
	return list
}

// isCyclic reports whether one of the alternatives of a schema applies that schema to the same value again: a parent with a discriminator
// whose oneOf lists its children, which are allOf the parent. No validator would end.
func (s *converter) isCyclic(alternatives *value) bool {
	if len(alternatives.all()) == 0 {
		return false
	}
	first := &alternatives.members[0] // identifies the list, also in schemas that share it
	seen := map[*value]bool{}
	var left []*value
	for i := range alternatives.members {
		left = append(left, &alternatives.members[i].value)
	}
	for len(left) > 0 {
		v := left[len(left)-1]
		left = left[:len(left)-1]
		if seen[v] {
			continue
		}
		s.doc.spend(1 + len(v.all()))
		if s.steps--; s.steps < 0 {
			return false
		}
		seen[v] = true
		for _, name := range []string{"anyOf", "oneOf"} {
			if members := v.get(name).all(); len(members) > 0 && &members[0] == first {
				return true
			}
		}
		left = append(left, s.doc.subschemasInPlace(v)...)
	}
	return false
}
