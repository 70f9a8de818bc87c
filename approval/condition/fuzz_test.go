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
	for _, source := range []string{
		`size(args.memo) > 1000 + 5 || args.memo.startsWith("a")`, `agent != "bot" && args.currency in ["EUR", "USD"]`, `now.getHours("Europe/Berlin") < 8 && !args.ok`,
		`has(args.memo) && args.memo == null`, `principal.email.endsWith("@example.com") || has(claimed.read_only)`, `args.any == 1.5 || args.any * 2.0 > 3.0`,
		`args.to.exists(a, a == "x") && args.count - 1 < 9`, `args.count == 1 && args.to.exists(a, a == "x")`,
	} {
		f.Add(source, `{"amount":2000.5,"count":3,"memo":"a","ok":true,"currency":"EUR","to":["a"],"any":1.5}`, true)
		f.Add(source, `{"memo":null,"Currency":"EUR","currency":"EUR","count":9223372036854775808,"to":["x"],"any":9007199254740993}`, false)
	}
	for _, source := range []string{`args.`, `args.amount > `, "args.`a b` == 1", `args.any.x[0]["y"] == {"a": [1]}`, `1.0 in [args.amount]`, `args.memo.matches("(a+)+$")`} {
		f.Add(source, `{"any":{"x":[{"y":{"a":[1]}}]}}`, false)
	}
	for _, arguments := range []string{`{}`, `[]`, `{"amount":1,"amount":2}`, "{\"memo\":\"\xff\"}", `{"any":{"a":{"a":{"a":1e999}}}}`, `{"count":1e2,"amount":-0.0}`} {
		f.Add(`args.amount <= 100.0 || args.count > 1`, arguments, true)
	}
	for _, source := range []string{
		`spent("amount", "1h") + args.amount <= 5000.0`, `spent("count", "7d", "agent") < 10 && args.count > 0`, `calls("1m", "principal") > 3 || args.ok`,
		`distinct("to", "1d", "tool") <= 3`, `after("mail/read_inbox") && !after("x")`, `spent("any.x", "1h") == 1 || calls("1h") in [1, 2]`,
		`args.to.exists(a, distinct("to", "1h") > size(a)) ? spent("amount", "1h") > 1.0 : calls("1h") == 0`,
	} {
		f.Add(source, `{"amount":2000.5,"count":3,"to":["a"],"any":{"x":1}}`, true)
		f.Add(source, `{"amount":1e308,"Amount":1,"count":9223372036854775807,"to":null,"any":{"x":9007199254740993}}`, false)
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
		known := answerAll(program, arguments, arguments, `{"amount":1.5,"count":2,"to":["ada@example.com"]}`)
		holds, err := program.Match(t.Context(), activation, known)
		not, notErr := opposite.Match(t.Context(), activation, known)
		if isLimit(err) || isLimit(notErr) {
			return
		}
		if without, withoutErr := program.Interpret(t.Context(), activation, known); without != holds || (withoutErr == nil) != (err == nil) {
			t.Fatalf("%q is %t (%v) with the shortcut, %t (%v) without, for %s", source, holds, err, without, withoutErr, arguments)
		}
		if (err == nil) != (notErr == nil) || err == nil && holds == not || err != nil && (holds || not) {
			t.Fatalf("%q is %t (%v), its opposite %t (%v), for %s", source, holds, err, not, notErr, arguments)
		}
		if blind, blindErr := program.Match(t.Context(), activation, nil); blindErr == nil && !isLimit(err) && (err != nil || blind != holds) {
			t.Fatalf("%q is %t without earlier calls, and %t (%v) with them, for %s", source, blind, holds, err, arguments)
		}
		failed := condition.Answers{}
		for q := range known {
			failed[q] = condition.AnswerError("deleted")
		}
		if blind, blindErr := program.Match(t.Context(), activation, failed); len(known) > 0 && blindErr == nil && (err != nil || blind != holds) {
			t.Fatalf("%q is %t after earlier calls that cannot be read, and %t (%v) otherwise, for %s", source, blind, holds, err, arguments)
		}
		if !slices.ContainsFunc(program.References().Fields, readsPrincipal) {
			in.Principal = nil
			without, withoutErr := program.Match(t.Context(), condition.NewActivation(in), known)
			if !isLimit(withoutErr) && (without != holds || (withoutErr == nil) != (err == nil)) {
				t.Fatalf("%q depends on the principal, and does not say so: %q", source, program.References().Fields)
			}
		}
		again, againErr := program.Match(t.Context(), condition.NewActivation(in), known)
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
