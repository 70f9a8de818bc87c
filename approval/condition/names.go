package condition

import (
	"maps"
	"slices"
)

// Name is something that a condition may write, for editors.
type Name struct {
	Text        string   // args.items[].price; how to call a function
	Kind        string   // string, integer, number, boolean, list, object, time, function; "" for any
	Description string   // by the tool's schema: text from outside
	Values      []string // the only values, if the schema lists them
}

// maxNames bounds the names of one schema.
const maxNames = 500

// ListNames lists the variables with their fields, then the functions.
func (s *Schema) ListNames() []Name {
	list := listFields(nil, s.root)
	for _, name := range variables[1:] {
		switch name {
		case "principal":
			list = listFields(list, principalShape)
		case "claimed":
			list = listFields(list, claimedShape)
		case "now":
			list = append(list, Name{Text: name, Kind: "time"})
		default:
			list = append(list, Name{Text: name, Kind: "string"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(functionUsage)) {
		list = append(list, Name{Text: functionUsage[name], Kind: "function"})
	}
	return list
}

func listFields(list []Name, s *shape) []Name {
	if len(list) >= maxNames {
		return list
	}
	list = append(list, Name{Text: s.path, Kind: s.kind.name(), Description: s.description, Values: s.enum})
	if s.elem != nil && s.elem != s {
		list = listFields(list, s.elem)
	}
	for _, name := range s.fieldNames() {
		list = listFields(list, s.fields[name])
	}
	return list
}

func (k kind) name() string {
	switch k {
	case stringKind:
		return "string"
	case integerKind:
		return "integer"
	case numberKind:
		return "number"
	case booleanKind:
		return "boolean"
	case listKind:
		return "list"
	case mapKind, objectKind:
		return "object"
	case untyped:
	}
	return ""
}
