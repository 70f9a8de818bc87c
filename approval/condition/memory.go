package condition

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Functions of memory: what a condition asks about earlier calls.
const (
	Spent    = "spent"    // the sum of an argument
	Calls    = "calls"    // the number of calls
	Distinct = "distinct" // the number of different values of an argument, with this call's
	After    = "after"    // whether a tool was called in the conversation
)

// Groups of earlier calls. The default is all calls that the rule is about.
const (
	OfAgent     = "agent"     // the calls of the same agent
	OfPrincipal = "principal" // the calls on behalf of the same person
	OfTool      = "tool"      // the calls of the same tool
)

// Limits of windows.
const (
	MinWindow = time.Second
	MaxWindow = 31 * 24 * time.Hour
)

// Query is what a condition asks about earlier calls. Equal queries have the same answer.
type Query struct {
	Function string
	Field    string        // the path of an argument; only of Spent and Distinct
	Window   time.Duration // 0 for After
	Of       string        // a group; empty: all calls that the rule is about
	Tool     string        // a tool, or a skill and a tool: mail/read_inbox; only of After
}

// Answer is what a condition learns from a query.
type Answer struct {
	value ref.Val
	err   error
}

// Answers are the answers to a condition's queries.
type Answers map[Query]Answer

// AnswerYes returns the answer to a query of [After].
func AnswerYes(yes bool) Answer { return Answer{value: types.Bool(yes)} }

// AnswerCount returns the answer to a query of [Calls].
func AnswerCount(n int) Answer { return Answer{value: types.Int(n)} }

// AnswerError returns the answer that fails the condition.
func AnswerError(reason string) Answer { return Answer{err: newValueError("%s", reason)} }

// memoryVariable holds the answers. No condition can name it.
const memoryVariable = "@memory"

// Internal functions, by type of the result. A macro writes them for the functions of memory.
const (
	spentDouble = "@spent_double"
	spentInt    = "@spent_int"
	spentAny    = "@spent_any"
	callsInt    = "@calls"
	distinctInt = "@distinct"
	afterBool   = "@after"
)

// memoryFunctions are the functions of memory by the names that macros write.
//
//nolint:gochecknoglobals // a table
var memoryFunctions = map[string]string{
	spentDouble: Spent, spentInt: Spent, spentAny: Spent, callsInt: Calls, distinctInt: Distinct, afterBool: After,
}

// memory is the value of memoryVariable.
type memory struct {
	ref.Val // null

	answers Answers
}

// declareMemory returns the internal functions of memory. Their arguments are the answers, and the texts of the query.
func declareMemory() []cel.EnvOption {
	options := []cel.EnvOption{cel.Variable(memoryVariable, cel.DynType)}
	for name, result := range map[string]*cel.Type{
		spentDouble: cel.DoubleType, spentInt: cel.IntType, spentAny: cel.DynType, callsInt: cel.IntType, distinctInt: cel.IntType, afterBool: cel.BoolType,
	} {
		options = append(options, cel.Function(name, cel.Overload(strings.TrimPrefix(name, "@")+"_memory",
			[]*cel.Type{cel.DynType, cel.StringType, cel.StringType, cel.StringType}, result,
			cel.FunctionBinding(func(args ...ref.Val) ref.Val {
				known, ok := args[0].(*memory)
				if !ok {
					return types.NewErr("no such overload: %s", memoryFunctions[name])
				}
				query, err := newQuery(memoryFunctions[name], stringOf(args[1]), stringOf(args[2]), stringOf(args[3]))
				if err != nil {
					return types.WrapErr(err)
				}
				answer, answered := known.answers[query]
				switch {
				case !answered:
					return types.WrapErr(newValueError("%s: earlier calls were not read", query.Function))
				case answer.err != nil:
					return types.WrapErr(answer.err)
				}
				return answer.value
			}))))
	}
	return options
}

// newQuery makes the query of an internal function from its texts.
func newQuery(function, subject, window, of string) (Query, error) {
	q := Query{Function: function, Of: of}
	if function == After {
		q.Tool = subject
		return q, nil
	}
	q.Field = subject
	var err error
	q.Window, err = ParseWindow(window)
	return q, err
}

var windowText = regexp.MustCompile(`^([0-9]{1,7})([smhd])$`)

// ParseWindow reads the length of a window: 90s, 15m, 1h, 7d.
func ParseWindow(text string) (time.Duration, error) {
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	m := windowText.FindStringSubmatch(text)
	if m != nil {
		n, err := strconv.Atoi(m[1])
		if window := time.Duration(n) * units[m[2]]; err == nil && window >= MinWindow && window <= MaxWindow {
			return window, nil
		}
	}
	return 0, fmt.Errorf(`the window must be a number of s, m, h or d from 1s to 31d, such as "1h", not %q`, clipText(text))
}

// memoryMacros returns the macros that write the internal functions. The type of a sum is that of the schema's field.
func (s *Schema) memoryMacros() cel.EnvOption {
	call := func(eh cel.MacroExprFactory, name string, subject, window, of string) ast.Expr {
		return eh.NewCall(name, eh.NewIdent(memoryVariable), eh.NewLiteral(types.String(subject)), eh.NewLiteral(types.String(window)), eh.NewLiteral(types.String(of)))
	}
	overField := func(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr, name func(*shape) (string, error)) (ast.Expr, *common.Error) {
		texts, problem := readLiterals(eh, args, "the field", "the window", "the group")
		if problem != nil {
			return nil, problem
		}
		field, err := s.findShape(texts[0])
		var function string
		if err == nil {
			function, err = name(field)
		}
		if err != nil {
			return nil, eh.NewError(args[0].ID(), err.Error())
		}
		return call(eh, function, texts[0], texts[1], texts[2]), checkQuery(eh, args[1:], texts[1], texts[2])
	}
	spent := func(eh cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		return overField(eh, target, args, nameSpent)
	}
	calls := func(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		texts, problem := readLiterals(eh, args, "the window", "the group")
		if problem != nil {
			return nil, problem
		}
		return call(eh, callsInt, "", texts[0], texts[1]), checkQuery(eh, args, texts[0], texts[1])
	}
	distinct := func(eh cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		return overField(eh, target, args, nameDistinct)
	}
	after := func(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		texts, problem := readLiterals(eh, args, "the tool")
		if problem != nil {
			return nil, problem
		}
		if skill, name, both := strings.Cut(texts[0], "/"); skill == "" || both && name == "" {
			return nil, eh.NewError(args[0].ID(), `after takes a tool, or a skill and a tool: after("read_inbox"), after("mail/read_inbox")`)
		}
		return call(eh, afterBool, texts[0], "", ""), nil
	}
	return cel.Macros(
		cel.GlobalMacro(Spent, 2, spent), cel.GlobalMacro(Spent, 3, spent), cel.GlobalMacro(Calls, 1, calls), cel.GlobalMacro(Calls, 2, calls),
		cel.GlobalMacro(Distinct, 2, distinct), cel.GlobalMacro(Distinct, 3, distinct), cel.GlobalMacro(After, 1, after),
	)
}

// readLiterals returns the texts of arguments, and empty ones for those that are left out.
func readLiterals(eh cel.MacroExprFactory, args []ast.Expr, names ...string) ([]string, *common.Error) {
	texts := make([]string, len(names))
	for i, name := range names {
		if i == len(args) {
			break
		}
		if args[i].Kind() == ast.LiteralKind {
			if text, ok := args[i].AsLiteral().(types.String); ok {
				texts[i] = string(text)
				continue
			}
		}
		return nil, eh.NewError(args[i].ID(), name+" must be a text in quotes")
	}
	return texts, nil
}

// checkQuery returns what is wrong with a window, or with a group that may be left out.
func checkQuery(eh cel.MacroExprFactory, args []ast.Expr, window, of string) *common.Error {
	if _, err := ParseWindow(window); err != nil {
		return eh.NewError(args[0].ID(), err.Error())
	}
	groups := []string{OfAgent, OfPrincipal, OfTool}
	if len(args) > 1 && !slices.Contains(groups, of) {
		return eh.NewError(args[1].ID(), fmt.Sprintf("unknown group %q%s", clipText(of), suggestText(of, groups)))
	}
	return nil
}

// nameSpent returns the internal function that sums a field.
func nameSpent(field *shape) (string, error) {
	switch field.kind {
	case numberKind:
		return spentDouble, nil
	case integerKind:
		return spentInt, nil
	case untyped:
		return spentAny, nil
	case stringKind, booleanKind, listKind, mapKind, objectKind:
	}
	return "", fmt.Errorf("spent sums numbers: %s is %s", field.path, field.describeKind())
}

// nameDistinct returns the internal function that counts the values of a field.
func nameDistinct(field *shape) (string, error) {
	item := field
	if field.kind == listKind {
		item = field.elem
	}
	switch item.kind {
	case stringKind, integerKind, numberKind, booleanKind, untyped:
		return distinctInt, nil
	case listKind, mapKind, objectKind:
	}
	return "", fmt.Errorf("distinct counts texts, numbers and booleans: %s is %s", item.path, item.describeKind())
}

// maxFieldDepth bounds the names of a path.
const maxFieldDepth = 20

// findShape returns the shape of the argument with a path, such as amount or payment.amount.
func (s *Schema) findShape(path string) (*shape, error) {
	names := strings.Split(path, ".")
	if slices.Contains(names, "") || len(names) > maxFieldDepth {
		return nil, fmt.Errorf(`the field must be the path of an argument, such as "amount" or "payment.amount", not %q`, clipText(path))
	}
	at := s.root
	for i, name := range names {
		switch at.kind {
		case objectKind:
			field := at.fields[name]
			if field == nil {
				if i == 0 && name == "args" && len(names) > 1 {
					return nil, fmt.Errorf("the field is written without args: %q", clipText(strings.TrimPrefix(path, "args.")))
				}
				return nil, fmt.Errorf("%s has no field %s%s", at.path, clipText(name), suggestName(name, at.fieldNames()))
			}
			at = field
		case mapKind, untyped:
			at = at.elem
		case stringKind, integerKind, numberKind, booleanKind, listKind:
			return nil, fmt.Errorf("%s is %s, and has no field %s", at.path, at.describeKind(), clipText(name))
		}
	}
	return at, nil
}

// isMemory reports whether an expression asks about earlier calls.
func isMemory(e ast.Expr) bool {
	return e.Kind() == ast.CallKind && memoryFunctions[e.AsCall().FunctionName()] != ""
}

// listQueries returns what a checked condition asks about earlier calls.
func listQueries(tree *ast.AST) []Query {
	var queries []Query
	for _, e := range ast.MatchDescendants(ast.NavigateAST(tree), ast.KindMatcher(ast.CallKind)) {
		if !isMemory(e) {
			continue
		}
		var texts []string
		for _, arg := range e.AsCall().Args()[1:] {
			text, _ := arg.AsLiteral().(types.String)
			texts = append(texts, string(text))
		}
		q, err := newQuery(memoryFunctions[e.AsCall().FunctionName()], texts[0], texts[1], texts[2])
		if err == nil && !slices.Contains(queries, q) {
			queries = append(queries, q)
		}
	}
	return queries
}

// Queries returns what the condition asks about earlier calls.
func (p *Program) Queries() []Query { return p.queries }

// Tally computes the answer to a query of [Spent], [Calls] or [Distinct] from the calls that it is about. The zero value is not usable.
type Tally struct {
	query  Query
	names  []string
	root   *shape // of the arguments
	field  *shape
	calls  int
	sum    sum
	values map[string]int
	failed map[string]int // reasons
}

// NewTally makes a tally of no calls. Amounts have the type that the condition's schema gives them.
func (p *Program) NewTally(q Query) *Tally {
	t := &Tally{query: q, root: p.root, values: map[string]int{}, failed: map[string]int{}}
	if q.Field == "" {
		return t
	}
	t.names = strings.Split(q.Field, ".")
	var err error
	if t.field, err = (&Schema{root: p.root}).findShape(q.Field); err != nil { // the condition was compiled for this schema
		t.field = newUntyped(t.path())
	}
	return t
}

func (t *Tally) path() string { return "args." + clipText(t.query.Field) }

// Share is what one call adds to a tally.
type Share struct {
	amount  decimal
	isWhole bool // of an untyped amount
	values  []string
	failure string
}

// DeletedShare is the share of a call whose arguments were deleted.
func (t *Tally) DeletedShare() Share {
	if t.query.Field == "" {
		return Share{}
	}
	return Share{failure: t.query.Function + ": the arguments of an earlier call were deleted by age"}
}

// Read returns the share of a call.
func (t *Tally) Read(arguments json.RawMessage) Share {
	if t.query.Field == "" {
		return Share{}
	}
	s, err := t.readShare(decodeArguments(arguments))
	if err != nil {
		return Share{failure: fmt.Sprintf("%s: %s of an earlier call %s", t.query.Function, t.path(), err)}
	}
	return s
}

// ReadOwn returns the share of the call that is judged.
func (t *Tally) ReadOwn(arguments json.RawMessage) Share {
	s, err := t.readShare(decodeArguments(arguments))
	if err != nil {
		return Share{failure: fmt.Sprintf("%s: %s %s", t.query.Function, t.path(), err)}
	}
	return s
}

// Errors of the arguments of earlier calls.
var (
	errMissing   = errors.New("is missing")
	errNull      = errors.New("is null")
	errNotNumber = errors.New("is no number")
	errNested    = errors.New("is an object, or a list of lists or objects")
	errSimilar   = errors.New("is given under a name that differs only in case, _ or -")
)

func (t *Tally) readShare(n *node) (Share, error) {
	n, err := findNode(n, t.root, t.names)
	if err != nil {
		return Share{}, err
	}
	if t.query.Function == Distinct {
		values, err := listValues(n, true)
		return Share{values: values}, err
	}
	switch {
	case n == nil:
		return Share{}, errMissing
	case n.kind == 'n':
		return Share{}, errNull
	case n.kind != '0':
		return Share{}, errNotNumber
	}
	text, whole := n.text, false
	switch t.field.kind {
	case integerKind:
		i, err := parseInteger(text)
		if err != nil {
			return Share{}, err
		}
		text = strconv.FormatInt(i, 10)
	case numberKind:
		if _, err := parseDouble(text); err != nil {
			return Share{}, err
		}
	case untyped, stringKind, booleanKind, listKind, mapKind, objectKind:
		value, err := parseUntyped(text)
		if err != nil {
			return Share{}, err
		}
		_, whole = value.(types.Int)
	}
	amount, ok := readDecimal(text)
	if !ok {
		return Share{}, errNumberRange
	}
	return Share{amount: amount, isWhole: whole}, nil
}

// findNode returns the value at a path, or nil. It has the same doubts about similar names as conditions have.
func findNode(n *node, s *shape, names []string) (*node, error) {
	for _, name := range names {
		switch {
		case n.kind == invalid:
			return nil, n.bad
		case n.kind != '{':
			return nil, nil //nolint:nilnil // there is no such value
		}
		if s == nil {
			s = newUntyped("")
		}
		for _, other := range n.names {
			if other != name && s.confuses(other, name) {
				return nil, errSimilar
			}
		}
		child := n.findMember(name)
		if child == nil {
			return nil, nil //nolint:nilnil // there is no such value
		}
		n, s = child, s.memberShape(name)
	}
	if n.kind == invalid {
		return nil, n.bad
	}
	return n, nil
}

// confuses reports whether a server may take one name of an object for another.
func (s *shape) confuses(other, name string) bool {
	if s.kind == objectKind {
		return s.fields[other] == nil && foldName(other) == foldName(name)
	}
	return foldCase(other) == foldCase(name)
}

// longestValue is the number of bytes of a text from which its hash stands for it.
const longestValue = 64

// listValues returns the keys of the different values in a scalar or a list of scalars. Null and a missing value have none.
func listValues(n *node, lists bool) ([]string, error) {
	switch {
	case n == nil || n.kind == 'n':
		return nil, nil
	case n.kind == invalid:
		return nil, n.bad
	case n.kind == '"':
		text := stringOf(n.scalar)
		if len(text) > longestValue {
			hash := sha256.Sum256([]byte(text))
			return []string{"#" + string(hash[:])}, nil
		}
		return []string{`"` + text}, nil
	case n.kind == 't' || n.kind == 'f':
		return []string{string(rune(n.kind))}, nil
	case n.kind == '0':
		d, ok := readDecimal(n.text)
		if !ok || len(d.digits) > longestValue {
			return nil, errNumberRange
		}
		return []string{fmt.Sprintf("0%t %s e%d", d.negative, d.digits, d.exponent)}, nil
	case n.kind == '[' && lists:
		var values []string
		for _, child := range n.children {
			more, err := listValues(child, false)
			if err != nil {
				return nil, err
			}
			values = append(values, more...)
		}
		slices.Sort(values)
		return slices.Compact(values), nil
	}
	return nil, errNested
}

// Add counts a call.
func (t *Tally) Add(s Share) { t.count(s, 1) }

// Remove takes a call away that was added.
func (t *Tally) Remove(s Share) { t.count(s, -1) }

func (t *Tally) count(s Share, n int) {
	t.calls += n
	switch {
	case s.failure != "":
		addCount(t.failed, s.failure, n)
	case t.query.Function == Spent:
		t.sum.add(s.amount, n, s.isWhole)
	default:
		for _, value := range s.values {
			addCount(t.values, value, n)
		}
	}
}

func addCount(counts map[string]int, key string, n int) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

// Answer returns the answer for the calls that were added. It is an error if the share of any of them could not be read.
func (t *Tally) Answer() Answer {
	for reason := range t.failed {
		return AnswerError(reason)
	}
	switch t.query.Function {
	case Calls:
		return AnswerCount(t.calls)
	case Distinct:
		return AnswerCount(len(t.values))
	}
	value, err := t.sum.makeValue(t.field.kind)
	if err != nil {
		return AnswerError("spent: the sum of " + t.path() + " " + err.Error())
	}
	return Answer{value: value}
}

// sum is an exact sum of decimal numbers: whole × 10^exponent.
type sum struct {
	whole     big.Int
	exponent  int
	fractions int // untyped amounts that are doubles
}

// add adds an amount n times.
func (s *sum) add(d decimal, n int, isWhole bool) {
	if !isWhole {
		s.fractions += n
	}
	if d.digits == "" {
		return
	}
	var amount big.Int
	amount.SetString(d.digits, 10)
	if d.negative {
		n = -n
	}
	if d.exponent < s.exponent {
		s.whole.Mul(&s.whole, powerOfTen(s.exponent-d.exponent))
		s.exponent = d.exponent
	} else if d.exponent > s.exponent {
		amount.Mul(&amount, powerOfTen(d.exponent-s.exponent))
	}
	if n < 0 {
		s.whole.Sub(&s.whole, &amount)
	} else {
		s.whole.Add(&s.whole, &amount)
	}
}

func powerOfTen(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// makeValue returns the sum as a number of the type that a field has. The same numbers have a value as in arguments.
func (s *sum) makeValue(field kind) (ref.Val, error) {
	text := s.whole.String()
	if field == integerKind || field == untyped && s.fractions == 0 {
		if s.exponent != 0 {
			text += "e" + strconv.Itoa(s.exponent)
		}
		i, err := parseInteger(text)
		if err == nil && field == untyped && (i <= -exactBound || i >= exactBound) {
			err = errUntypedNumber
		}
		return types.Int(i), err
	}
	if s.exponent != 0 {
		text += "e" + strconv.Itoa(s.exponent)
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return nil, errNumberRange
	case !isExact(text, f):
		return nil, errInexact
	case field == untyped && (f <= -exactBound || f >= exactBound):
		return nil, errUntypedNumber
	}
	return types.Double(f + 0), nil
}
