package hostile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxSchemas bounds how many parts of a schema are looked at for one value. A schema
// that has more is its server's own trouble: names still count.
const maxSchemas = 64

// place is where a value stands in a document.
type place struct {
	schemas []map[string]any // all that say something of it
	named   bool             // its name, or one around it, is that of a secret
	marked  bool             // a schema says that it is one, or something around it
	below   bool             // not itself, but something around it
}

func (f *secretFinder) start() place { return f.at(place{}, f.root) }

// at is the place below p of which these schemas speak.
func (f *secretFinder) at(p place, schemas ...any) place {
	if p.schemas = nil; f.root == nil {
		return p
	}
	for _, s := range schemas {
		p.schemas = f.expand(p.schemas, s)
	}
	p.marked = p.marked || slices.ContainsFunc(p.schemas, marksSecret)
	return p
}

func marksSecret(schema map[string]any) bool {
	return schema["writeOnly"] == true || schema["format"] == "password"
}

// expand adds a schema, and those that it is made of.
func (f *secretFinder) expand(list []map[string]any, schema any) []map[string]any {
	object, ok := schema.(map[string]any)
	if !ok || len(list) >= maxSchemas {
		return list
	}
	list = append(list, object)
	if ref, ok := object["$ref"].(string); ok {
		list = f.expand(list, f.resolve(ref))
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := object[word].([]any)
		for _, part := range parts {
			list = f.expand(list, part)
		}
	}
	for _, word := range []string{"if", "then", "else"} {
		list = f.expand(list, object[word])
	}
	return list
}

// resolve follows a reference within the schema: #, or #/$defs/name.
func (f *secretFinder) resolve(ref string) any {
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
			at = inside[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
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

// member is the place of an object's member.
func (f *secretFinder) member(p place, name string) place {
	var about []any
	for _, s := range p.schemas {
		properties, _ := s["properties"].(map[string]any)
		own, known := properties[name]
		if known {
			about = append(about, own)
		}
		patterns, _ := s["patternProperties"].(map[string]any)
		for pattern, schema := range patterns {
			if f.fits(pattern, name) {
				known = true
				about = append(about, schema)
			}
		}
		if !known {
			about = append(about, s["additionalProperties"])
		}
	}
	p.below = p.named || p.marked
	p = f.at(p, about...)
	p.named = p.named || isPrivate(name)
	return p
}

// fits reports whether a name matches a pattern. One that cannot be read here may match anything.
func (f *secretFinder) fits(pattern, name string) bool {
	expression, ok := f.matches[pattern]
	if !ok {
		expression, _ = regexp.Compile(pattern)
		f.matches[pattern] = expression
	}
	return expression == nil || expression.MatchString(name)
}

// element is the place of an array's element.
func (f *secretFinder) element(p place, i int) place {
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
	p.below = p.named || p.marked
	return f.at(p, about...)
}
