package httptool

import "slices"

// widen lets pass what keeps to what a schema means. Of a oneOf more than one may fit in answers, and wherever its parts became wider. What became
// wider where it must not fit (not), where it says what else has to (if), or where it may fit so many times only (maxContains) is left out.
func (s *schemas) widen(v, result *value, gone hiddenNames) {
	if not := v.get("not"); not != nil && !s.exact(not, gone) {
		result.drop("not")
	}
	if condition := v.get("if"); condition != nil && !s.exact(condition, gone) {
		for _, name := range []string{"if", "then", "else"} {
			result.drop(name)
		}
	}
	if result.get("maxContains") != nil && !s.exact(v.get("contains"), nil) {
		result.drop("maxContains")
	}
	if oneOf := result.get("oneOf"); oneOf != nil && (s.way == output || !s.exact(v.get("oneOf"), gone)) {
		eitherOf(result, *oneOf)
	}
}

// eitherOf makes a oneOf an anyOf.
func eitherOf(result *value, either value) {
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

// exact reports whether a schema, or all of a list of some, becomes just what it was: nothing is left out of it, or of what it refers to, that says
// which values fit. What is too large to find that out is not. gone are the hidden properties of the value that it applies to.
func (s *schemas) exact(v *value, gone hiddenNames) bool {
	e := exactness{schemas: s, left: maxLooked, seen: map[*value]bool{}}
	if v.is('[') {
		return e.all(v, gone)
	}
	return e.schema(v, gone)
}

type exactness struct {
	*schemas
	left int // schemas that may still be looked at
	seen map[*value]bool
}

func (e *exactness) all(list *value, gone hiddenNames) bool {
	for i := range list.all() {
		if !e.schema(&list.members[i].value, gone) {
			return false
		}
	}
	return true
}

func (e *exactness) schema(v *value, gone hiddenNames) bool {
	if !v.is('{') {
		return true
	}
	if gone = e.hidden(v, gone); len(gone) == 0 { // else it is another schema here than elsewhere
		if e.seen[v] {
			return true
		}
		e.seen[v] = true
	}
	e.doc.spend(1 + len(v.members))
	if e.left--; e.left < 0 || e.mentions(v, gone) {
		return false
	}
	if ref := v.get("$ref"); ref.is('"') {
		if target, err := e.doc.lookup(ref.text); err != nil || !e.schema(target, gone) {
			return false
		}
		if !e.doc.is("3.1") {
			return true
		}
	}
	for i := range v.members {
		if !e.keyword(v.members[i].name, &v.members[i].value, gone) {
			return false
		}
	}
	return true
}

// mentions reports whether a schema says anything of hidden properties, or whether too much had to be looked at for that.
func (e *exactness) mentions(v *value, gone hiddenNames) bool {
	if len(gone) == 0 {
		return false
	}
	if e.looks -= len(v.get("properties").all()) + len(v.get("required").all()); e.looks < 0 {
		return true
	}
	isGone := func(name string) bool { return gone[name] }
	return slices.ContainsFunc(v.get("required").strings(), isGone) ||
		slices.ContainsFunc(v.get("properties").all(), func(m member) bool { return gone[m.name] }) ||
		slices.ContainsFunc(v.get("dependentRequired").all(), func(m member) bool { return slices.ContainsFunc(m.value.strings(), isGone) })
}

func (e *exactness) keyword(name string, v *value, gone hiddenNames) bool {
	switch name {
	case "format", "$dynamicRef", "$recursiveRef", "dependencies", "additionalItems": // formats are not validated, and the others not converted
		return false
	case "pattern":
		return e.doc.isPattern(v.str())
	case "patternProperties":
		unknown := func(m member) bool { return !e.doc.isPattern(m.name) }
		return !slices.ContainsFunc(v.all(), unknown) && e.all(v, nil)
	case "oneOf", "anyOf":
		return (name == "anyOf" || e.way == input) && !e.leadsBack(v) && e.all(v, gone)
	case "allOf", "dependentSchemas":
		return e.all(v, gone)
	case "not", "if", "then", "else":
		return e.schema(v, gone)
	case "properties", "prefixItems":
		return e.all(v, nil)
	case "items":
		if v.is('[') {
			return e.all(v, nil)
		}
		return e.schema(v, nil)
	case "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames":
		return e.schema(v, nil)
	}
	return true
}
