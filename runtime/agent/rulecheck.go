package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/rule"
)

// RuleCheck is the comparison of a rule's condition with the tools that the rule is about.
type RuleCheck struct {
	// Problems are mistakes for arguments of any shape. Then the condition was not compared with the tools.
	Problems []condition.Problem
	Tools    []ToolCheck // by skill and name
}

// ToolCheck is the comparison of a condition with the input schema of a tool.
type ToolCheck struct {
	Skill, Tool string
	Fields      []condition.Field // the arguments that its calls have
	Problems    []condition.Problem
}

// Warnings returns the warnings about a stored rule that was checked.
func (c *RuleCheck) Warnings(name string) []RuleWarning {
	var warnings []RuleWarning
	for _, t := range c.Tools {
		if len(t.Problems) > 0 {
			warnings = append(warnings, RuleWarning{name, t.Skill, t.Tool, (&condition.Error{Problems: t.Problems}).Error()})
		}
	}
	return warnings
}

// CheckSpec reports the invalid fields of a rule. Error: *fault.InvalidError.
func (s *Service) CheckSpec(spec rule.Spec) error {
	r := newReport()
	r.checkRule(spec.Normalize())
	return r.err()
}

// CheckRule compares the condition of a rule with the present definitions of the tools that the rule is about. It stores nothing, and does
// not look at the rule's name, effect, mode and message. Errors: *fault.InvalidError about the scope or the length of the condition.
func (s *Service) CheckRule(ctx context.Context, spec rule.Spec) (RuleCheck, error) {
	spec = rule.Spec{Name: "checked", Agents: spec.Agents, Skills: spec.Skills, Tools: spec.Tools, When: spec.When, Effect: rule.Park}.Normalize()
	r := newReport()
	for _, f := range spec.Check() {
		r.add(f.Name, f.Expected)
	}
	if err := r.err(); err != nil {
		return RuleCheck{}, fmt.Errorf("check rule: %w", err)
	}
	untyped, err := condition.ReadSchema(nil)
	if err != nil {
		return RuleCheck{}, fmt.Errorf("check rule: %w", err)
	}
	found := RuleCheck{Problems: findProblems(untyped, spec.When)}
	tools, err := s.findCovered(ctx, []rule.Spec{spec})
	if err != nil {
		return RuleCheck{}, fmt.Errorf("check rule: %w", err)
	}
	for _, t := range tools {
		schema, err := condition.ReadSchema(t.schema.JSON)
		if err != nil {
			return RuleCheck{}, fmt.Errorf("check rule for tool %s of skill %s: %w", t.name, t.skill, err)
		}
		check := ToolCheck{Skill: t.skill, Tool: t.name, Fields: schema.Fields()}
		if len(found.Problems) == 0 {
			check.Problems = findProblems(schema, spec.When)
		}
		found.Tools = append(found.Tools, check)
	}
	return found, nil
}

// findProblems returns the mistakes of a condition for the arguments of a schema.
func findProblems(schema *condition.Schema, when string) []condition.Problem {
	if when == "" {
		return nil
	}
	_, err := schema.Compile(when)
	if mistakes, ok := errors.AsType[*condition.Error](err); ok {
		return mistakes.Problems
	} else if err != nil {
		return []condition.Problem{{Line: 1, Column: 1, Message: err.Error()}}
	}
	return nil
}
