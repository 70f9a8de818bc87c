package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Apply makes the registry match the spec, in one transaction, and returns the changes. Skills, agents, rules and policies that the
// spec does not name stay as they are, unless the spec prunes those with its label. If the spec lists the skills of an agent, the agent loses all other skills. Applying a spec twice
// changes nothing. With dryRun, nothing is stored. Under dual control, changes that loosen wait for a second operator.
// Errors: *fault.InvalidError, with all errors of the spec.
func (s *Service) Apply(ctx context.Context, by audit.Actor, spec Spec, dryRun bool) ([]Change, error) {
	a := newApplication(spec)
	for i := range a.skills {
		if err := a.keepStoredOfSkill(ctx, s, i); err != nil {
			return nil, fmt.Errorf("apply: %w", err)
		}
	}
	a.check(s.limits)
	if err := a.checkConditions(ctx, s); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	var hosts []string
	for i, skill := range a.skills {
		if !a.faulty[indexPath("skills", i)] {
			hosts = append(hosts, skill.httpHosts()...)
		}
	}
	public := s.lookUpHosts(ctx, hosts...)
	var changes []Change
	err := s.changeRegistry(ctx, by, dryRun, func(e *edit) error {
		e.public = public
		made, err := a.applyTo(ctx, e)
		changes = made
		return cmp.Or(err, a.err())
	})
	if err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	return changes, nil
}

// CheckSpec returns the invalid fields of a spec that are found without a server. It lets skills run any program.
func CheckSpec(spec Spec) []fault.Field {
	a := newApplication(spec)
	a.check(limits{stdio: tool.StdioPolicy{On: true, Allow: [][]string{{}}}})
	return *a.fields
}

// application is a spec that is applied. A part that has an error is left out, so that the errors of the others are found too.
type application struct {
	report
	spec   Spec
	skills []*skillState
	agents []*agentState
	rules  []rule.Spec
	stored map[string][]string // secrets that stay as they are, by the path of their part
	faulty map[string]bool     // paths of parts that have an error
}

func newApplication(spec Spec) *application {
	a := &application{report: newReport(), spec: spec, stored: map[string][]string{}, faulty: map[string]bool{}}
	for i := range spec.Skills {
		a.inPart("skills", i, func(at report) { a.skills = append(a.skills, spec.Skills[i].buildState(at)) })
	}
	for i := range spec.Agents {
		a.inPart("agents", i, func(at report) { a.agents = append(a.agents, spec.Agents[i].buildState(at)) })
	}
	for i := range spec.Rules {
		a.rules = append(a.rules, spec.Rules[i].Normalize())
	}
	for _, path := range spec.Stored {
		part, name, _ := strings.Cut(path, ".")
		a.stored[part] = append(a.stored[part], name)
	}
	return a
}

func indexPath(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// inPart checks a part, and notes whether it has an error.
func (a *application) inPart(list string, i int, check func(at report)) {
	path, before := indexPath(list, i), len(*a.fields)
	check(a.below(path))
	a.faulty[path] = a.faulty[path] || len(*a.fields) > before
}

// check validates what needs no database.
func (a *application) check(limits limits) {
	names := map[string]bool{}
	checkName := func(at report, list, name string) {
		at.check(!names[list+"/"+name], "name", fmt.Sprintf("%q is named twice", name))
		names[list+"/"+name] = true
	}
	known := map[string]bool{}
	for i := range a.spec.Skills {
		known[indexPath("skills", i)] = true
		a.inPart("skills", i, func(at report) {
			a.skills[i].validate(at, limits)
			checkName(at, "skills", a.spec.Skills[i].Name)
		})
	}
	for i := range a.spec.Agents {
		known[indexPath("agents", i)] = true
		a.inPart("agents", i, func(at report) { checkName(at, "agents", a.spec.Agents[i].Name) })
	}
	for i := range a.rules {
		a.inPart("rules", i, func(at report) {
			at.checkRule(a.rules[i])
			checkName(at, "rules", a.rules[i].Name)
		})
	}
	for i := range a.spec.Policies {
		a.inPart("policies", i, func(at report) {
			at.addFields(a.spec.Policies[i].Check())
			checkName(at, "policies", a.spec.Policies[i].Name)
		})
	}
	if a.spec.Label != "" {
		a.checkName("label", a.spec.Label)
	}
	a.report.check(a.spec.Label != "" || !a.spec.Prune, "label", "is required to prune: only what was applied with it is deleted")
	for _, part := range slices.Sorted(maps.Keys(a.stored)) {
		a.report.check(known[part], "stored", "must be paths of secrets of the spec, such as skills[0].headers.X-Key")
	}
}

// checkConditions compares the conditions of rules with the tools that they are about. A transaction must not wait for another connection,
// so this comes before it.
func (a *application) checkConditions(ctx context.Context, s *Service) error {
	var valid []rule.Spec
	places := map[string]int{}
	for i, spec := range a.rules {
		if !a.faulty[indexPath("rules", i)] {
			valid, places[spec.Name] = append(valid, spec), i
		}
	}
	warnings, err := s.findMisfits(ctx, valid)
	for _, w := range warnings {
		a.inPart("rules", places[w.Rule], func(at report) { at.addWarning(w) })
	}
	return err
}

// applyTo makes the changes, and reports the errors that need the database.
func (a *application) applyTo(ctx context.Context, e *edit) ([]Change, error) {
	policies, changes, err := a.applyPolicies(ctx, e)
	if err != nil {
		return nil, err
	}
	for i := range a.skills {
		a.inPart("skills", i, func(at report) { requirePolicies(at, policies, a.skills[i]) })
		if path, name := indexPath("skills", i), a.spec.Skills[i].Name; a.faulty[path] {
			e.faulty[name] = true
		} else {
			list, err := e.applySkill(ctx, a.below(path), name, a.skills[i], a.stored[path])
			if err != nil {
				return nil, fmt.Errorf("skill %s: %w", name, err)
			}
			changes = append(changes, list...)
		}
	}
	for i := range a.agents {
		path := indexPath("agents", i)
		if a.faulty[path] {
			err = e.requireSkills(ctx, a.below(path), a.spec.Agents[i].Skills)
		} else {
			var list []Change
			list, err = e.applyAgent(ctx, a.below(path), a.spec.Agents[i], a.agents[i], a.stored[path])
			changes = append(changes, list...)
		}
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", a.spec.Agents[i].Name, err)
		}
	}
	list, err := a.applyRules(ctx, e, policies)
	if err != nil {
		return nil, err
	}
	return a.applyLabel(ctx, e, policies, slices.Concat(changes, list))
}

func (e *edit) applySkill(ctx context.Context, r report, name string, after *skillState, stored []string) ([]Change, error) {
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
	after.keepStored(r, before, stored)
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

func (e *edit) applyAgent(ctx context.Context, r report, spec AgentSpec, after *agentState, stored []string) ([]Change, error) {
	change := Change{Kind: KindAgent, Name: spec.Name, Action: ActionUpdate}
	row, before, err := e.readAgentState(ctx, e.tx, `a.name = $1`, spec.Name)
	after.keepStored(r, before, stored)
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

// applyRules creates and replaces rules.
func (a *application) applyRules(ctx context.Context, e *edit, policies *versions[policy.Spec]) ([]Change, error) {
	if len(a.rules) == 0 {
		return nil, nil
	}
	rules, err := e.readRules(ctx)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for i := range a.rules {
		path := indexPath("rules", i)
		requirePolicy(a.below(path), policies, "policy", a.rules[i].Policy)
		if a.faulty[path] {
			continue
		}
		change, err := rules.set(ctx, a.below(path), a.rules[i].Name, &a.rules[i])
		if err != nil {
			return nil, err
		}
		e.takeWaiting(&change)
		changes = append(changes, change)
	}
	return changes, nil
}

// applyPolicies creates and replaces policies, and returns all present ones.
func (a *application) applyPolicies(ctx context.Context, e *edit) (*versions[policy.Spec], []Change, error) {
	policies, err := e.readPolicies(ctx)
	if err != nil {
		return nil, nil, err
	}
	var changes []Change
	for i := range a.spec.Policies {
		spec, path := &a.spec.Policies[i], indexPath("policies", i)
		if a.faulty[path] {
			policies.present[spec.Name] = PolicyVersion{Name: spec.Name, Spec: spec} // for those that refer to it; nothing is stored
			continue
		}
		change, err := policies.set(ctx, a.below(path), spec.Name, spec)
		if err != nil {
			return nil, nil, err
		}
		e.takeWaiting(&change)
		changes = append(changes, change)
	}
	return policies, changes, nil
}
