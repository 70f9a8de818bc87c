package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/audit"
)

// labeled is a part of the registry that files declare.
type labeled struct{ Kind, Name string }

// listLabeled returns the parts of the spec that may have a label, by their paths.
func (a *application) listLabeled() map[labeled]string {
	parts := map[labeled]string{}
	for i := range a.spec.Skills {
		parts[labeled{KindSkill, a.spec.Skills[i].Name}] = indexPath("skills", i)
	}
	for i := range a.spec.Agents {
		parts[labeled{KindAgent, a.spec.Agents[i].Name}] = indexPath("agents", i)
	}
	for i := range a.rules {
		parts[labeled{KindRule, a.rules[i].Name}] = indexPath("rules", i)
	}
	for i := range a.spec.Policies {
		parts[labeled{KindPolicy, a.spec.Policies[i].Name}] = indexPath("policies", i)
	}
	return parts
}

// applyLabel gives the parts of the spec its label, and adds it to their changes. With Prune, it then deletes the parts that had the label
// before and are not in the spec. A part that has another label is an error.
func (a *application) applyLabel(ctx context.Context, e *edit, policies *versions[policy.Spec], changes []Change) ([]Change, error) {
	if a.spec.Label == "" {
		return changes, nil
	}
	present := map[labeled]string{}
	rows, _ := e.tx.Query(ctx, `SELECT kind, name, label FROM labels`)
	var part labeled
	var label string
	_, err := pgx.ForEachRow(rows, []any{&part.Kind, &part.Name, &label}, func() error { present[part] = label; return nil })
	if err != nil {
		return nil, fmt.Errorf("read labels: %w", err)
	}
	declared := a.listLabeled()
	var kinds, names []string
	for part, path := range declared {
		if label := present[part]; label != "" && label != a.spec.Label {
			a.below(path).add("name", fmt.Sprintf("must not be declared under two labels: the %s %q has the label %q", part.Kind, part.Name, label))
		}
		kinds, names = append(kinds, part.Kind), append(names, part.Name)
	}
	_, err = e.tx.Exec(ctx, `INSERT INTO labels (kind, name, label) SELECT kind, name, $3 FROM unnest($1::text[], $2::text[]) AS declared(kind, name)
		ON CONFLICT DO NOTHING`, kinds, names, a.spec.Label)
	if err != nil {
		return nil, fmt.Errorf("write labels: %w", err)
	}
	if changes, err = a.addLabels(ctx, e, changes, present); err != nil || !a.spec.Prune {
		return changes, err
	}
	rows, _ = e.tx.Query(ctx, `SELECT kind, name FROM labels WHERE label = $1
		ORDER BY array_position(ARRAY['rule', 'agent', 'skill', 'policy'], kind), name`, a.spec.Label)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[labeled])
	if err != nil {
		return nil, fmt.Errorf("read labels: %w", err)
	}
	for _, part := range list {
		if _, kept := declared[part]; kept {
			continue
		}
		change, err := a.deletePart(ctx, e, part, policies)
		if err != nil {
			return nil, fmt.Errorf("delete %s %q: %w", part.Kind, part.Name, err)
		}
		if change != nil {
			changes = append(changes, *change)
		}
	}
	return changes, nil
}

// addLabels adds the label to the changes of parts that did not have it, and records it for those that existed before.
func (a *application) addLabels(ctx context.Context, e *edit, changes []Change, present map[labeled]string) ([]Change, error) {
	declared, added := a.listLabeled(), []FieldChange{{Field: "label", New: a.spec.Label}}
	for i := range changes {
		change := &changes[i]
		part := labeled{change.Kind, change.Name}
		_, mayHaveLabel := declared[part]
		isNew := change.Action == ActionCreate
		if !mayHaveLabel || present[part] != "" || isNew && change.Waits != "" {
			continue
		}
		present[part] = a.spec.Label // a second change of the part waits
		if change.Waits != "" {      // the label does not
			changes = append(changes, Change{Kind: part.Kind, Name: part.Name, Action: ActionUpdate, Fields: added})
		} else if change.Fields = append(change.Fields, added...); !isNew {
			change.Action = ActionUpdate
		}
		if isNew {
			continue
		}
		if err := e.recordLabel(ctx, part, added); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

func (e *edit) recordLabel(ctx context.Context, part labeled, added []FieldChange) error {
	var action audit.Action
	subject := subjectOf(part.Kind, part.Name)
	switch part.Kind {
	case KindRule:
		action = audit.RuleUpdated
	case KindPolicy:
		action = audit.PolicyUpdated
	case KindAgent:
		row, err := readAgentRow(ctx, e.tx, `a.name = $1`, part.Name)
		if err != nil {
			return fmt.Errorf("label agent %q: %w", part.Name, err)
		}
		action, subject = audit.AgentUpdated, row.ID
	case KindSkill:
		row, err := readSkillRow(ctx, e.tx, `s.name = $1`, part.Name)
		if err != nil {
			return fmt.Errorf("label skill %q: %w", part.Name, err)
		}
		action, subject = audit.SkillUpdated, row.ID
	}
	e.recordChange(action, subject, auditData(part.Name, added))
	return nil
}

// deletePart deletes a part that the spec does not declare any more. It returns nil if there is none. A policy that something still
// names is an error of the spec.
func (a *application) deletePart(ctx context.Context, e *edit, part labeled, policies *versions[policy.Spec]) (*Change, error) {
	var err error
	switch part.Kind {
	case KindRule:
		rules, readErr := e.readRules(ctx)
		if readErr != nil {
			return nil, readErr
		}
		err = rules.remove(ctx, part.Name)
	case KindAgent:
		row, readErr := readAgentRow(ctx, e.tx, `a.name = $1`, part.Name)
		if err = readErr; err == nil {
			err = e.deleteAgent(ctx, row)
		}
	case KindSkill:
		row, readErr := readSkillRow(ctx, e.tx, `s.name = $1`, part.Name)
		if err = readErr; err == nil {
			err = e.deleteSkill(ctx, row)
		}
	default:
		err = e.deletePolicy(ctx, policies, part.Name)
		if used, isUsed := errors.AsType[*InUseError](err); isUsed {
			a.add("prune", fmt.Sprintf("must not delete the policy %q: %v", part.Name, used))
			return nil, nil
		}
	}
	if errors.Is(err, ErrNotFound) { // an older version deleted it and left the label
		return nil, e.deleteLabel(ctx, part)
	}
	change := &Change{Kind: part.Kind, Name: part.Name, Action: ActionDelete}
	e.takeWaiting(change)
	return change, err
}

// deleteLabel deletes the label of a part that is created or deleted: what had the name before is not this part. A label may be left by a
// part that a second operator refused, or that an older version deleted.
func (e *edit) deleteLabel(ctx context.Context, part labeled) error {
	if _, err := e.tx.Exec(ctx, `DELETE FROM labels WHERE kind = $1 AND name = $2`, part.Kind, part.Name); err != nil {
		return fmt.Errorf("delete label: %w", err)
	}
	return nil
}
