package rule_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/rule"
)

// One operation is one call that a book with 200 rules about its tool, and 200 about others, judges.
func BenchmarkBook(b *testing.B) {
	conditions := []string{
		`args.text == "payment %d"`,
		`args.text.startsWith("/srv/%d/") && args.text.contains("..")`,
		`agent != "bench" && args.text in ["a%[1]d", "b%[1]d", "c%[1]d"]`,
		`size(args.text) > 1000 + %d`,
	}
	var rules []rule.Rule
	for i := range 200 {
		for _, skill := range []string{"echo", "other"} {
			rules = append(rules, rule.Rule{Revision: 1, Spec: rule.Spec{
				Name: fmt.Sprintf("%s-%d", skill, i), Skills: []string{skill}, When: fmt.Sprintf(conditions[i%len(conditions)], i), Effect: rule.Deny, Mode: rule.Enforce,
			}})
		}
	}
	programs := rule.NewPrograms(time.Now)
	b.Cleanup(programs.Close)
	book := rule.NewBook(1, rules, nil, programs)
	schema := rule.Schema{Pin: [32]byte{1}, JSON: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)}
	subject := rule.Subject{Agent: "bench", Skill: "echo", Tool: "echo"}
	in := &condition.Input{Arguments: json.RawMessage(`{"text":"0123456789012345678901234567890123456789"}`), Agent: "bench", Skill: "echo", Tool: "echo"}
	b.ReportAllocs()
	for b.Loop() {
		found := book.PrepareFor(b.Context(), subject, schema)
		if applied := append(found.Apply(b.Context(), in, nil), make([]rule.Applied, len(found.FindAsks(b.Context(), in)))...); len(applied) > 0 {
			b.Fatal(applied)
		}
	}
}
