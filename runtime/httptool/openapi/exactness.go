package openapi

import "slices"

// widenSchema removes keywords that would refuse valid values because a subschema became wider: not, if, and maxContains. A oneOf becomes an
// anyOf in answers, and where one of its schemas became wider.
func (s *converter) widenSchema(v, result *value, gone hiddenNames) {
	if not := v.get("not"); not != nil && !s.isExact(not, gone) {
		result.drop("not")
	}
	if condition := v.get("if"); condition != nil && !s.isExact(condition, gone) {
		for _, name := range []string{"if", "then", "else"} {
			result.drop(name)
		}
	}
	if result.get("maxContains") != nil && !s.isExact(v.get("contains"), nil) {
		result.drop("maxContains")
	}
	if result.get("oneOf") == nil || s.direction == input && s.isExact(v.get("oneOf"), gone) {
		return
	}
	either := *result.get("oneOf")
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

// isExact reports whether the conversion of a schema, or of each schema in a list, accepts the same values: no keyword is left out of it
// or of the schemas that it refers to. Schemas too large to check are not exact. gone are the hidden properties of the value.
func (s *converter) isExact(v *value, gone hiddenNames) bool {
	e := exactness{converter: s, left: maxVisited, seen: map[*value]bool{}}
	if v.is('[') {
		return e.checkAll(v, gone)
	}
	return e.checkSchema(v, gone)
}

// exactness is one search of [converter.isExact].
type exactness struct {
	*converter
	left int // schemas that may still be visited
	seen map[*value]bool
}

func (e *exactness) checkAll(list *value, gone hiddenNames) bool {
	for i := range list.all() {
		if !e.checkSchema(&list.members[i].value, gone) {
			return false
		}
	}
	return true
}

func (e *exactness) checkSchema(v *value, gone hiddenNames) bool {
	if !v.is('{') {
		return true
	}
	if gone = e.hiddenOf(v, gone); len(gone) == 0 { // otherwise the result differs from place to place
		if e.seen[v] {
			return true
		}
		e.seen[v] = true
	}
	e.doc.spend(1 + len(v.members))
	if e.left--; e.left < 0 || e.mentionsHidden(v, gone) {
		return false
	}
	if ref := v.get("$ref"); ref.is('"') {
		if target, err := e.doc.lookupRef(ref.text); err != nil || !e.checkSchema(target, gone) {
			return false
		}
		if !e.doc.hasVersion("3.1") {
			return true
		}
	}
	for i := range v.members {
		if !e.checkKeyword(v.members[i].name, &v.members[i].value, gone) {
			return false
		}
	}
	return true
}

// mentionsHidden reports whether a schema mentions hidden properties, or has too many properties to check.
func (e *exactness) mentionsHidden(v *value, gone hiddenNames) bool {
	if len(gone) == 0 {
		return false
	}
	if e.lookups -= len(v.get("properties").all()) + len(v.get("required").all()); e.lookups < 0 {
		return true
	}
	isGone := func(name string) bool { return gone[name] }
	return slices.ContainsFunc(v.get("required").strings(), isGone) ||
		slices.ContainsFunc(v.get("properties").all(), func(m member) bool { return gone[m.name] }) ||
		slices.ContainsFunc(v.get("dependentRequired").all(), func(m member) bool { return slices.ContainsFunc(m.value.strings(), isGone) })
}

func (e *exactness) checkKeyword(name string, v *value, gone hiddenNames) bool {
	switch name {
	case "format", "$dynamicRef", "$recursiveRef", "dependencies", "additionalItems": // formats are not validated; the others are not converted
		return false
	case "pattern":
		return e.doc.isPattern(v.str())
	case "patternProperties":
		unknown := func(m member) bool { return !e.doc.isPattern(m.name) }
		return !slices.ContainsFunc(v.all(), unknown) && e.checkAll(v, nil)
	case "oneOf", "anyOf":
		return (name == "anyOf" || e.direction == input) && !e.isCyclic(v) && e.checkAll(v, gone)
	case "allOf", "dependentSchemas":
		return e.checkAll(v, gone)
	case "not", "if", "then", "else":
		return e.checkSchema(v, gone)
	case "properties", "prefixItems":
		return e.checkAll(v, nil)
	case "items":
		if v.is('[') {
			return e.checkAll(v, nil)
		}
		return e.checkSchema(v, nil)
	case "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames":
		return e.checkSchema(v, nil)
	}
	return true
}
