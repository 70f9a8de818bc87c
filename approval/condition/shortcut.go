package condition

import (
	"cmp"
	"math"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// A shortcut evaluates the usual parts of conditions without the interpreter: fields, literals, comparisons, functions of texts and numbers, and
// the operators &&, || and !.
//
// It returns nil wherever the interpreter could return anything else than the value at hand: for a missing or bad value, operands of
// different types, everything it does not know. The interpreter then evaluates the whole condition. As in the interpreter, && and || have a value if
// one side decides, so nil on the other side does not matter.
type shortcut interface {
	computeValue(in *Activation, root *shape) ref.Val
}

// newShortcut returns the shortcut of a checked condition. If the interpreter counts costs, a part that it would evaluate may end the evaluation. So
// strict shortcuts have no value after the first part without one.
func newShortcut(e ast.Expr, strict bool) shortcut {
	switch e.Kind() {
	case ast.LiteralKind:
		return &literal{e.AsLiteral()}
	case ast.IdentKind, ast.SelectKind:
		return newField(e)
	case ast.CallKind:
		return newCall(e.AsCall(), strict)
	default:
		return &unsure{}
	}
}

type (
	// unsure is a part that only the interpreter evaluates.
	unsure struct{}
	// literal is a value in the condition.
	literal struct{ of ref.Val }
	// field is a path below a variable.
	field struct {
		variable string
		path     []string
		isTest   bool // has(path)
	}
	// junction is a chain of && or ||.
	junction struct {
		decides types.Bool // the value of a part that decides: false for &&
		strict  bool
		parts   []shortcut
	}
	// negation is !.
	negation struct{ of shortcut }
	// comparison compares two values of one type.
	comparison struct {
		holds       func(order int) bool
		ordered     bool // nil, true and false have no order
		left, right shortcut
	}
	// choice is the operator in, with a list in the condition.
	choice struct {
		of   shortcut
		list []ref.Val
	}
	// application is a call of a function.
	application struct {
		apply func(args []ref.Val) ref.Val
		args  []shortcut
	}
)

func newField(e ast.Expr) shortcut {
	f := &field{isTest: e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly()}
	for ; e.Kind() == ast.SelectKind; e = e.AsSelect().Operand() {
		f.path = append([]string{e.AsSelect().FieldName()}, f.path...)
	}
	if e.Kind() != ast.IdentKind {
		return &unsure{}
	}
	f.variable = e.AsIdent()
	return f
}

// comparisons judge the order of two values, which is that of cmp.Compare.
//
//nolint:gochecknoglobals // a table
var comparisons = map[string]func(order int) bool{
	operators.Equals:        func(order int) bool { return order == 0 },
	operators.NotEquals:     func(order int) bool { return order != 0 },
	operators.Less:          func(order int) bool { return order < 0 },
	operators.LessEquals:    func(order int) bool { return order <= 0 },
	operators.Greater:       func(order int) bool { return order > 0 },
	operators.GreaterEquals: func(order int) bool { return order >= 0 },
}

func newCall(call ast.CallExpr, strict bool) shortcut {
	name := call.FunctionName()
	var args []shortcut
	if call.IsMemberFunction() {
		args = append(args, newShortcut(call.Target(), strict))
	}
	if name == operators.In && call.Args()[1].Kind() == ast.ListKind {
		return newChoice(newShortcut(call.Args()[0], strict), call.Args()[1].AsList())
	}
	for _, arg := range call.Args() {
		args = append(args, newShortcut(arg, strict))
	}
	switch name {
	case operators.LogicalAnd, operators.LogicalOr:
		return &junction{types.Bool(name == operators.LogicalOr), strict, args}
	case operators.LogicalNot:
		return &negation{args[0]}
	}
	if holds := comparisons[name]; holds != nil {
		return &comparison{holds, name != operators.Equals && name != operators.NotEquals, args[0], args[1]}
	}
	apply := findFunction(name, len(args))
	if apply == nil {
		return &unsure{}
	}
	made := &application{apply, args}
	for _, arg := range args {
		if _, isLiteral := arg.(*literal); !isLiteral {
			return made
		}
	}
	if folded := made.computeValue(nil, nil); folded != nil {
		return &literal{folded}
	}
	return &unsure{}
}

func newChoice(of shortcut, list ast.ListExpr) shortcut {
	made := &choice{of: of}
	for _, element := range list.Elements() {
		if element.Kind() != ast.LiteralKind {
			return &unsure{}
		}
		made.list = append(made.list, element.AsLiteral())
	}
	if len(list.OptionalIndices()) > 0 {
		return &unsure{}
	}
	return made
}

// findFunction returns the implementation of a function for values of the types that it is for, or nil. It is the one that the interpreter calls.
func findFunction(name string, args int) func(args []ref.Val) ref.Val {
	switch operate := arithmetic[name]; {
	case operate != nil && args == 2:
		return func(args []ref.Val) ref.Val {
			if args[0].Type() != args[1].Type() {
				return nil
			}
			return operate(args[0], args[1])
		}
	case name == overloads.Size && args == 1:
		return func(args []ref.Val) ref.Val {
			if text, ok := args[0].(types.String); ok {
				return text.Size()
			}
			return nil
		}
	case clocks[name] != nil && args == 2:
		return func(args []ref.Val) ref.Val { return clocks[name].readPart(args[0], args[1]) }
	case name == "within" && args == 2:
		return forTexts(func(texts []ref.Val) ref.Val { return callWithin(texts[0], texts[1]) })
	case name == "domain" && args == 1:
		return forTexts(func(texts []ref.Val) ref.Val { return callDomain(texts[0]) })
	case name == "lowerAscii" && args == 1:
		return forTexts(func(texts []ref.Val) ref.Val { return lowerText(texts[0]) })
	case textTests[name] != nil && args == 2:
		return forTexts(func(texts []ref.Val) ref.Val {
			return types.Bool(textTests[name](stringOf(texts[0]), stringOf(texts[1])))
		})
	}
	return nil
}

// forTexts has a function called with texts only.
func forTexts(apply func(texts []ref.Val) ref.Val) func(args []ref.Val) ref.Val {
	return func(args []ref.Val) ref.Val {
		for _, arg := range args {
			if _, isText := arg.(types.String); !isText {
				return nil
			}
		}
		return apply(args)
	}
}

//nolint:gochecknoglobals // a table
var textTests = map[string]func(text, part string) bool{
	overloads.Contains: strings.Contains, overloads.StartsWith: strings.HasPrefix, overloads.EndsWith: strings.HasSuffix,
}

func (*unsure) computeValue(*Activation, *shape) ref.Val { return nil }

func (l *literal) computeValue(*Activation, *shape) ref.Val { return l.of }

func (f *field) computeValue(in *Activation, root *shape) ref.Val {
	at, ok := in.findVariable(f.variable, root)
	if !ok {
		return nil
	}
	for i, name := range f.path {
		object, isObject := at.(map[string]any)
		if !isObject {
			return nil
		}
		at, ok = object[name]
		if f.isTest && i == len(f.path)-1 {
			if _, isBad := at.(badValue); isBad {
				return nil
			}
			return types.Bool(ok)
		}
		if !ok {
			return nil
		}
	}
	switch value := at.(type) {
	case types.String, types.Double, types.Int, types.Bool, types.Null, types.Timestamp:
		return value.(ref.Val) //nolint:forcetypeassert // all of them are
	}
	return nil
}

func (j *junction) computeValue(in *Activation, root *shape) ref.Val {
	sure := true
	for _, part := range j.parts {
		value, ok := part.computeValue(in, root).(types.Bool)
		switch {
		case ok && value == j.decides:
			return j.decides
		case !ok && j.strict:
			return nil
		}
		sure = sure && ok
	}
	if !sure {
		return nil
	}
	return !j.decides
}

func (n *negation) computeValue(in *Activation, root *shape) ref.Val {
	if value, ok := n.of.computeValue(in, root).(types.Bool); ok {
		return !value
	}
	return nil
}

func (c *comparison) computeValue(in *Activation, root *shape) ref.Val {
	left := c.left.computeValue(in, root)
	if left == nil {
		return nil
	}
	order, ok := compareValues(left, c.right.computeValue(in, root), c.ordered)
	if !ok {
		return nil
	}
	return types.Bool(c.holds(order))
}

func (c *choice) computeValue(in *Activation, root *shape) ref.Val {
	of := c.of.computeValue(in, root)
	if of == nil {
		return nil
	}
	found := false
	for _, one := range c.list {
		order, ok := compareValues(of, one, false)
		if !ok {
			return nil
		}
		found = found || order == 0
	}
	return types.Bool(found)
}

func (a *application) computeValue(in *Activation, root *shape) ref.Val {
	var room [3]ref.Val
	values := room[:0]
	for _, arg := range a.args {
		value := arg.computeValue(in, root)
		if value == nil {
			return nil
		}
		values = append(values, value)
	}
	result := a.apply(values)
	switch result.(type) {
	case types.Bool, types.Int, types.Double, types.String:
		return result
	}
	return nil // an error, or a value of another type
}

// compareValues returns the order of two values of one type. It is not ok for values of different types, and if only equality counts in their type.
func compareValues(left, right ref.Val, ordered bool) (order int, ok bool) {
	switch l := left.(type) {
	case types.String:
		r, ok := right.(types.String)
		return strings.Compare(string(l), string(r)), ok
	case types.Double:
		r, ok := right.(types.Double)
		return cmp.Compare(l, r), ok && !math.IsNaN(float64(l)) && !math.IsNaN(float64(r))
	case types.Int:
		r, ok := right.(types.Int)
		return cmp.Compare(l, r), ok
	case types.Bool:
		r, ok := right.(types.Bool)
		if l == r {
			return 0, ok && !ordered
		}
		return 1, ok && !ordered
	case types.Null:
		_, ok := right.(types.Null)
		return 0, ok && !ordered
	}
	return 0, false
}
