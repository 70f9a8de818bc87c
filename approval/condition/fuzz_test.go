package condition_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/approval/condition"
)

// Whatever the condition and the arguments are, the answer is clear or an error: a condition and its opposite are never both true, and an error of
// one is an error of the other.
func FuzzMatch(f *testing.F) {
	for _, r := range oracleRules() {
		f.Add(r.source, `{"amount":9007199254740993,"count":-0,"currency":"EUR","memo":null,"to":["ada@example.com"],"any":[1e400],"items":[{"price":1}]}`, !r.untyped)
	}
	for _, source := range []string{`args.`, `args.amount > `, "args.`a b` == 1", `args.any.x[0]["y"] == {"a": [1]}`, `1.0 in [args.amount]`, `args.memo.matches("(a+)+$")`} {
		f.Add(source, `{"any":{"x":[{"y":{"a":[1]}}]}}`, false)
	}
	for _, arguments := range []string{`{}`, `[]`, `{"amount":1,"amount":2}`, "{\"memo\":\"\xff\"}", `{"any":{"a":{"a":{"a":1e999}}}}`, `{"count":1e2,"amount":-0.0}`} {
		f.Add(`args.amount <= 100.0 || args.count > 1`, arguments, true)
	}
	schema := readSchema(f, oracleSchema)
	anything := readSchema(f, "")
	f.Fuzz(func(t *testing.T, source, arguments string, isTyped bool) {
		against := anything
		if isTyped {
			against = schema
		}
		program, err := against.Compile(source)
		if err != nil {
			checkProblems(t, source, err)
			return
		}
		opposite, err := against.Compile("!(" + source + ")")
		if err != nil {
			return // too long or too deep
		}
		in := withArguments(arguments)
		in.Principal = &condition.Principal{ID: "1", Groups: []string{"finance"}}
		activation := condition.NewActivation(in)
		holds, err := program.Match(t.Context(), activation, nil)
		not, notErr := opposite.Match(t.Context(), activation, nil)
		if isLimit(err) || isLimit(notErr) {
			return
		}
		if (err == nil) != (notErr == nil) || err == nil && holds == not || err != nil && (holds || not) {
			t.Fatalf("%q is %t (%v), its opposite %t (%v), for %s", source, holds, err, not, notErr, arguments)
		}
		if !slices.ContainsFunc(program.References().Fields, readsPrincipal) {
			in.Principal = nil
			without, withoutErr := program.Match(t.Context(), condition.NewActivation(in), nil)
			if !isLimit(withoutErr) && (without != holds || (withoutErr == nil) != (err == nil)) {
				t.Fatalf("%q depends on the principal, and does not say so: %q", source, program.References().Fields)
			}
		}
		again, againErr := program.Match(t.Context(), condition.NewActivation(in), nil)
		if !isLimit(againErr) && (again != holds || (againErr == nil) != (err == nil)) {
			t.Fatalf("%q is %t (%v), then %t (%v), for %s", source, holds, err, again, againErr, arguments)
		}
		if !json.Valid([]byte(arguments)) && err == nil && len(program.References().Fields) == 1 && program.References().Fields[0] == "args.amount" {
			t.Fatalf("%q is %t for arguments that are not JSON: %q", source, holds, arguments)
		}
	})
}

func readsPrincipal(path string) bool {
	return path == "principal" || strings.HasPrefix(path, "principal.") || strings.HasPrefix(path, "principal[")
}

func isLimit(err error) bool {
	return errors.Is(err, condition.ErrCost) || errors.Is(err, condition.ErrTime)
}

func checkProblems(t *testing.T, source string, err error) {
	t.Helper()
	var problems *condition.Error
	if !errors.As(err, &problems) || len(problems.Problems) == 0 {
		t.Fatalf("%q: %v is no list of problems", source, err)
	}
	for _, p := range problems.Problems {
		if p.Line < 1 || p.Column < 1 || p.Message == "" {
			t.Fatalf("%q: the problem %+v has no place or no message", source, p)
		}
	}
}
