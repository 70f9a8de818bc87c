package condition

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Values of arguments in CEL. A scalar is a value of CEL. A list is a []any and a map is a map[string]any, which the interpreter walks without
// conversions. An object whose fields the schema names is an *object, whose fields are converted when they are read. What cannot be converted
// is a badValue within a list or map, and an error elsewhere.
//
// The interpreter ignores errors within lists and maps that it compares: [error] == [1] is true in it. So the adapter checks each list,
// map and object completely when an expression uses it as a whole. Only a path leads past a bad value: args.a.b, args.items[0].price.

// badValue is a value that no expression may use.
type badValue struct{ err error }

// object is an object whose fields the schema names.
type object struct {
	node    *node
	shape   *shape
	checked atomic.Pointer[verdict]
}

// verdict says whether all values within an object are usable.
type verdict struct{ err error }

// convert returns the value of a node by a shape: a value of CEL, []any, map[string]any or *object.
func (s *shape) convert(n *node) (any, error) {
	if n.kind == invalid {
		return nil, fmt.Errorf("%s %w", s.path, n.bad)
	}
	if n.kind == 'n' {
		if s.nullable || s.kind == untyped {
			return n.scalar, nil
		}
		return nil, s.mismatch(n)
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
	return nil, s.mismatch(n)
}

func (s *shape) convertUntyped(n *node) (any, error) {
	switch n.kind {
	case '0':
		value, err := parseUntyped(n.text)
		if err != nil {
			return nil, fmt.Errorf("%s %w", s.path, err)
		}
		return value, nil
	case '{', '[':
		return s.convertNested(n), nil
	}
	return n.scalar, nil
}

func (s *shape) convertNumber(n *node) (any, error) {
	if s.kind == integerKind {
		i, err := parseInteger(n.text)
		if err != nil {
			return nil, fmt.Errorf("%s %w", s.path, err)
		}
		return types.Int(i), nil
	}
	f, err := parseDouble(n.text)
	if err != nil {
		return nil, fmt.Errorf("%s %w", s.path, err)
	}
	return types.Double(f), nil
}

// convertNested converts an object or a list once.
func (s *shape) convertNested(n *node) any {
	if c := n.converted.Load(); c != nil && c.shape == s {
		return c.value
	}
	c := &conversion{shape: s}
	switch {
	case s.kind == objectKind:
		c.value = &object{node: n, shape: s}
	case n.kind == '{':
		values := make(map[string]any, len(n.children))
		for i, child := range n.children {
			values[n.names[i]] = s.elem.convertElement(child)
		}
		c.value = values
	default:
		values := make([]any, len(n.children))
		for i, child := range n.children {
			values[i] = s.elem.convertElement(child)
		}
		c.value = values
	}
	n.converted.Store(c)
	return c.value
}

func (s *shape) convertElement(n *node) any {
	value, err := s.convert(n)
	if err != nil {
		return badValue{err}
	}
	return value
}

func (s *shape) mismatch(n *node) error {
	return fmt.Errorf("%s must be %s, not %s", s.path, s.describeKind(), n.describeKind())
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

// makeFieldTypes makes the accessors of an object's fields.
func (s *shape) makeFieldTypes() {
	s.fieldTypes = make(map[string]*types.FieldType, len(s.fields))
	for name, field := range s.fields {
		s.fieldTypes[name] = &types.FieldType{
			Type: field.celType(),
			IsSet: func(target any) bool {
				o, ok := target.(*object)
				return ok && o.node.findMember(name) != nil
			},
			GetFrom: func(target any) (any, error) {
				o, ok := target.(*object)
				if !ok {
					return nil, s.explainTarget(target)
				}
				member := o.node.findMember(name)
				if member == nil {
					return nil, fmt.Errorf("no such key: %s is missing", field.path)
				}
				return field.convert(member)
			},
		}
	}
}

// explainTarget returns the error of a field of something that is no object.
func (s *shape) explainTarget(target any) error {
	if bad, ok := target.(badValue); ok {
		return bad.err
	}
	return fmt.Errorf("no such key: %s is null", s.path)
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
	case *object:
		return v.check()
	}
	return nil
}

func (o *object) check() error {
	if v := o.checked.Load(); v != nil {
		return v.err
	}
	v := &verdict{}
	for i, child := range o.node.children {
		if v.err = checkAll(o.fieldShape(o.node.names[i]).convertElement(child)); v.err != nil {
			break
		}
	}
	o.checked.Store(v)
	return v.err
}

// fieldShape returns the shape of a member, also of one that the schema does not name.
func (o *object) fieldShape(name string) *shape {
	if field := o.shape.fields[name]; field != nil {
		return field
	}
	return newUntyped(joinPath(o.shape.path, name))
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
	case *object:
		if err := v.check(); err != nil {
			return types.WrapErr(err)
		}
		return v
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

// errNoConversion is the error of conversions of objects, which no function asks for.
var errNoConversion = errors.New("objects are not converted")

// ConvertToNative implements [ref.Val].
func (*object) ConvertToNative(reflect.Type) (any, error) { return nil, errNoConversion }

// ConvertToType implements [ref.Val].
func (*object) ConvertToType(ref.Type) ref.Val { return types.WrapErr(errNoConversion) }

// Type implements [ref.Val].
func (o *object) Type() ref.Type { return o.shape.celType() }

// Value implements [ref.Val]. The accessors of fields get it.
func (o *object) Value() any { return o }

// Equal implements [ref.Val]: two objects are equal if they have the same members with equal values. All values were checked, so
// an error in one of them is a mistake of this package; the panic makes the evaluation fail.
func (o *object) Equal(other ref.Val) ref.Val {
	p, ok := other.(*object)
	if !ok || len(o.node.names) != len(p.node.names) {
		return types.False
	}
	a := adapter{types.DefaultTypeAdapter}
	for i, name := range o.node.names {
		member := p.node.findMember(name)
		if member == nil {
			return types.False
		}
		left := a.NativeToValue(o.fieldShape(name).convertElement(o.node.children[i]))
		right := a.NativeToValue(p.fieldShape(name).convertElement(member))
		if types.IsUnknownOrError(left) || types.IsUnknownOrError(right) {
			panic("an object was compared before it was checked")
		}
		if types.Equal(left, right) != types.True {
			return types.False
		}
	}
	return types.True
}

// provider tells the type checker about the objects of a schema.
type provider struct {
	types.Provider

	objects map[string]*shape // by type name
}

// FindStructType implements [types.Provider].
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if s := p.objects[name]; s != nil {
		return types.NewTypeTypeWithParam(s.celTypeOfObject()), true
	}
	return p.Provider.FindStructType(name)
}

func (s *shape) celTypeOfObject() *types.Type { return types.NewObjectType(s.typeName) }

// FindStructFieldNames implements [types.Provider].
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if s := p.objects[name]; s != nil {
		return s.fieldNames(), true
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements [types.Provider].
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if s := p.objects[name]; s != nil {
		t, ok := s.fieldTypes[field]
		return t, ok
	}
	return p.Provider.FindStructFieldType(name, field)
}
