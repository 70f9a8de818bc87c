package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// ruleCount is the number of rules about the called tool.
const ruleCount = 200

// measureRules compares an auto-approved call without rules with one that rules are about. No rule matches.
func measureRules(ctx context.Context, s *stage) error {
	clients, err := connectClients(ctx, s.openTarget(), 1, 1, 1)
	if err != nil {
		return err
	}
	defer clients.close()
	length := choose(s.bench, 2500*time.Millisecond, 300*time.Millisecond)
	rounds := map[string]series{}
	for round := range choose(s.bench, 10, 4) {
		for _, mode := range []string{"off", "enforce"} {
			if err := s.setRules(ctx, mode); err != nil {
				return err
			}
			if _, err := s.driveCalls(ctx, clients.wires, length/5); err != nil { // compiles the conditions
				return err
			}
			one, err := s.driveCalls(ctx, clients.wires, length)
			if err != nil {
				return err
			}
			if round > 0 { // the first one warms up
				rounds[mode] = append(rounds[mode], one)
			}
		}
	}
	r := &s.report
	none, some := rounds["off"].valuesOf(p50), rounds["enforce"].valuesOf(p50)
	r.addMedian("rules", "1 client, without rules: p50", "µs", none)
	r.addMedian("rules", fmt.Sprintf("1 client, with %d rules about the tool: p50", ruleCount), "µs", some)
	r.addFigure("rules", "with / without rules: p50", "ratio", median(some)/median(none)).addSpread(divideRounds(some, none)).aimAtMost(1.05)
	return nil
}

// setRules declares the rules with one mode.
func (s *stage) setRules(ctx context.Context, mode string) error {
	conditions := []string{
		`args.text == "payment %d"`,
		`args.text.startsWith("/srv/%d/") && args.text.contains("..")`,
		`agent != "bench" && args.text in ["a%[1]d", "b%[1]d", "c%[1]d"]`,
		`size(args.text) > 1000 + %d`,
	}
	rules := make([]any, ruleCount)
	for i := range rules {
		rules[i] = map[string]any{
			"name": fmt.Sprintf("rule-%d", i), "skills": []string{"echo"}, "effect": "deny", "mode": mode,
			"when": fmt.Sprintf(conditions[i%len(conditions)], i),
		}
	}
	_, err := s.api.Send(ctx, http.MethodPost, "/api/v1/apply", map[string]any{"spec": map[string]any{"rules": rules}})
	return err
}
