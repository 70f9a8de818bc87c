package condition

import (
	"maps"
	"slices"
	"strconv"
)

// Field is a value that conditions can read.
type Field struct {
	Path string // as a condition writes it; the items of lists are []
	Type string // such as double, list(string) or string | null
	// Values are those that a text can have, in quotes. Nil: any.
	Values []string
}

// maxValues bounds the values of one field.
const maxValues = 50

// maxFields bounds the fields of one schema.
const maxFields = 500

// Fields returns the arguments that calls of the tool have, by path. Those with any names are listed as their object.
func (s *Schema) Fields() []Field { return listFields(nil, s.root) }

// CommonFields returns the values that conditions can read about the calls of every tool, besides their arguments.
func CommonFields() []Field {
	fields := []Field{{Path: "agent", Type: "string"}, {Path: "skill", Type: "string"}, {Path: "tool", Type: "string"}, {Path: "now", Type: "timestamp"}}
	return listFields(listFields(listFields(fields, principalShape), claimedShape), contextShape)
}

func listFields(fields []Field, s *shape) []Field {
	if len(fields) >= maxFields {
		return fields
	}
	if s.kind != objectKind || len(s.fields) == 0 {
		fields = append(fields, Field{s.path, s.nameType(), s.listValues()})
	}
	switch {
	case s.kind == objectKind:
		for _, name := range slices.Sorted(maps.Keys(s.fields)) {
			fields = listFields(fields, s.fields[name])
		}
	case s.kind == listKind && s.elem.kind == objectKind:
		fields = listFields(fields, s.elem)
	}
	return fields
}

// listValues returns the texts that a value, or an element of a list, can have, in quotes.
func (s *shape) listValues() []string {
	if s.kind == listKind {
		return s.elem.listValues()
	}
	var values []string
	for _, text := range s.enum[:min(len(s.enum), maxValues)] {
		values = append(values, strconv.Quote(text))
	}
	return values
}

// nameType returns the type of a value as conditions name it.
func (s *shape) nameType() string {
	var name string
	switch s.kind {
	case stringKind:
		name = "string"
	case integerKind:
		name = "int"
	case numberKind:
		name = "double"
	case booleanKind:
		name = "bool"
	case listKind:
		if s.elem.kind == untyped {
			return "list"
		}
		return "list(" + s.elem.nameType() + ")"
	case mapKind:
		return "map"
	case objectKind:
		name = "object"
	case untyped:
		return "any"
	}
	if s.nullable {
		name += " | null"
	}
	return name
}
