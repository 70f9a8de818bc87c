package secretfield

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxSchemas limits the parts of schemas that are examined for one value. Beyond it, nothing marks or declares secrets.
const maxSchemas = 64

// schema is a part of a schema.
type schema struct {
	root any // the whole schema, which its references are about
	part map[string]any
}

// place is the place of a value in a document.
type place struct {
	schemas []schema // all that apply to the value
	named   bool     // a schema declares the value, or a value around it, with the name of a secret
	chosen  bool     // the value, or a value around it, has the name of a secret that no schema declares
	marked  bool     // a schema marks the value, or a value around it, as a secret
	below   bool     // a value around it is named or marked
}

func (f *finder) rootPlace() place {
	var about []child
	for _, root := range f.schemas {
		about = append(about, child{root, root})
	}
	return placeOf(place{}, about)
}

// child is the schema of a member or an element; value may be anything.
type child struct{ root, value any }

// placeOf returns the place below p to which these schemas apply.
func placeOf(p place, about []child) place {
	p.schemas = nil
	for _, c := range about {
		p.schemas = expandSchema(p.schemas, c.root, c.value)
	}
	p.marked = p.marked || slices.ContainsFunc(p.schemas, schema.marksSecret)
	return p
}

func (s schema) marksSecret() bool {
	return s.part["writeOnly"] == true || s.part["format"] == "password"
}

// expandSchema adds a schema and the schemas that it combines.
func expandSchema(list []schema, root, value any) []schema {
	part, ok := value.(map[string]any)
	if !ok || len(list) >= maxSchemas {
		return list
	}
	list = append(list, schema{root, part})
	if ref, ok := part["$ref"].(string); ok {
		list = expandSchema(list, root, resolveReference(root, ref))
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := part[word].([]any)
		for _, one := range parts {
			list = expandSchema(list, root, one)
		}
	}
	for _, word := range []string{"if", "then", "else"} {
		list = expandSchema(list, root, part[word])
	}
	return list
}

// resolveReference follows a reference within the schema: # or #/$defs/name.
func resolveReference(root any, ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && !strings.HasPrefix(pointer, "/") {
		return nil
	}
	at := root
	for part := range jsontext.Pointer(pointer).Tokens() {
		switch inside := at.(type) {
		case map[string]any:
			at = inside[part]
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

// memberPlace returns the place of an object's member. The finder's path is the member's.
func (f *finder) memberPlace(p place, name string) place {
	var about []child
	declared := false
	for _, s := range p.schemas {
		properties, _ := s.part["properties"].(map[string]any)
		own, known := properties[name]
		if known {
			declared = true
			about = append(about, child{s.root, own})
		}
		patterns, _ := s.part["patternProperties"].(map[string]any)
		for pattern, value := range patterns {
			if f.matchesPattern(pattern, name) {
				known = true
				declared = declared || isPrivate(pattern)
				about = append(about, child{s.root, value})
			}
		}
		if !known {
			about = append(about, child{s.root, s.part["additionalProperties"]})
		}
	}
	return f.nextPlace(p, about, declared && isPrivate(name), !declared && isPrivate(name))
}

// elementPlace returns the place of an array's element.
func (f *finder) elementPlace(p place, i int) place {
	var about []child
	for _, s := range p.schemas {
		first, _ := s.part["prefixItems"].([]any)
		rest := s.part["items"]
		if list, ok := rest.([]any); ok { // before 2020-12
			first, rest = list, s.part["additionalItems"]
		}
		if i < len(first) {
			rest = first[i]
		}
		about = append(about, child{s.root, rest})
	}
	return f.nextPlace(p, about, false, false)
}

// nextPlace returns the place below p to which these schemas apply, unless it is exempt.
func (f *finder) nextPlace(p place, about []child, named, chosen bool) place {
	exempt := f.isExempt()
	if exempt {
		p.named, p.marked = false, false
	}
	p.below = p.named || p.marked
	p = placeOf(p, about)
	if exempt {
		p.named, p.marked, p.chosen = false, false, false
		return p
	}
	p.named, p.chosen = p.named || named, p.chosen || chosen
	return p
}

// isExempt reports whether an operator says that the value at the current path is no secret.
func (f *finder) isExempt() bool {
	return slices.ContainsFunc(f.exempt, func(parts []string) bool {
		return slices.EqualFunc(parts, f.path, func(part, name string) bool { return part == "*" || part == name })
	})
}

// matchesPattern reports whether a name matches a pattern. A pattern that Go cannot compile matches every name.
func (f *finder) matchesPattern(pattern, name string) bool {
	expression, ok := f.matches[pattern]
	if !ok {
		expression, _ = regexp.Compile(pattern)
		f.matches[pattern] = expression
	}
	return expression == nil || expression.MatchString(name)
}

const (
	maxDeclared = 100 // paths
	maxDepth    = 8   // of a declared secret
)

// Declared returns the paths, as JSON pointers in which * stands for any name or index, of the secrets that schemas declare: those that can
// be exempt from the rules. Deep and recursive schemas are read to a limit.
func Declared(schemas ...[]byte) []string {
	r := New(nil, schemas...)
	d := declared{}
	for _, root := range r.schemas {
		d.listSecrets(nil, child{root, root}, false)
	}
	slices.Sort(d.paths)
	return slices.Compact(d.paths)
}

type declared struct {
	paths []string
	steps int
}

// maxSteps bounds the work on one document.
const maxSteps = 10_000

// listSecrets lists the secrets of the value at a path, which has such a name if named.
func (d *declared) listSecrets(path []string, c child, named bool) {
	if d.steps++; d.steps > maxSteps || len(d.paths) >= maxDeclared {
		return
	}
	list := expandSchema(nil, c.root, c.value)
	if len(path) > 0 && (named || slices.ContainsFunc(list, schema.marksSecret)) {
		d.paths = append(d.paths, joinPointer(path))
	}
	if len(path) == maxDepth {
		return
	}
	below := func(part string, value any, named bool) {
		d.listSecrets(append(slices.Clip(path), part), child{c.root, value}, named)
	}
	for _, s := range list {
		properties, _ := s.part["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			below(name, properties[name], isPrivate(name))
		}
		patterns, _ := s.part["patternProperties"].(map[string]any)
		for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
			below("*", patterns[pattern], isPrivate(pattern))
		}
		first, _ := s.part["prefixItems"].([]any)
		items, isTuple := s.part["items"].([]any)
		for i, value := range slices.Concat(first, items) {
			below(strconv.Itoa(i), value, false)
		}
		rest := []any{s.part["additionalProperties"], s.part["additionalItems"]}
		if !isTuple {
			rest = append(rest, s.part["items"])
		}
		for _, value := range rest {
			if _, ok := value.(map[string]any); ok {
				below("*", value, false)
			}
		}
	}
}
