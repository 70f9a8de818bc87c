package condition

import (
	"strings"
	"unicode"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Values of arguments in CEL. A scalar is a value of CEL, a list is a []any and an object is a map[string]any. The interpreter walks along paths
// in these without looking at what is beside them. A value that cannot be converted is a badValue in its list or object.
//
// The interpreter ignores errors within lists and maps that it compares: [error] == [1] is true in it. So the adapter refuses a list or an
// object with a bad value in it when an expression uses it as a whole. Only a path leads past a bad value: args.a.b, args.items[0].price.

// badValue is a value that no expression may use.
type badValue struct{ err error }

// convertNode returns the value of a node by a shape: a value of CEL, []any or map[string]any.
func (s *shape) convertNode(n *node) (any, error) {
	if n.kind == invalid {
		return nil, newValueError("%s %s", s.path, n.bad)
	}
	if n.kind == 'n' {
		if s.nullable || s.kind == untyped {
			return n.scalar, nil
		}
		return nil, s.newMismatch(n)
	}
	switch s.kind {
	case untyped:
		return s.convertUntyped(n)
	case stringKind:
		if n.kind == '"' {
			return n.scalar, nil
		}
	case booleanKind:
		if n.kind == 't' || n.kind == 'f' {
			return n.scalar, nil
		}
	case integerKind, numberKind:
		if n.kind == '0' {
			return s.convertNumber(n)
		}
	case listKind:
		if n.kind == '[' {
			return s.convertNested(n), nil
		}
	case mapKind, objectKind:
		if n.kind == '{' {
			return s.convertNested(n), nil
		}
	}
	return nil, s.newMismatch(n)
}

func (s *shape) convertUntyped(n *node) (any, error) {
	switch n.kind {
	case '0':
		value, err := parseUntyped(n.text)
		if err != nil {
			return nil, newValueError("%s %s", s.path, err)
		}
		return value, nil
	case '{', '[':
		return s.convertNested(n), nil
	default:
		return n.scalar, nil
	}
}

func (s *shape) convertNumber(n *node) (any, error) {
	if s.kind == integerKind {
		i, err := parseInteger(n.text)
		if err != nil {
			return nil, newValueError("%s %s", s.path, err)
		}
		return types.Int(i), nil
	}
	f, err := parseDouble(n.text)
	if err != nil {
		return nil, newValueError("%s %s", s.path, err)
	}
	return types.Double(f), nil
}

// convertNested converts an object or a list once.
func (s *shape) convertNested(n *node) any {
	if c := n.converted.Load(); c != nil && c.shape == s {
		return c.value
	}
	c := &conversion{shape: s}
	if n.kind == '{' {
		values := make(map[string]any, len(n.children))
		for i, child := range n.children {
			values[n.names[i]] = s.memberShape(n.names[i]).convertElement(child)
		}
		s.spoilVariants(n.names, values)
		c.value = values
	} else {
		values := make([]any, len(n.children))
		for i, child := range n.children {
			values[i] = s.elem.convertElement(child)
		}
		c.value = values
	}
	n.converted.Store(c)
	return c.value
}

// spoilVariants makes members bad that the call also gives under a similar name: some servers take "Amount" for "amount", or for "amount" too.
// Where the schema names no members, upper and lower case alone make names similar.
func (s *shape) spoilVariants(names []string, values map[string]any) {
	spoil := func(name string) {
		values[name] = badValue{newValueError("%s is given under a name that differs only in case, _ or -", s.memberShape(name).path)}
	}
	if s.kind == objectKind {
		for _, name := range names {
			if s.fields[name] == nil {
				for _, field := range s.variants[foldName(name)] {
					spoil(field)
				}
			}
		}
		return
	}
	first := make(map[string]string, len(names))
	for _, name := range names {
		folded := foldCase(name)
		if other, known := first[folded]; known {
			spoil(other)
			spoil(name)
			continue
		}
		first[folded] = name
	}
}

// foldName returns a key of names that some servers take for the same one.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return r
	}, foldCase(name))
}

// foldCase returns a key of names that differ only in case. Some letters have more than two forms: K, k and the Kelvin sign.
func foldCase(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		name = strings.ToUpper(name)
	}
	return strings.ToLower(name)
}

func (s *shape) convertElement(n *node) any {
	value, err := s.convertNode(n)
	if err != nil {
		return badValue{err}
	}
	return value
}

func (s *shape) newMismatch(n *node) error {
	return newValueError("%s must be %s, not %s", s.path, s.describeKind(), n.describeKind())
}

func (s *shape) describeKind() string {
	switch s.kind {
	case stringKind:
		return "a string"
	case integerKind:
		return "an integer"
	case numberKind:
		return "a number"
	case booleanKind:
		return "a boolean"
	case listKind:
		return "a list"
	case mapKind, objectKind:
		return "an object"
	case untyped:
	}
	return "a value"
}

// memberShape returns the shape of an object's member. One that the schema does not name is untyped.
func (s *shape) memberShape(name string) *shape {
	if s.kind != objectKind {
		return s.elem
	}
	if field := s.fields[name]; field != nil {
		return field
	}
	return s.rest
}

// checkAll returns an error if any value within a value cannot be used.
func checkAll(value any) error {
	switch v := value.(type) {
	case badValue:
		return v.err
	case []any:
		for _, element := range v {
			if err := checkAll(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, element := range v {
			if err := checkAll(element); err != nil {
				return err
			}
		}
	}
	return nil
}

// adapter makes values of CEL.
type adapter struct{ types.Adapter }

// NativeToValue implements [types.Adapter].
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case types.String:
		return v
	case types.Double:
		return v
	case types.Int:
		return v
	case types.Bool:
		return v
	case bool:
		return types.Bool(v)
	case types.Null:
		return v
	case badValue:
		return types.WrapErr(v.err)
	case []any:
		if err := checkAll(v); err != nil {
			return types.WrapErr(err)
		}
		return types.NewDynamicList(a, v)
	case map[string]any:
		if err := checkAll(v); err != nil {
			return types.WrapErr(err)
		}
		return types.NewStringInterfaceMap(a, v)
	}
	return a.Adapter.NativeToValue(value)
}

// provider tells the type checker about the objects of a schema.
type provider struct {
	types.Provider

	objects map[string]*shape // by type name
}

// FindStructType implements [types.Provider].
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if s := p.objects[name]; s != nil {
		return types.NewTypeTypeWithParam(s.celType()), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements [types.Provider].
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if s := p.objects[name]; s != nil {
		return s.fieldNames(), true
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements [types.Provider]. The type has no accessors, so the interpreter takes fields from the map.
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if s := p.objects[name]; s != nil {
		f := s.fields[field]
		if f == nil {
			return nil, false
		}
		return &types.FieldType{Type: f.celType()}, true
	}
	return p.Provider.FindStructFieldType(name, field)
}
