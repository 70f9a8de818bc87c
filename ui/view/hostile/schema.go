package hostile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxSchemas limits the parts of a schema that are examined for one value. Beyond it, nothing marks or declares secrets.
const maxSchemas = 64

// place is the place of a value in a document.
type place struct {
	schemas []map[string]any // all that apply to the value
	named   bool             // the schema declares the value, or a value around it, with the name of a secret
	chosen  bool             // the value, or a value around it, has the name of a secret that the schema does not declare
	marked  bool             // a schema marks the value, or a value around it, as a secret
	below   bool             // a value around it is named or marked
}

func (f *secretFinder) rootPlace() place { return f.placeOf(place{}, f.root) }

// placeOf returns the place below p to which these schemas apply.
func (f *secretFinder) placeOf(p place, schemas ...any) place {
	if p.schemas = nil; f.root == nil {
		return p
	}
	for _, s := range schemas {
		p.schemas = f.expandSchema(p.schemas, s)
	}
	p.marked = p.marked || slices.ContainsFunc(p.schemas, marksSecret)
	return p
}

func marksSecret(schema map[string]any) bool {
	return schema["writeOnly"] == true || schema["format"] == "password"
}

// expandSchema adds a schema and the schemas that it combines.
func (f *secretFinder) expandSchema(list []map[string]any, schema any) []map[string]any {
	object, ok := schema.(map[string]any)
	if !ok || len(list) >= maxSchemas {
		return list
	}
	list = append(list, object)
	if ref, ok := object["$ref"].(string); ok {
		list = f.expandSchema(list, f.resolveReference(ref))
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := object[word].([]any)
		for _, part := range parts {
			list = f.expandSchema(list, part)
		}
	}
	for _, word := range []string{"if", "then", "else"} {
		list = f.expandSchema(list, object[word])
	}
	return list
}

// resolveReference follows a reference within the schema: # or #/$defs/name.
func (f *secretFinder) resolveReference(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && !strings.HasPrefix(pointer, "/") {
		return nil
	}
	at := f.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part == "" {
			continue
		}
		switch inside := at.(type) {
		case map[string]any:
			at = inside[pointerUnescapes.Replace(part)]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(inside) {
				return nil
			}
			at = inside[i]
		default:
			return nil
		}
	}
	return at
}

// memberPlace returns the place of an object's member.
func (f *secretFinder) memberPlace(p place, name string) place {
	var about []any
	declared := false
	for _, s := range p.schemas {
		properties, _ := s["properties"].(map[string]any)
		own, known := properties[name]
		if known {
			declared = true
			about = append(about, own)
		}
		patterns, _ := s["patternProperties"].(map[string]any)
		for pattern, schema := range patterns {
			if f.matchesPattern(pattern, name) {
				known = true
				declared = declared || isPrivate(pattern)
				about = append(about, schema)
			}
		}
		if !known {
			about = append(about, s["additionalProperties"])
		}
	}
	exempt := f.isExempt()
	if exempt {
		p.named, p.marked = false, false
	}
	p.below = p.named || p.marked
	p = f.placeOf(p, about...)
	if exempt {
		p.named, p.marked, p.chosen = false, false, false
		return p
	}
	p.named = p.named || declared && isPrivate(name)
	p.chosen = p.chosen || !declared && isPrivate(name)
	return p
}

// isExempt reports whether an operator says that the value at the current path is no secret.
func (f *secretFinder) isExempt() bool {
	return slices.ContainsFunc(f.exempt, func(parts []string) bool {
		return slices.EqualFunc(parts, f.path, func(part, name string) bool { return part == "*" || part == name })
	})
}

// matchesPattern reports whether a name matches a pattern. A pattern that Go cannot compile matches every name.
func (f *secretFinder) matchesPattern(pattern, name string) bool {
	expression, ok := f.matches[pattern]
	if !ok {
		expression, _ = regexp.Compile(pattern)
		f.matches[pattern] = expression
	}
	return expression == nil || expression.MatchString(name)
}

// elementPlace returns the place of an array's element.
func (f *secretFinder) elementPlace(p place, i int) place {
	var about []any
	for _, s := range p.schemas {
		first, _ := s["prefixItems"].([]any)
		rest := s["items"]
		if list, ok := rest.([]any); ok { // before 2020-12
			first, rest = list, s["additionalItems"]
		}
		if i < len(first) {
			rest = first[i]
		}
		about = append(about, rest)
	}
	exempt := f.isExempt()
	if exempt {
		p.named, p.marked = false, false
	}
	p.below = p.named || p.marked
	if p = f.placeOf(p, about...); exempt {
		p.named, p.marked, p.chosen = false, false, false
	}
	return p
}
