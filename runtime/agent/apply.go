package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
)

// Apply makes the registry match the spec, in one transaction, and returns the changes. Skills, agents, rules and policies that the
// spec does not name stay as they are. If the spec lists the skills of an agent, the agent loses all other skills. Applying a spec twice
// changes nothing. With dryRun, nothing is stored. Under dual control, changes that loosen wait for a second operator.
// Errors: *fault.InvalidError.
func (s *Service) Apply(ctx context.Context, by audit.Actor, spec Spec, dryRun bool) ([]Change, error) {
	r := newReport()
	skills, agents := s.checkSpec(r, spec)
	rules := checkRules(r, spec.Rules)
	checkPolicies(r, spec.Policies)
	if err := s.checkConditions(ctx, r.below("rules"), rules...); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	if err := r.err(); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	var hosts []string
	for _, skill := range skills {
		hosts = append(hosts, skill.httpHosts()...)
	}
	public := s.lookUpHosts(ctx, hosts...)
	var changes []Change
	err := s.changeRegistry(ctx, by, dryRun, func(e *edit) error {
		e.public = public
		policies, applied, err := e.applyPolicies(ctx, r, spec.Policies)
		if err != nil {
			return err
		}
		changes = applied
		for i := range spec.Skills {
			if err := e.requirePolicies(ctx, r.below(indexPath("skills", i)), skills[i]); err != nil {
				return err
			}
			list, err := e.applySkill(ctx, spec.Skills[i].Name, skills[i])
			if err != nil {
				return fmt.Errorf("skill %s: %w", spec.Skills[i].Name, err)
			}
			changes = append(changes, list...)
		}
		for i := range spec.Agents {
			list, err := e.applyAgent(ctx, r.below(indexPath("agents", i)), spec.Agents[i], agents[i])
			if err != nil {
				return fmt.Errorf("agent %s: %w", spec.Agents[i].Name, err)
			}
			changes = append(changes, list...)
		}
		list, err := e.applyRules(ctx, r, rules, policies)
		if err != nil {
			return err
		}
		changes = append(changes, list...)
		return r.err()
	})
	if err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	return changes, nil
}

func indexPath(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// checkSpec validates the parts of a spec that need no database.
func (s *Service) checkSpec(r report, spec Spec) ([]*skillState, []*agentState) {
	skills := make([]*skillState, len(spec.Skills))
	names := map[string]bool{}
	for i, skill := range spec.Skills {
		at := r.below(indexPath("skills", i))
		skills[i] = skill.buildState(at)
		skills[i].validate(at, s.limits)
		at.check(!names[skill.Name], "name", fmt.Sprintf("%q is named twice", skill.Name))
		names[skill.Name] = true
	}
	agents := make([]*agentState, len(spec.Agents))
	clear(names)
	for i, a := range spec.Agents {
		at := r.below(indexPath("agents", i))
		agents[i] = a.buildState(at)
		at.check(!names[a.Name], "name", fmt.Sprintf("%q is named twice", a.Name))
		names[a.Name] = true
	}
	return skills, agents
}

func (e *edit) applySkill(ctx context.Context, name string, after *skillState) ([]Change, error) {
	change := Change{Kind: KindSkill, Name: name, Action: ActionCreate}
	row, err := readSkillRow(ctx, e.tx, `s.name = $1`, name)
	if errors.Is(err, ErrNotFound) {
		return e.applyNewSkill(ctx, change, after)
	}
	if err != nil {
		return nil, err
	}
	before, err := row.buildState(e.box)
	if err != nil {
		return nil, err
	}
	change.Action, change.Fields = ActionUpdate, diffFields(before.listFields(), after.listFields())
	if len(change.Fields) == 0 {
		change.Action = ActionUnchanged
		return []Change{change}, nil
	}
	err = e.updateSkill(ctx, row, after, change.Fields)
	e.takeWaiting(&change)
	return []Change{change}, err
}

// applyNewSkill creates a skill. What waits for a second operator is a change of its own.
func (e *edit) applyNewSkill(ctx context.Context, change Change, after *skillState) ([]Change, error) {
	change.Fields = diffFields(nil, after.listFields())
	id, err := e.insertSkill(ctx, change.Name, after)
	if err != nil {
		return nil, err
	}
	if id == uuid.Nil || e.waits == nil { // all of it waits, or nothing
		e.takeWaiting(&change)
		return []Change{change}, nil
	}
	tight, _ := tightenSkill(after)
	change.Fields = diffFields(nil, tight.listFields())
	waiting := Change{Kind: KindSkill, Name: change.Name, Action: ActionUpdate, Fields: diffFields(tight.listFields(), after.listFields())}
	e.takeWaiting(&waiting)
	return []Change{change, waiting}, nil
}

func (e *edit) applyAgent(ctx context.Context, r report, spec AgentSpec, after *agentState) ([]Change, error) {
	change := Change{Kind: KindAgent, Name: spec.Name, Action: ActionUpdate}
	row, before, err := e.readAgentState(ctx, e.tx, `a.name = $1`, spec.Name)
	switch {
	case errors.Is(err, ErrNotFound):
		row, before = &Agent{}, nil
		change.Action = ActionCreate
		row.ID, err = e.insertAgent(ctx, spec.Name, after)
	case err == nil && len(diffFields(before.listFields(), after.listFields())) == 0:
		change.Action = ActionUnchanged
	case err == nil:
		err = e.updateAgent(ctx, row, after, diffFields(before.listFields(), after.listFields()))
	}
	if err != nil {
		return nil, err
	}
	change.Fields = diffFields(before.listFields(), after.listFields())
	changes := []Change{change}
	if spec.Skills == nil {
		return changes, nil
	}
	assignments, err := e.assignAll(ctx, r, row.ID, spec.Name, *spec.Skills)
	return append(changes, assignments...), err
}

// checkRules validates the parts of rules that need no database, and returns them with defaults filled in.
func checkRules(r report, specs []rule.Spec) []rule.Spec {
	rules, names := make([]rule.Spec, len(specs)), map[string]bool{}
	for i, spec := range specs {
		at := r.below(indexPath("rules", i))
		rules[i] = spec.Normalize()
		at.checkRule(rules[i])
		at.check(!names[spec.Name], "name", fmt.Sprintf("%q is named twice", spec.Name))
		names[spec.Name] = true
	}
	return rules
}

// applyRules creates and replaces rules.
func (e *edit) applyRules(ctx context.Context, r report, specs []rule.Spec, policies *versions[policy.Spec]) ([]Change, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	rules, err := e.readRules(ctx)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for i := range specs {
		at := r.below(indexPath("rules", i))
		requirePolicy(at, policies, "policy", specs[i].Policy)
		change, err := rules.set(ctx, at, specs[i].Name, &specs[i])
		if err != nil {
			return nil, err
		}
		e.takeWaiting(&change)
		changes = append(changes, change)
	}
	return changes, nil
}

// checkPolicies validates the parts of policies that need no database.
func checkPolicies(r report, specs []policy.Spec) {
	names := map[string]bool{}
	for i := range specs {
		at := r.below(indexPath("policies", i))
		at.addFields(specs[i].Check())
		at.check(!names[specs[i].Name], "name", fmt.Sprintf("%q is named twice", specs[i].Name))
		names[specs[i].Name] = true
	}
}

// applyPolicies creates and replaces policies, and returns all present ones.
func (e *edit) applyPolicies(ctx context.Context, r report, specs []policy.Spec) (*versions[policy.Spec], []Change, error) {
	policies, err := e.readPolicies(ctx)
	if err != nil {
		return nil, nil, err
	}
	var changes []Change
	for i := range specs {
		change, err := policies.set(ctx, r.below(indexPath("policies", i)), specs[i].Name, &specs[i])
		if err != nil {
			return nil, nil, err
		}
		e.takeWaiting(&change)
		changes = append(changes, change)
	}
	return policies, changes, nil
}
