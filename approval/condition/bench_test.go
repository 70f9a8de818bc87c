package condition_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/approval/condition"
)

// One operation is one call that 200 conditions judge, its decoding included: with shortcuts, and by the interpreter alone.
func BenchmarkRules(b *testing.B) {
	b.Run("shortcut", func(b *testing.B) { benchmarkRules(b, (*condition.Program).Match) })
	b.Run("interpreter", func(b *testing.B) { benchmarkRules(b, (*condition.Program).Interpret) })
}

func benchmarkRules(b *testing.B, match func(*condition.Program, context.Context, *condition.Activation, condition.Answers) (bool, error)) {
	b.Helper()
	schema := readSchema(b, oracleSchema)
	sources := []string{
		`args.amount <= 100.0 && args.currency == "EUR"`,
		`args.amount > %d.0`,
		`args.currency in ["USD", "GBP"] && args.count > %d`,
		`agent == "bot-%d"`,
		`args.to.all(a, domain(a) == "example-%d.com")`,
		`now.getHours("Europe/Berlin") < 6 && args.amount > %d.0`,
		`has(args.memo) && args.memo != null && args.memo.startsWith("%d")`,
		`within(args.path, "/srv/agent-%d")`,
	}
	const rules = 200
	programs := make([]*condition.Program, rules)
	for i := range programs {
		source := sources[i%len(sources)]
		if i%len(sources) != 0 {
			source = fmt.Sprintf(source, i)
		}
		programs[i] = mustCompile(b, schema, source)
	}
	in := &condition.Input{
		Arguments: json.RawMessage(`{"amount":99.5,"count":3,"currency":"EUR","memo":"invoice 7","ok":true,"to":["ada@example.com","bob@example.com"],"path":"/srv/agent/a.txt"}`),
		Agent:     "bot", Skill: "ledger", Tool: "post_payment", Now: time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC),
	}
	b.ReportAllocs()
	for b.Loop() {
		activation := condition.NewActivation(in)
		for _, p := range programs {
			if _, err := match(p, b.Context(), activation, nil); err != nil {
				b.Fatal(p.Source(), err)
			}
		}
	}
}

// One operation is one earlier call that a sum counts.
func BenchmarkTally(b *testing.B) {
	p := mustCompile(b, readSchema(b, `{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}`), `spent("n", "1h") > 0.0`)
	arguments := json.RawMessage(`{"n" : 5, "currency" : "EUR", "iban" : "DE89370400440532013000", "text" : "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`)
	tally := p.NewTally(p.Queries()[0])
	b.ReportAllocs()
	for b.Loop() {
		tally.Add(tally.Read(arguments))
	}
}
