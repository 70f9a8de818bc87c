package condition

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Messages of the library, which explainSyntax and explainTypes rewrite.
var (
	undefinedField   = regexp.MustCompile(`^undefined field '(.*)'$`)
	undeclaredName   = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	noOverload       = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
	wrongType        = regexp.MustCompile(`^expected type '(.*)' but found '(.*)'$`)
	noFields         = regexp.MustCompile(`^type '(.*)' does not support field selection$`)
	noRange          = regexp.MustCompile(`^expression of type '(.*)' cannot be range`)
	invalidArgument  = regexp.MustCompile(`^invalid (\w+) argument$`)
	unexpectedSymbol = regexp.MustCompile(`token recognition error at: '(.*)'`)
	unexpectedInput  = regexp.MustCompile(`(?:mismatched|extraneous|no viable alternative at) input '([^']*)'`)
	missingSymbol    = regexp.MustCompile(`^missing '?([^' ]+)'? at '([^']*)'`)
)

// explainSyntax returns the problems of a text that is no expression.
func (c *checker) explainSyntax(issues *cel.Issues) *Error {
	if strings.TrimSpace(string(c.source)) == "" {
		return &Error{[]Problem{{1, 1, "the condition is empty"}}}
	}
	for _, e := range issues.Errors() { // the first one only, because the others follow from it
		c.addProblemf(e.Location.Line(), e.Location.Column()+1, "%s", rewriteSyntax(e.Message))
		break
	}
	return c.sortProblems()
}

func rewriteSyntax(message string) string {
	message = strings.TrimPrefix(message, "Syntax error: ")
	if m := unexpectedSymbol.FindStringSubmatch(message); m != nil {
		switch symbol := strings.TrimSpace(m[1]); {
		case strings.HasPrefix(symbol, "="):
			return "unexpected =: write == to compare"
		case strings.HasPrefix(symbol, "&"):
			return "unexpected &: write && for and"
		case strings.HasPrefix(symbol, "|"):
			return "unexpected |: write || for or"
		case strings.ContainsAny(symbol, "“”„‘’"):
			return "unexpected " + clipText(symbol) + `: write straight quotes, "text"`
		case strings.HasPrefix(symbol, `"`), strings.HasPrefix(symbol, "'"):
			return "the text has no closing quote"
		default:
			return "unexpected " + clipText(symbol)
		}
	}
	if m := missingSymbol.FindStringSubmatch(message); m != nil {
		return "expected " + m[1] + " before " + nameInput(m[2])
	}
	if m := unexpectedInput.FindStringSubmatch(message); m != nil {
		switch strings.ToLower(m[1]) {
		case "and":
			return "unexpected " + m[1] + ": write && for and"
		case "or":
			return "unexpected " + m[1] + ": write || for or"
		case "not":
			return "unexpected " + m[1] + ": write ! for not"
		case ">":
			return "unexpected >: write != for not equal"
		case ".in":
			return "unexpected .in: write the name in backticks"
		}
		return "unexpected " + nameInput(m[1])
	}
	switch {
	case strings.HasPrefix(message, "invalid int literal"), strings.HasPrefix(message, "invalid double literal"):
		return "the number is too large"
	case strings.Contains(message, "invalid argument to has() macro"):
		return "has takes a field: has(args.field)"
	case strings.Contains(message, "reserved identifier"):
		return message + ": write another name"
	case strings.Contains(message, "recursion"):
		return "the condition is nested too deep"
	}
	return message
}

func nameInput(input string) string {
	if input == "<EOF>" {
		return "the end of the condition"
	}
	return clipText(input)
}

// explainTypes returns the problems of an expression whose types do not fit.
func (c *checker) explainTypes(tree *ast.AST, issues *cel.Issues) *Error {
	expressions, scopes := make(map[int64]ast.Expr), make(map[int64]*scope)
	c.schema.visitExpressions(tree.Expr(), nil, func(e ast.Expr, in *scope) { expressions[e.ID()], scopes[e.ID()] = e, in })
	for _, issue := range issues.Errors() {
		if e := expressions[issue.ExprID]; e != nil && isMath(e) && len(issues.Errors()) > 1 {
			continue // the function's problem says more
		}
		line, column := c.findName(issue.Location.Line(), issue.Location.Column()+1)
		c.addProblemf(line, column, "%s", c.explainType(expressions[issue.ExprID], scopes[issue.ExprID], issue.Message))
	}
	return c.sortProblems()
}

// isMath reports whether an expression is the name before math.abs and the like.
func isMath(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "math" }

func (c *checker) explainType(e ast.Expr, in *scope, message string) string {
	if m := undefinedField.FindStringSubmatch(message); m != nil {
		return c.explainField(e, in, m[1])
	}
	if m := undeclaredName.FindStringSubmatch(message); m != nil {
		return c.explainName(e, m[1])
	}
	if m := noOverload.FindStringSubmatch(message); m != nil {
		return c.explainOverload(e, m[1], splitTypes(m[2]))
	}
	if m := wrongType.FindStringSubmatch(message); m != nil {
		return "expected " + c.describeType(m[1]) + ", not " + c.describeType(m[2])
	}
	if m := noFields.FindStringSubmatch(message); m != nil {
		return c.describeType(m[1]) + " has no fields"
	}
	if m := noRange.FindStringSubmatch(message); m != nil {
		return "all, exists, exists_one, filter and map need a list, not " + c.describeType(m[1])
	}
	if m := invalidArgument.FindStringSubmatch(message); m != nil {
		return m[1] + ": must be written as " + functionUsage[m[1]]
	}
	return message
}

// explainField returns the message about a field that an object does not have.
func (c *checker) explainField(e ast.Expr, in *scope, field string) string {
	if e != nil && e.Kind() == ast.SelectKind {
		if s := c.schema.shapeOf(e.AsSelect().Operand(), in); s != nil && s.kind == objectKind {
			names := s.fieldNames()
			if len(names) == 0 {
				return s.path + " has no fields"
			}
			return s.path + " has no field " + clipText(field) + suggestName(field, names)
		}
	}
	return "unknown field " + clipText(field)
}

// explainName returns the message about a name that is neither a variable nor a function.
func (c *checker) explainName(e ast.Expr, name string) string {
	if e != nil && e.Kind() == ast.StructKind {
		return "a condition cannot make objects"
	}
	if e != nil && e.Kind() == ast.CallKind {
		if call := e.AsCall(); call.IsMemberFunction() && isMath(call.Target()) {
			name = "math." + name
		}
		if usage := functionUsage[name]; usage != "" { // a macro with other arguments
			return name + " must be called as " + usage
		}
		return "unknown function " + clipText(name) + suggestName(name, slices.Collect(maps.Keys(functionUsage)))
	}
	if c.schema.root.fields[name] != nil {
		return "unknown name " + name + ": did you mean " + joinPath("args", name) + "?"
	}
	switch strings.ToLower(name) {
	case "and", "or", "not":
		return "unknown name " + name + ": write && for and, || for or, ! for not"
	case "true", "false", "null":
		return "unknown name " + name + ": write " + strings.ToLower(name)
	}
	return "unknown name " + clipText(name) + suggestName(name, variables)
}

// explainOverload returns the message about an operator or a function whose operands do not fit.
func (c *checker) explainOverload(e ast.Expr, function string, operands []string) string {
	if _, isOperator := operators.FindReverse(function); !isOperator {
		if usage := functionUsage[function]; usage != "" {
			return function + " must be called as " + usage + ", not with " + c.listTypes(operands)
		}
		return function + " cannot be called with " + c.listTypes(operands)
	}
	if function == operators.Conditional && len(operands) == 3 {
		if operands[0] != "bool" && operands[0] != "dyn" {
			return "expected a boolean before ?, not " + c.describeType(operands[0])
		}
		return "cannot choose between " + c.describeType(operands[1]) + " and " + c.describeType(operands[2])
	}
	symbol, _ := operators.FindReverse(function)
	if len(operands) != 2 {
		return symbol + " cannot be used with " + c.listTypes(operands)
	}
	left, right := operands[0], operands[1]
	if function == operators.In {
		if element, ok := strings.CutPrefix(right, "list("); ok {
			right = strings.TrimSuffix(element, ")")
		} else if !strings.HasPrefix(right, "map(") {
			return "in needs a list on the right, not " + c.describeType(right)
		}
	}
	if left == "null" || right == "null" {
		return c.describeType(firstOf(left == "null", right, left)) + " is never null: test with has(…) whether it is missing"
	}
	if function == operators.Index && c.schema.objects[left] != nil {
		return "the fields of " + c.schema.objects[left].path + " are written with a point: " + c.schema.objects[left].path + ".field"
	}
	message := "cannot " + verbOf(function) + " " + c.describeType(left) + " with " + c.describeType(right)
	if numbers := unwrapType(left) + " " + unwrapType(right); numbers == "double int" || numbers == "int double" {
		return message + hintNumber(e, function)
	}
	return message
}

// hintNumber returns how to write the literal of a comparison between a number and an integer.
func hintNumber(e ast.Expr, function string) string {
	if e == nil || e.Kind() != ast.CallKind {
		return ""
	}
	args := e.AsCall().Args()
	if len(args) != 2 {
		return ""
	}
	literals := args
	if function == operators.In && args[1].Kind() == ast.ListKind {
		literals = args[1].AsList().Elements()
	}
	for _, literal := range literals {
		if literal.Kind() != ast.LiteralKind {
			continue
		}
		switch v := literal.AsLiteral().(type) {
		case types.Int:
			return ": write " + strconv.FormatInt(int64(v), 10) + ".0"
		case types.Double:
			if i, ok := convertDouble(v).(types.Int); ok {
				return ": write " + strconv.FormatInt(int64(i), 10)
			}
			return ": an integer is never " + formatDouble(float64(v))
		}
	}
	if function == operators.In {
		return ""
	}
	return ": convert the integer with double(…)"
}

func verbOf(function string) string {
	switch function {
	case operators.Add:
		return "add"
	case operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo:
		return "calculate"
	case operators.Index:
		return "index"
	}
	return "compare"
}

func firstOf(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

func formatDouble(f float64) string {
	if math.Abs(f) >= 1e21 {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// splitTypes splits the operands in a message: "(double, list(int))" or "string.(int)".
func splitTypes(signature string) []string {
	var list []string
	if at := strings.Index(signature, ".("); at >= 0 && !strings.HasPrefix(signature, "(") {
		list = append(list, signature[:at])
		signature = signature[at+1:]
	}
	if end := strings.LastIndex(signature, ") ->"); end >= 0 {
		signature = signature[:end+1]
	}
	signature = strings.TrimSuffix(strings.TrimPrefix(signature, "("), ")")
	depth, from := 0, 0
	for i, r := range signature {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			list = append(list, strings.TrimSpace(signature[from:i]))
			from = i + 1
		}
	}
	if rest := strings.TrimSpace(signature[from:]); rest != "" {
		list = append(list, rest)
	}
	return list
}

// unwrapType returns the name of a type without null.
func unwrapType(name string) string {
	if inner, ok := strings.CutPrefix(name, "wrapper("); ok {
		return strings.TrimSuffix(inner, ")")
	}
	return name
}

// describeType returns the word for a type of CEL.
func (c *checker) describeType(name string) string {
	switch base := unwrapType(name); base {
	case "double":
		return "a number"
	case "int":
		return "an integer"
	case "string":
		return "a string"
	case "bool":
		return "a boolean"
	case "null":
		return "null"
	case "timestamp", "google.protobuf.Timestamp":
		return "a time"
	case "duration", "google.protobuf.Duration":
		return "a duration"
	case "dyn":
		return "a value of any type"
	default:
		if s := c.schema.objects[base]; s != nil {
			return "the object " + s.path
		}
		switch {
		case strings.HasPrefix(base, "list"):
			return "a list"
		case strings.HasPrefix(base, "map"):
			return "an object"
		}
		return base
	}
}

func (c *checker) listTypes(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = c.describeType(name)
	}
	return strings.Join(words, " and ")
}

// maxListed is the number of names that a message lists.
const maxListed = 12

// suggestName returns the end of a message: the nearest name, or all names if they are few.
func suggestName(name string, names []string) string {
	if nearest := findNearest(name, names); nearest != "" {
		return ": did you mean " + clipText(nearest) + "?"
	}
	if len(names) > maxListed {
		return ""
	}
	names = slices.Sorted(slices.Values(names))
	return ": it must be one of " + clipText(strings.Join(names, ", "))
}

// suggestText is suggestName for values.
func suggestText(text string, values []string) string {
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = strconv.Quote(value)
	}
	if nearest := findNearest(text, values); nearest != "" {
		return ": did you mean " + clipText(strconv.Quote(nearest)) + "?"
	}
	if len(values) > maxListed {
		return ""
	}
	return ": it must be one of " + clipText(strings.Join(quoted, ", "))
}

// findNearest returns the name with the smallest edit distance, or "" if none is near.
func findNearest(name string, names []string) string {
	best, nearest := 2, "" // at most one character differs in a short name, more in a long one
	if length := len([]rune(name)); length > 4 {
		best = max(3, length/3+1)
	}
	for _, candidate := range slices.Sorted(slices.Values(names)) {
		if d := editDistance(strings.ToLower(name), strings.ToLower(candidate), best); d < best && d < len([]rune(candidate)) {
			best, nearest = d, candidate
		}
	}
	return nearest
}

// editDistance returns the number of characters to insert, delete, replace or swap with a neighbor, or at least limit if it is not smaller.
func editDistance(a, b string, limit int) int {
	x, y := []rune(a), []rune(b)
	if len(x)-len(y) >= limit || len(y)-len(x) >= limit {
		return limit
	}
	var before []int
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(x); i++ {
		next := make([]int, len(y)+1)
		next[0] = i
		for j := 1; j <= len(y); j++ {
			same := 1
			if x[i-1] == y[j-1] {
				same = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+same)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(y)]
}
