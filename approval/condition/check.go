package condition

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/parser"
)

// checker finds the mistakes of one condition.
type checker struct {
	schema   *Schema
	source   []rune
	problems []Problem
}

// maxProblems bounds the problems of one condition.
const maxProblems = 20

func (c *checker) addProblemf(line, column int, format string, args ...any) {
	p := Problem{max(line, 1), max(column, 1), fmt.Sprintf(format, args...)}
	if len(c.problems) < maxProblems && !slices.Contains(c.problems, p) {
		c.problems = append(c.problems, p)
	}
}

// findName moves a place to the name that it is about: the parser gives the point before a field, and the parenthesis behind a function.
func (c *checker) findName(line, column int) (int, int) {
	lines := strings.Split(string(c.source), "\n")
	if line < 1 || line > len(lines) {
		return line, column
	}
	text := []rune(lines[line-1])
	at := column - 1
	if at < 0 || at >= len(text) {
		return line, column
	}
	switch text[at] {
	case '.':
		if at+1 < len(text) && isNamePart(text[at+1]) {
			at++
		}
	case '(':
		for at > 0 && isNamePart(text[at-1]) {
			at--
		}
	}
	return line, at + 1
}

func isNamePart(r rune) bool {
	return r == '_' || r == '`' || r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

func (c *checker) sortProblems() *Error {
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	return &Error{c.problems}
}

// scope has the variables of the loops around an expression.
type scope struct {
	name  string
	shape *shape // nil: unknown
	path  string // "": unknown
	outer *scope
}

// findVariable returns the innermost variable with this name, or nil.
func (s *scope) findVariable(name string) *scope {
	for s != nil && s.name != name {
		s = s.outer
	}
	return s
}

// visitor is called with each expression and the variables of the loops around it.
type visitor func(e ast.Expr, in *scope)

// visitExpressions visits an expression and everything in it.
func (s *Schema) visitExpressions(e ast.Expr, in *scope, visit visitor) {
	visit(e, in)
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			s.visitExpressions(call.Target(), in, visit)
		}
		for _, arg := range call.Args() {
			s.visitExpressions(arg, in, visit)
		}
	case ast.SelectKind:
		s.visitExpressions(e.AsSelect().Operand(), in, visit)
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			s.visitExpressions(element, in, visit)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			s.visitExpressions(entry.AsMapEntry().Key(), in, visit)
			s.visitExpressions(entry.AsMapEntry().Value(), in, visit)
		}
	case ast.ComprehensionKind:
		loop := e.AsComprehension()
		s.visitExpressions(loop.IterRange(), in, visit)
		s.visitExpressions(loop.AccuInit(), in, visit)
		var item *shape
		if list := s.shapeOf(loop.IterRange(), in); list != nil && list.kind == listKind {
			item = list.elem
		}
		path, _ := pathOf(loop.IterRange(), in)
		if path != "" {
			path += "[]"
		}
		body := &scope{loop.IterVar(), item, path, &scope{name: loop.AccuVar(), outer: in}}
		s.visitExpressions(loop.LoopCondition(), body, visit)
		s.visitExpressions(loop.LoopStep(), body, visit)
		s.visitExpressions(loop.Result(), body.outer, visit)
	default: // it has no parts: a condition cannot make objects
	}
}

// shapeOf returns what the schema says about an expression, or nil.
func (s *Schema) shapeOf(e ast.Expr, in *scope) *shape {
	switch e.Kind() {
	case ast.IdentKind:
		if local := in.findVariable(e.AsIdent()); local != nil {
			return local.shape
		}
		switch e.AsIdent() {
		case "args":
			return s.root
		case "principal":
			return principalShape
		case "claimed":
			return claimedShape
		case "context":
			return contextShape
		}
	case ast.SelectKind:
		operand := s.shapeOf(e.AsSelect().Operand(), in)
		switch {
		case operand == nil || e.AsSelect().IsTestOnly():
		case operand.kind == objectKind:
			return operand.fields[e.AsSelect().FieldName()]
		case operand.kind == mapKind:
			return operand.elem
		}
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Index {
			if operand := s.shapeOf(call.Args()[0], in); operand != nil && (operand.kind == listKind || operand.kind == mapKind) {
				return operand.elem
			}
		}
	default:
	}
	return nil
}

// variables are the names that every condition may use.
//
//nolint:gochecknoglobals // a table
var variables = []string{"args", "agent", "skill", "tool", "principal", "claimed", "context", "now"}

// readsCall reports whether an expression reads anything about the call, or asks about earlier ones.
func (s *Schema) readsCall(e ast.Expr, in *scope) bool {
	found := false
	s.visitExpressions(e, in, func(e ast.Expr, in *scope) {
		if e.Kind() == ast.IdentKind {
			found = found || in.findVariable(e.AsIdent()) == nil && slices.Contains(variables, e.AsIdent())
		}
		found = found || isMemory(e)
	})
	if found {
		return true
	}
	// A variable of a loop around the expression counts, because its items may come from the call.
	s.visitExpressions(e, nil, func(e ast.Expr, inner *scope) {
		if e.Kind() == ast.IdentKind {
			found = found || inner.findVariable(e.AsIdent()) == nil && in.findVariable(e.AsIdent()) != nil
		}
	})
	return found
}

// checkTree finds the mistakes that types do not show.
func (c *checker) checkTree(tree *ast.AST) {
	report := func(e ast.Expr, format string, args ...any) {
		location := tree.SourceInfo().GetStartLocation(e.ID())
		line, column := c.findName(location.Line(), location.Column()+1)
		c.addProblemf(line, column, format, args...)
	}
	root := tree.Expr()
	switch t := tree.GetType(root.ID()); {
	case t.Kind() == types.DynKind: // known when it is evaluated
	case t.Kind() == types.BoolKind && t.IsAssignableType(types.NullType):
		report(root, "the condition must be true or false, and this may be null: compare the value with == true")
	case t.Kind() == types.BoolKind:
	default:
		report(root, "the condition must be true or false, not %s", c.describeType(t.String()))
	}
	c.schema.visitExpressions(root, nil, func(e ast.Expr, in *scope) {
		switch e.Kind() {
		case ast.LiteralKind:
			c.checkLiteral(tree, e, report)
		case ast.ListKind:
			c.checkAlike(tree, e.AsList().Elements(), report)
		case ast.MapKind:
			var values []ast.Expr
			for _, entry := range e.AsMap().Entries() {
				values = append(values, entry.AsMapEntry().Value())
			}
			c.checkAlike(tree, values, report)
		case ast.StructKind:
			report(e, "a condition cannot make objects")
		case ast.ComprehensionKind:
			if loop := e.AsComprehension(); slices.Contains(variables, loop.IterVar()) {
				report(e, "the name %s is taken: choose another name for the items", loop.IterVar())
			}
		case ast.CallKind:
			c.checkCall(tree, e, in, report)
		default:
		}
	})
	c.checkConstants(root, report)
}

type reporter func(e ast.Expr, format string, args ...any)

// checkLiteral refuses numbers that have more digits than a double holds.
func (c *checker) checkLiteral(tree *ast.AST, e ast.Expr, report reporter) {
	d, ok := e.AsLiteral().(types.Double)
	if !ok {
		return
	}
	written, ok := tree.SourceInfo().GetOffsetRange(e.ID())
	if !ok || int(written.Stop) > len(c.source) || written.Start >= written.Stop {
		return
	}
	text := string(c.source[written.Start:written.Stop])
	if numeral.MatchString(text) && !isExact(text, float64(d)) {
		report(e, "%s has more digits than a number can hold: write %s", text, formatDouble(float64(d)))
	}
}

var numeral = regexp.MustCompile(`^-?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?$`)

func (c *checker) checkCall(tree *ast.AST, e ast.Expr, in *scope, report reporter) {
	call := e.AsCall()
	name, args := call.FunctionName(), call.Args()
	switch {
	case name == operators.Equals || name == operators.NotEquals:
		c.checkChoice(args[0], args[1], in, report)
		c.checkChoice(args[1], args[0], in, report)
	case name == operators.In:
		if args[1].Kind() == ast.ListKind {
			for _, element := range args[1].AsList().Elements() {
				c.checkChoice(element, args[0], in, report)
			}
		} else if list := c.schema.shapeOf(args[1], in); list != nil && list.kind == listKind {
			c.checkValue(args[0], list.elem, report)
		}
	case name == operators.Conditional:
		if args[2].Kind() != ast.IdentKind || !isAccumulator(args[2].AsIdent()) {
			c.checkAlike(tree, args[1:], report)
		}
	case name == overloads.Matches:
		c.checkPattern(args[len(args)-1], report)
	case clocks[name] != nil && len(args) == 1:
		c.checkZone(args[0], report)
	case isOperator(name):
	case functionUsage[name] == "":
		report(e, "unknown function %s%s", name, suggestName(name, slices.Collect(maps.Keys(functionUsage))))
	}
}

// checkAlike refuses values of different types in a list, an object or behind ?:. Untyped values go with all types.
func (c *checker) checkAlike(tree *ast.AST, values []ast.Expr, report reporter) {
	var first *types.Type
	for _, value := range values {
		t := tree.GetType(value.ID())
		switch {
		case t == nil || t.Kind() == types.DynKind:
		case first == nil:
			first = t
		case first.Kind() != t.Kind():
			report(value, "expected %s, not %s", c.describeType(first.String()), c.describeType(t.String()))
			return
		}
	}
}

func isOperator(name string) bool {
	_, ok := operators.FindReverse(name)
	return ok || strings.HasPrefix(name, "_") || strings.HasPrefix(name, "@") || name == operators.LogicalNot || name == operators.Negate || name == operators.In
}

// checkChoice refuses the comparison of a field with a text that the schema rules out.
func (c *checker) checkChoice(literal, field ast.Expr, in *scope, report reporter) {
	if s := c.schema.shapeOf(field, in); s != nil {
		c.checkValue(literal, s, report)
	}
}

func (c *checker) checkValue(literal ast.Expr, s *shape, report reporter) {
	if literal.Kind() != ast.LiteralKind || s.kind != stringKind || s.enum == nil {
		return
	}
	if text, ok := literal.AsLiteral().(types.String); ok && !slices.Contains(s.enum, string(text)) {
		report(literal, "%s is never %q%s", s.path, clipText(string(text)), suggestText(string(text), s.enum))
	}
}

func (c *checker) checkPattern(pattern ast.Expr, report reporter) {
	if pattern.Kind() != ast.LiteralKind {
		report(pattern, "the pattern of matches must be a text in quotes")
		return
	}
	text, _ := pattern.AsLiteral().(types.String)
	if _, err := regexp.Compile(string(text)); err != nil {
		report(pattern, "the pattern of matches must be a regular expression (RE2): %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
}

func (c *checker) checkZone(zone ast.Expr, report reporter) {
	if zone.Kind() != ast.LiteralKind {
		report(zone, `the time zone must be a text in quotes, such as "Europe/Berlin"`)
		return
	}
	text, _ := zone.AsLiteral().(types.String)
	if _, err := loadZone(string(text)); err != nil {
		report(zone, `unknown time zone %q: write a name such as "Europe/Berlin", or an offset such as "+02:00"`, clipText(string(text)))
	}
}

// checkConstants refuses parts that are the same for every call.
func (c *checker) checkConstants(root ast.Expr, report reporter) {
	if !c.schema.readsCall(root, nil) {
		report(root, "the condition reads nothing of the call, so it is the same for every call")
		return
	}
	c.schema.visitExpressions(root, nil, func(e ast.Expr, in *scope) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		var parts []ast.Expr
		switch call.FunctionName() {
		case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
			parts = call.Args()
		case operators.Conditional:
			parts = call.Args()[:1]
		}
		for _, part := range parts {
			if !c.schema.readsCall(part, in) {
				report(part, "this part is the same for every call: remove it")
			}
		}
	})
}

// isAccumulator reports whether a name is that of the result of a loop, which only macros write.
func isAccumulator(name string) bool {
	return name == parser.AccumulatorName || name == parser.HiddenAccumulatorName
}

// References are what a condition reads and calls.
type References struct {
	Fields    []string // paths from a variable, such as args.items[].price; the items of lists are []
	Functions []string
}

// listReferences lists what a checked condition reads and calls.
func listReferences(s *Schema, tree *ast.AST) References {
	fields, functions := make(map[string]bool), make(map[string]bool)
	inner := make(map[int64]bool) // operands of longer paths
	s.visitExpressions(tree.Expr(), nil, func(e ast.Expr, in *scope) {
		if e.Kind() == ast.CallKind {
			name := e.AsCall().FunctionName()
			if functionUsage[name] != "" {
				functions[name] = true
			}
		}
		path, operands := pathOf(e, in)
		if path == "" || inner[e.ID()] {
			return
		}
		for _, operand := range operands {
			inner[operand] = true
		}
		fields[path] = true
	})
	for _, macro := range tree.SourceInfo().MacroCalls() {
		if macro.Kind() == ast.CallKind && functionUsage[macro.AsCall().FunctionName()] != "" {
			functions[macro.AsCall().FunctionName()] = true
		}
	}
	return References{slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(functions))}
}

// pathOf returns the path that an expression reads, or "", and the ids of the expressions within it that read a part of the path.
func pathOf(e ast.Expr, in *scope) (path string, operands []int64) {
	var operand ast.Expr
	var extend func(path string) string
	switch e.Kind() {
	case ast.IdentKind:
		if local := in.findVariable(e.AsIdent()); local != nil {
			return local.path, nil
		}
		if slices.Contains(variables, e.AsIdent()) {
			return e.AsIdent(), nil
		}
		return "", nil
	case ast.SelectKind:
		operand = e.AsSelect().Operand()
		extend = func(path string) string { return joinPath(path, e.AsSelect().FieldName()) }
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index {
			return "", nil
		}
		operand = call.Args()[0]
		extend = func(path string) string {
			if key := call.Args()[1]; key.Kind() == ast.LiteralKind {
				if name, ok := key.AsLiteral().(types.String); ok {
					return joinPath(path, string(name))
				}
			}
			return path + "[]"
		}
	default:
		return "", nil
	}
	path, operands = pathOf(operand, in)
	if path == "" {
		return "", nil
	}
	return extend(path), append(operands, operand.ID())
}
