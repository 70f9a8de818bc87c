package condition

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/parser"
)

// Phrase is a part of a condition that its readers put into words. Package condition knows the structure, and no language.
//
// The phrase of a call of a function has the function's name as its form, as in [Functions], and the function's operands as parts: the text before
// the point first. Macros of lists have the list and the condition or value as parts, and the variable as value.
type Phrase struct {
	Form  Form
	Not   bool   // the phrase says the opposite of its form
	Value string // of forms that have one
	Parts []Phrase
}

// Form is the kind of a phrase.
type Form string

// The forms besides those of functions.
const (
	FormCode     Form = "code"     // Value is an expression that has no words
	FormArgument Form = "argument" // Value is its path, such as limits.day
	FormArgs     Form = "args"     // all arguments
	FormAgent    Form = "agent"
	FormSkill    Form = "skill"
	FormTool     Form = "tool"
	FormNow      Form = "now"
	FormWho      Form = "principal" // Value is the name of a field; empty: the person
	FormClaimed  Form = "claimed"   // Value is the name of a hint
	FormContext  Form = "context"   // Value is the name of a field; empty: all of them
	FormItem     Form = "item"      // Value is the variable of a loop, with the path to a field
	FormText     Form = "text"      // Value is the text
	FormNumber   Form = "number"    // Value is the number, in decimal
	FormWeekday  Form = "weekday"   // Value is its number; 0 is Sunday
	FormMonth    Form = "month"     // Value is its number; 0 is January
	FormList     Form = "list"      // of values
	FormAnd      Form = "and"       // at least two conditions
	FormOr       Form = "or"        // likewise
	FormFalse    Form = "not"       // the opposite of one condition
	FormIf       Form = "if"        // a condition, and the two conditions or values of which it chooses
	FormTrue     Form = "true"      // a value that is true
	FormNull     Form = "null"      // a value that is null
	FormOneOf    Form = "one of"    // a value, and those of which it is one
	FormIn       Form = "in"        // a value, and the list that has it
	FormEqual    Form = "=="
	FormLess     Form = "<"
	FormAtMost   Form = "<="
	FormMore     Form = ">"
	FormAtLeast  Form = ">="
	FormPlus     Form = "+"
	FormMinus    Form = "-" // of one or two values
	FormTimes    Form = "*"
	FormDivided  Form = "/"
	FormModulo   Form = "%"
)

// Named is the value of the phrase of a weekday or month that is compared with names, and not with numbers.
const Named = "named"

// Function is a function that conditions may call.
type Function struct {
	Name  string // as in a [Phrase]
	Usage string // such as text.contains(part)
}

// Functions returns the functions that conditions may call, by name.
func Functions() []Function {
	var list []Function
	for _, name := range slices.Sorted(maps.Keys(functionUsage)) {
		list = append(list, Function{name, functionUsage[name]})
	}
	return list
}

// Describe returns what a condition says, as a phrase. A text that is no condition has no words.
func Describe(source string) Phrase {
	code := Phrase{Form: FormTrue, Parts: []Phrase{{Form: FormCode, Value: source}}}
	env, err := baseEnv()
	if err != nil || len(source) > MaxSource {
		return code
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return code
	}
	tree := parsed.NativeRep()
	d := &describer{info: tree.SourceInfo()}
	return d.describeCondition(tree.Expr(), false)
}

// describer makes the phrases of one condition.
type describer struct {
	info  *ast.SourceInfo
	items []string // the variables of the loops around an expression
}

// describeCondition returns the phrase of an expression that is true or false, or of its opposite.
func (d *describer) describeCondition(e ast.Expr, not bool) Phrase {
	if macro, ok := d.info.GetMacroCall(e.ID()); ok {
		return d.describeMacro(macro, not)
	}
	if e.Kind() != ast.CallKind {
		return d.holdTrue(e, not)
	}
	call := e.AsCall()
	name, args := call.FunctionName(), call.Args()
	switch name {
	case operators.LogicalNot:
		return d.describeCondition(args[0], !not)
	case operators.LogicalAnd, operators.LogicalOr:
		form := FormAnd
		if name == operators.LogicalOr {
			form = FormOr
		}
		return negatePhrase(Phrase{Form: form, Parts: d.joinConditions(name, e, nil)}, not)
	case operators.Conditional:
		return negatePhrase(Phrase{Form: FormIf, Parts: []Phrase{d.describeCondition(args[0], false), d.describeCondition(args[1], false), d.describeCondition(args[2], false)}}, not)
	case operators.Equals, operators.NotEquals:
		return d.describeEquality(args[0], args[1], not != (name == operators.NotEquals))
	case operators.In:
		return d.describeChoice(args[0], args[1], not)
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return d.describeOrder(name, args[0], args[1], not)
	case operators.Index:
		return d.holdTrue(e, not)
	}
	phrase := d.describeFunction(e)
	if phrase.Form == FormCode {
		return d.holdTrue(e, not)
	}
	phrase.Not = not
	return phrase
}

// negatePhrase returns the opposite of a phrase whose form has none.
func negatePhrase(p Phrase, not bool) Phrase {
	if not {
		return Phrase{Form: FormFalse, Parts: []Phrase{p}}
	}
	return p
}

// holdTrue returns the phrase that a value is true.
func (d *describer) holdTrue(e ast.Expr, not bool) Phrase {
	return Phrase{Form: FormTrue, Not: not, Parts: []Phrase{d.describeValue(e)}}
}

// joinConditions returns the conditions that an operator joins, in their order.
func (d *describer) joinConditions(operator string, e ast.Expr, list []Phrase) []Phrase {
	if _, isMacro := d.info.GetMacroCall(e.ID()); !isMacro && e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operator {
		for _, arg := range e.AsCall().Args() {
			list = d.joinConditions(operator, arg, list)
		}
		return list
	}
	return append(list, d.describeCondition(e, false))
}

func (d *describer) describeEquality(left, right ast.Expr, not bool) Phrase {
	if left.Kind() == ast.LiteralKind {
		left, right = right, left
	}
	if right.Kind() == ast.LiteralKind {
		switch v := right.AsLiteral().(type) {
		case types.Bool:
			return d.describeCondition(left, not == bool(v))
		case types.Null:
			return Phrase{Form: FormNull, Not: not, Parts: []Phrase{d.describeValue(left)}}
		}
	}
	return Phrase{Form: FormEqual, Not: not, Parts: d.nameParts(left, right)}
}

func (d *describer) describeChoice(value, list ast.Expr, not bool) Phrase {
	if list.Kind() != ast.ListKind || len(list.AsList().Elements()) == 0 {
		return Phrase{Form: FormIn, Not: not, Parts: []Phrase{d.describeValue(value), d.describeValue(list)}}
	}
	elements := list.AsList().Elements()
	if len(elements) == 1 {
		return d.describeEquality(value, elements[0], not)
	}
	return Phrase{Form: FormOneOf, Not: not, Parts: d.nameParts(value, elements...)}
}

// nameParts returns the phrases of a value and of those that it is compared with. If it is the weekday or the month, these are names.
func (d *describer) nameParts(value ast.Expr, others ...ast.Expr) []Phrase {
	parts := []Phrase{d.describeValue(value)}
	for _, other := range others {
		parts = append(parts, d.describeValue(other))
	}
	form, last := FormWeekday, 6
	switch parts[0].Form {
	case overloads.TimeGetDayOfWeek:
	case overloads.TimeGetMonth:
		form, last = FormMonth, 11
	default:
		return parts
	}
	for _, other := range parts[1:] {
		if n, err := strconv.Atoi(other.Value); other.Form != FormNumber || err != nil || n < 0 || n > last {
			return parts
		}
	}
	parts[0].Value = Named
	for i := range parts[1:] {
		parts[i+1].Form = form
	}
	return parts
}

// describeOrder returns the phrase of a comparison, with the value that differs from call to call first.
func (d *describer) describeOrder(operator string, left, right ast.Expr, not bool) Phrase {
	at := slices.Index(orders, operator)
	if left.Kind() == ast.LiteralKind && right.Kind() != ast.LiteralKind {
		left, right, at = right, left, 3-at
	}
	if not {
		at = (at + 2) % 4
	}
	return Phrase{Form: orderForms[at], Parts: []Phrase{d.describeValue(left), d.describeValue(right)}}
}

// The operators that compare, each two places before its opposite, and as far from the beginning as its mirror image is from the end.
//
//nolint:gochecknoglobals // tables
var (
	orders     = []string{operators.Less, operators.LessEquals, operators.GreaterEquals, operators.Greater}
	orderForms = []Form{FormLess, FormAtMost, FormAtLeast, FormMore}
)

// describeMacro returns the phrase of a macro that is a condition.
func (d *describer) describeMacro(macro ast.Expr, not bool) Phrase {
	call := macro.AsCall()
	switch name := call.FunctionName(); name {
	case operators.Has:
		return Phrase{Form: "has", Not: not, Parts: []Phrase{d.describeValue(call.Args()[0])}}
	case operators.All, operators.Exists, operators.ExistsOne:
		p := d.describeLoop(macro, func(e ast.Expr) Phrase { return d.describeCondition(e, false) })
		switch {
		case p.Form == FormCode:
			return Phrase{Form: FormTrue, Not: not, Parts: []Phrase{p}}
		case name == operators.Exists:
			p.Not = not
			return p
		}
		return negatePhrase(p, not)
	}
	return Phrase{Form: FormTrue, Not: not, Parts: []Phrase{d.describeValue(macro)}}
}

// describeLoop returns the phrase of a macro of a list.
func (d *describer) describeLoop(macro ast.Expr, describe func(e ast.Expr) Phrase) Phrase {
	call := macro.AsCall()
	if len(call.Args()) != 2 || call.Args()[0].Kind() != ast.IdentKind {
		return d.keepCode(macro)
	}
	name := call.Args()[0].AsIdent()
	list := d.describeValue(call.Target())
	d.items = append(d.items, name)
	defer func() { d.items = d.items[:len(d.items)-1] }()
	return Phrase{Form: Form(call.FunctionName()), Value: name, Parts: []Phrase{list, describe(call.Args()[1])}}
}

// describeValue returns the phrase of a value.
func (d *describer) describeValue(e ast.Expr) Phrase {
	if macro, ok := d.info.GetMacroCall(e.ID()); ok {
		e = macro
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return d.describeLiteral(e)
	case ast.ListKind:
		p := Phrase{Form: FormList}
		for _, element := range e.AsList().Elements() {
			p.Parts = append(p.Parts, d.describeValue(element))
		}
		return p
	case ast.IdentKind, ast.SelectKind:
		return d.describePath(e)
	case ast.CallKind:
		if e.AsCall().FunctionName() == operators.Index {
			return d.describePath(e)
		}
		return d.describeFunction(e)
	default:
		return d.keepCode(e)
	}
}

func (d *describer) describeLiteral(e ast.Expr) Phrase {
	switch v := e.AsLiteral().(type) {
	case types.String:
		return Phrase{Form: FormText, Value: string(v)}
	case types.Int:
		return Phrase{Form: FormNumber, Value: strconv.FormatInt(int64(v), 10)}
	case types.Double:
		return Phrase{Form: FormNumber, Value: strconv.FormatFloat(float64(v), 'f', -1, 64)}
	}
	return d.keepCode(e)
}

// describePath returns the phrase of a variable or of a field of one.
func (d *describer) describePath(e ast.Expr) Phrase {
	root, path, ok := splitPath(e)
	switch {
	case !ok:
	case slices.Contains(d.items, root):
		return Phrase{Form: FormItem, Value: joinNames(root, path)}
	case root == "args" && path == "":
		return Phrase{Form: FormArgs}
	case root == "args":
		return Phrase{Form: FormArgument, Value: path}
	case root == "principal", root == "claimed", root == "context":
		return Phrase{Form: Form(root), Value: path}
	case path == "" && slices.Contains(variables, root):
		return Phrase{Form: Form(root)}
	}
	return d.keepCode(e)
}

// splitPath returns the variable and the path of an expression that reads a field by a constant path.
func splitPath(e ast.Expr) (root, path string, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), "", true
	case ast.SelectKind:
		s := e.AsSelect()
		if root, path, ok = splitPath(s.Operand()); !ok || s.IsTestOnly() {
			return "", "", false
		}
		return root, joinNames(path, s.FieldName()), true
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index || call.Args()[1].Kind() != ast.LiteralKind {
			return "", "", false
		}
		if root, path, ok = splitPath(call.Args()[0]); !ok {
			return "", "", false
		}
		switch key := call.Args()[1].AsLiteral().(type) {
		case types.Int:
			return root, path + "[" + strconv.FormatInt(int64(key), 10) + "]", true
		case types.String:
			if isPlain(string(key)) {
				return root, joinNames(path, string(key)), true
			}
			return root, path + "[" + strconv.Quote(string(key)) + "]", true
		}
	default:
	}
	return "", "", false
}

func joinNames(path, name string) string {
	if path == "" {
		return name
	}
	if name == "" || strings.HasPrefix(name, "[") {
		return path + name
	}
	return path + "." + name
}

// isPlain reports whether a key can be read as a name.
func isPlain(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool { return !isNamePart(r) || r == '`' })
}

// describeFunction returns the phrase of a call of a function or an operator.
func (d *describer) describeFunction(e ast.Expr) Phrase {
	call := e.AsCall()
	name, operands := call.FunctionName(), call.Args()
	if _, isMacro := macroForms[name]; isMacro && call.IsMemberFunction() {
		if name == operators.Filter {
			return d.describeLoop(e, func(e ast.Expr) Phrase { return d.describeCondition(e, false) })
		}
		return d.describeLoop(e, d.describeValue)
	}
	form, isOperator := valueForms[name]
	switch {
	case isOperator:
	case name == operators.Conditional:
		return Phrase{Form: FormIf, Parts: []Phrase{d.describeCondition(operands[0], false), d.describeValue(operands[1]), d.describeValue(operands[2])}}
	case call.IsMemberFunction() && isMath(call.Target()):
		form = Form("math." + name)
	case call.IsMemberFunction():
		form, operands = Form(name), append([]ast.Expr{call.Target()}, operands...)
	default:
		form = Form(name)
	}
	if !isOperator && functionUsage[string(form)] == "" {
		return d.keepCode(e)
	}
	p := Phrase{Form: form}
	for _, operand := range operands {
		p.Parts = append(p.Parts, d.describeValue(operand))
	}
	return p
}

//nolint:gochecknoglobals // tables
var (
	valueForms = map[string]Form{
		operators.Add: FormPlus, operators.Subtract: FormMinus, operators.Negate: FormMinus, operators.Multiply: FormTimes, operators.Divide: FormDivided, operators.Modulo: FormModulo,
	}
	macroForms = map[string]bool{operators.Filter: true, operators.Map: true}
)

func (d *describer) keepCode(e ast.Expr) Phrase {
	return Phrase{Form: FormCode, Value: d.writeSource(e)}
}

// writeSource returns the text of an expression on one line.
func (d *describer) writeSource(e ast.Expr) string {
	text, err := parser.Unparse(e, d.info, parser.EscapeIdentifiers(true), parser.WrapOnColumn(2*MaxSource))
	if err != nil {
		return "?"
	}
	return strings.ReplaceAll(text, "\n", " ")
}
