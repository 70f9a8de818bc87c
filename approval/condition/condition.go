package condition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Limits of conditions. The cost limit is that of Kubernetes for one expression.
const (
	MaxSource = 4096 // bytes
	MaxCost   = 1_000_000
	MaxTime   = 50 * time.Millisecond // of the loops of one evaluation
	MaxPaths  = 64                    // elements of context.paths
	MaxPath   = 4096                  // bytes of a path that within reads
)

// interruptEvery is the number of iterations of a loop between two looks at the clock.
const interruptEvery = 100

// Error lists all problems of a condition.
type Error struct{ Problems []Problem }

// Problem is a mistake in a condition.
type Problem struct {
	Line, Column int // from 1, in characters
	Message      string
}

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (p Problem) String() string { return fmt.Sprintf("%d:%d: %s", p.Line, p.Column, p.Message) }

// Program is a compiled condition. It is safe for concurrent use.
type Program struct {
	source     string
	root       *shape
	program    cel.Program
	shortcut   shortcut
	loops      bool
	references References
	queries    []Query
}

// Schema is the input schema of a tool, as types of conditions. It is safe for concurrent use. Conditions that are compiled with the same
// Schema share the conversion of a call's arguments.
type Schema struct {
	root    *shape
	env     *cel.Env
	objects map[string]*shape
}

// ReadSchema reads a JSON Schema. Without a schema the arguments have any type; so has each part of them about which the schema says nothing
// that CEL can express. A condition that compiles for some schema also compiles without one.
func ReadSchema(schema json.RawMessage) (*Schema, error) {
	reader := &schemaReader{objects: map[string]*shape{}}
	s := &Schema{root: newUntyped("args"), objects: reader.objects}
	if len(schema) > 0 {
		root, err := decodeSchema(schema)
		if err != nil {
			return nil, fmt.Errorf("input schema: %w", err)
		}
		reader.root = root
		s.root = reader.readShape([]part{{schema: root}}, "args", 1)
	}
	addShape(reader.objects, principalShape)
	addShape(reader.objects, claimedShape)
	addShape(reader.objects, contextShape)
	base, err := baseEnv()
	if err != nil {
		return nil, err
	}
	s.env, err = base.Extend(
		cel.CustomTypeProvider(&provider{types.NewEmptyRegistry(), s.objects}),
		cel.Variable("args", s.root.celType()),
		s.memoryMacros(),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare conditions: %w", err)
	}
	return s, nil
}

//nolint:gochecknoglobals // the functions and variables of all conditions, declared once
var baseEnv = sync.OnceValues(func() (*cel.Env, error) {
	types.LabelErrNode(1, types.NoSuchOverloadErr()) // the interpreter would label this shared error at its first use, a data race
	options := append(append(declareFunctions(), declareMemory()...),
		cel.CustomTypeAdapter(adapter{types.DefaultTypeAdapter}),
		cel.Variable("agent", cel.StringType),
		cel.Variable("skill", cel.StringType),
		cel.Variable("tool", cel.StringType),
		cel.Variable("principal", principalShape.celType()),
		cel.Variable("claimed", claimedShape.celType()),
		cel.Variable("context", contextShape.celType()),
		cel.Variable("now", cel.TimestampType),
		cel.EnableIdentifierEscapeSyntax(),
		cel.EnableErrorOnBadPresenceTest(true),
		cel.EnableMacroCallTracking(),
		cel.ParserRecursionLimit(100),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	)
	env, err := cel.NewCustomEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("prepare conditions: %w", err)
	}
	return env, nil
})

// Compile reads a condition for a tool with this input schema. Its error is an *[Error] if the condition is at fault.
func Compile(source string, schema json.RawMessage) (*Program, error) {
	s, err := ReadSchema(schema)
	if err != nil {
		return nil, err
	}
	return s.Compile(source)
}

// Compile reads a condition. Its error is an *[Error] if the condition is at fault.
func (s *Schema) Compile(source string) (*Program, error) {
	if len(source) > MaxSource {
		return nil, &Error{[]Problem{{1, 1, fmt.Sprintf("a condition must have at most %d bytes, not %d", MaxSource, len(source))}}}
	}
	c := &checker{schema: s, source: []rune(source)}
	parsed, issues := s.env.Parse(source)
	if issues.Err() != nil {
		return nil, c.explainSyntax(issues)
	}
	checked, issues := s.env.Check(parsed)
	if issues.Err() != nil {
		return nil, c.explainTypes(parsed.NativeRep(), issues)
	}
	tree := checked.NativeRep()
	c.checkTree(tree)
	if len(c.problems) > 0 {
		return nil, c.sortProblems()
	}
	count, err := s.checkCost(checked)
	if err != nil {
		return nil, err
	}
	options := []cel.ProgramOption{cel.CustomDecoratorV2(boundMatches), cel.EvalOptions(cel.OptOptimize)}
	limited := count || hasLoop(tree) || callsMatches(tree)
	if limited {
		options = append(options, cel.CostLimit(MaxCost), cel.InterruptCheckFrequency(interruptEvery))
	}
	program, err := s.env.Program(checked, options...)
	if err != nil {
		return nil, &Error{[]Problem{{1, 1, err.Error()}}}
	}
	return &Program{
		source: source, root: s.root, program: program, shortcut: newShortcut(tree.Expr(), limited), loops: hasLoop(tree),
		references: listReferences(s, tree), queries: listQueries(tree),
	}, nil
}

func hasLoop(tree *ast.AST) bool {
	return len(ast.MatchDescendants(ast.NavigateAST(tree), ast.KindMatcher(ast.ComprehensionKind))) > 0
}

// callsMatches reports whether a condition searches for patterns, whose cost the estimate does not know.
func callsMatches(tree *ast.AST) bool {
	return len(ast.MatchDescendants(ast.NavigateAST(tree), ast.FunctionMatcher(overloads.Matches))) > 0
}

// Source returns the text of the condition.
func (p *Program) Source() string { return p.source }

// References returns what the condition reads and calls.
func (p *Program) References() References { return p.references }

// Errors of [Program.Match] that tell more than that a value could not be used.
var (
	ErrCost     = errors.New("the condition costs more than its limit")
	ErrTime     = errors.New("the condition takes too long")
	ErrNoAnswer = errors.New("the condition is neither true nor false")
)

// Match reports whether the condition holds for a call. Everything that prevents a clear answer is an error: a value that is missing, lost
// or of another type, a query without an answer, a cost above [MaxCost], loops that take longer than [MaxTime].
func (p *Program) Match(ctx context.Context, in *Activation, known Answers) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if answer, ok := p.shortcut.computeValue(in, p.root).(types.Bool); ok {
		return bool(answer), nil
	}
	return p.interpretCondition(ctx, in, known)
}

// interpretCondition is [Program.Match] without the shortcut.
func (p *Program) interpretCondition(ctx context.Context, in *Activation, known Answers) (bool, error) {
	out, err := p.runProgram(ctx, &bindings{in, p.root, known})
	if err != nil {
		return false, p.explainEvaluation(err)
	}
	answer, ok := out.(types.Bool)
	if !ok {
		return false, ErrNoAnswer
	}
	return bool(answer), nil
}

// runProgram runs the program. Only loops look at the clock; everything else is bounded by the length of the condition and its cost.
func (p *Program) runProgram(ctx context.Context, vars *bindings) (ref.Val, error) {
	if !p.loops {
		out, _, err := p.program.Eval(vars)
		return out, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, MaxTime, ErrTime)
	defer cancel()
	out, _, err := p.program.ContextEval(ctx, vars)
	return out, err
}

// Messages of the library. The others may contain a value of the call, which could be a secret.
var (
	noOperator = regexp.MustCompile(`^no such overload(?:: (\S+))?`)
	noKey      = regexp.MustCompile(`^no such key: (.*)$`)
	safe       = regexp.MustCompile(`^(integer overflow|division by zero|modulus by zero|timestamp overflow|duration overflow|index out of bounds)`)
)

// explainEvaluation returns the reason why a condition has no answer, without values of the call.
func (p *Program) explainEvaluation(err error) error {
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && cancelled.Cause == interpreter.CostLimitExceeded {
		return ErrCost
	}
	if ours, ok := errors.AsType[*valueError](err); ok {
		return ours
	}
	for _, end := range []error{ErrTime, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return end
		}
	}
	message := err.Error()
	if m := noOperator.FindStringSubmatch(message); m != nil {
		name := "an operator or function"
		if symbol, ok := operators.FindReverse(m[1]); ok && symbol != "" {
			name = symbol
		} else if m[1] != "" {
			name = m[1]
		}
		return newValueError("%s cannot be used with values of these types", name)
	}
	if m := noKey.FindStringSubmatch(message); m != nil {
		if strings.Contains(p.source, m[1]) {
			return newValueError("no such key: %s", m[1])
		}
		return newValueError("no such key")
	}
	if m := safe.FindString(message); m != "" {
		return newValueError("%s", m)
	}
	return newValueError("an operation has no result for these values")
}

// valueError says why a value cannot be used. Its text has no values of the call.
type valueError struct{ text string }

func newValueError(format string, args ...any) error {
	return &valueError{fmt.Sprintf(format, args...)}
}

func (e *valueError) Error() string { return e.text }
