package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// MaxRules bounds the rules that are not deleted.
const MaxRules = 1000

// RuleWarning says that the condition of a rule does not fit a tool that it is about. Calls of the tool are parked by it.
type RuleWarning struct {
	Rule    string
	Skill   string
	Tool    string
	Message string
}

// Rules returns the rules in force, by name. They are cached.
func (s *Service) Rules(ctx context.Context) (*rule.Book, error) {
	return s.rules.Get(ctx, struct{}{}, s.loadRules)
}

// RulesSince is [Service.Rules] for a reader who knows that there was a change with this revision.
func (s *Service) RulesSince(ctx context.Context, revision int64) (*rule.Book, error) {
	book, err := s.rules.GetIf(ctx, struct{}{}, func(b *rule.Book, _ time.Duration) bool { return b.Revision >= revision }, s.loadRules)
	if err == nil && book.Revision < revision { // the load was under way before the change
		return s.loadRules(ctx)
	}
	return book, err
}

// QueueRulesRevision adds the read of the revision of the last change of any rule or policy to a batch.
func QueueRulesRevision(batch *pgx.Batch, into *int64) {
	batch.Queue(`SELECT greatest((SELECT coalesce(max(revision), 0) FROM rules), (SELECT coalesce(max(revision), 0) FROM policies))`).
		QueryRow(func(row pgx.Row) error { return row.Scan(into) })
}

// loadRules reads rules and policies in one statement, so that they belong together.
func (s *Service) loadRules(ctx context.Context) (*rule.Book, error) {
	type row struct {
		Kind     string
		Name     string
		Revision int64
		Spec     []byte // nil: deleted
	}
	rows, err := postgres.Collect(ctx, s.pool, pgx.RowToStructByPos[row],
		`(SELECT DISTINCT ON (name) 'rule', name, revision, spec FROM rules ORDER BY name, revision DESC)
		UNION ALL (SELECT DISTINCT ON (name) 'policy', name, revision, spec FROM policies ORDER BY name, revision DESC)`)
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	var revision int64
	var rules []rule.Rule
	policies := map[string]policy.Policy{}
	for _, row := range rows {
		revision = max(revision, row.Revision)
		switch {
		case row.Spec == nil:
		case row.Kind == KindRule:
			r := rule.Rule{Revision: row.Revision}
			err = json.Unmarshal(row.Spec, &r.Spec)
			rules = append(rules, r)
		default:
			p := policy.Policy{Revision: row.Revision}
			err = json.Unmarshal(row.Spec, &p.Spec)
			policies[row.Name] = p
		}
		if err != nil {
			return nil, fmt.Errorf("read %s %s: %w", row.Kind, row.Name, err)
		}
	}
	return rule.NewBook(revision, rules, policies, s.programs), nil
}

// ListRules returns the newest version of each rule that is not deleted, by name, from the database.
func (s *Service) ListRules(ctx context.Context) ([]RuleVersion, error) {
	return listVersions[rule.Spec](ctx, s.pool)
}

// RuleHistory returns the versions of a rule, the newest first, also of a deleted one. ErrNotFound.
func (s *Service) RuleHistory(ctx context.Context, name string) ([]RuleVersion, error) {
	return readHistory[rule.Spec](ctx, s.pool, name)
}

// SetRule creates a rule, or replaces the one of this name. A revision, if not nil, must be the rule's, and 0 if there is none. The
// error also lists the invalid fields in known. Errors: ErrChanged, *fault.InvalidError.
func (s *Service) SetRule(ctx context.Context, by audit.Actor, spec rule.Spec, revision *int64, known ...fault.Field) (RuleVersion, error) {
	r := newReport(known...)
	spec = spec.Normalize()
	r.checkRule(spec)
	err := r.err()
	if err == nil {
		err = s.checkCondition(ctx, r, spec)
	}
	if err != nil {
		return RuleVersion{}, fmt.Errorf("set rule %q: %w", spec.Name, err)
	}
	var set RuleVersion
	err = s.changeRegistry(ctx, by, false, func(e *edit) error {
		rules, err := e.readRules(ctx)
		if err != nil {
			return err
		}
		if err := checkRevision(revision, rules.present[spec.Name].Revision); err != nil {
			return err
		}
		policies, err := e.readPolicies(ctx)
		if err != nil {
			return err
		}
		requirePolicy(r, policies, "policy", spec.Policy)
		_, err = rules.set(ctx, r, spec.Name, &spec)
		set = rules.present[spec.Name]
		return cmp.Or(err, r.err())
	})
	if err != nil {
		return RuleVersion{}, fmt.Errorf("set rule %s: %w", spec.Name, err)
	}
	return set, nil
}

// DeleteRule deletes a rule. Its versions are kept. ErrNotFound.
func (s *Service) DeleteRule(ctx context.Context, by audit.Actor, name string) error {
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		rules, err := e.readRules(ctx)
		if err != nil {
			return err
		}
		return rules.remove(ctx, name)
	})
	if err != nil {
		return fmt.Errorf("delete rule %q: %w", name, err)
	}
	return nil
}

// QueueConditions adds the read of the conditions of versions of rules to a batch, by the rules' names. A version without a condition is left out.
func QueueConditions(batch *pgx.Batch, applied []rule.Applied, into map[string]string) {
	names, revisions := make([]string, len(applied)), make([]int64, len(applied))
	for i := range applied {
		names[i], revisions[i] = applied[i].Name, applied[i].Revision
	}
	batch.Queue(`SELECT name, spec->>'when' FROM rules WHERE revision = ANY($1) AND name = ANY($2) AND spec->>'when' <> ''`, revisions, names).Query(func(rows pgx.Rows) error {
		var name, when string
		_, err := pgx.ForEachRow(rows, []any{&name, &when}, func() error { into[name] = when; return nil })
		return err
	})
}

// checkRule reports the invalid fields of a normalized rule. A condition that no tool makes wrong is compiled for arguments of any shape.
func (r report) checkRule(spec rule.Spec) {
	invalid := spec.Check()
	r.addFields(invalid)
	if len(invalid) > 0 || spec.When == "" {
		return
	}
	if _, err := condition.Compile(spec.When, nil); err != nil {
		r.addProblems(err.Error(), "")
	}
}

// checkCondition returns the problems of a rule's condition with the tools that it is about. A transaction must not wait for another
// connection, so this comes before it.
func (s *Service) checkCondition(ctx context.Context, r report, spec rule.Spec) error {
	warnings, err := s.findMisfits(ctx, []rule.Spec{spec})
	for _, w := range warnings {
		r.addWarning(w)
	}
	return cmp.Or(err, r.err())
}

// addWarning reports that the condition of a rule does not fit a tool.
func (r report) addWarning(w RuleWarning) {
	r.addProblems(w.Message, fmt.Sprintf(" (tool %s of skill %s)", w.Tool, w.Skill))
}

// addProblems reports the problems of a condition, one on each line of a text.
func (r report) addProblems(text, suffix string) {
	for problem := range strings.SplitSeq(text, "\n") {
		r.add("when", problem+suffix)
	}
}

// FindRuleWarnings compares the conditions of all rules with the present definitions of the tools that they are about.
func (s *Service) FindRuleWarnings(ctx context.Context) ([]RuleWarning, error) {
	book, err := s.Rules(ctx)
	if err != nil {
		return nil, err
	}
	specs := make([]rule.Spec, len(book.Rules))
	for i := range book.Rules {
		specs[i] = book.Rules[i].Spec
	}
	return s.findMisfits(ctx, specs)
}

// findMisfits compares conditions with the present definitions of the tools that they are about. A tool that no server has listed yet is
// compared when it is called.
func (s *Service) findMisfits(ctx context.Context, specs []rule.Spec) ([]RuleWarning, error) {
	tools, err := s.findCovered(ctx, slices.DeleteFunc(slices.Clone(specs), func(spec rule.Spec) bool { return spec.When == "" }))
	if err != nil {
		return nil, err
	}
	var found []RuleWarning
	for _, spec := range specs {
		for _, t := range tools {
			if spec.When == "" || !spec.CoversTool(t.skill, t.name) {
				continue
			}
			misfit, err := s.programs.FindMisfit(ctx, spec.When, t.schema)
			if err != nil {
				return nil, fmt.Errorf("compare rule %s with tool %s: %w", spec.Name, t.name, err)
			}
			if misfit != "" {
				found = append(found, RuleWarning{spec.Name, t.skill, t.name, misfit})
			}
		}
	}
	return found, nil
}

// coveredTool is a tool that rules are about.
type coveredTool struct {
	skill, name string
	schema      rule.Schema
}

// findCovered returns the tools that servers have listed and that one of the rules is about, by skill and name.
func (s *Service) findCovered(ctx context.Context, specs []rule.Spec) ([]coveredTool, error) {
	pins, err := tool.CurrentPins(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	skills, err := postgres.Collect(ctx, s.pool, pgx.RowToStructByPos[Named], `SELECT id, name FROM skills WHERE deleted_at IS NULL`)
	if err != nil {
		return nil, fmt.Errorf("read skills for rules: %w", err)
	}
	names := map[uuid.UUID]string{}
	for _, skill := range skills {
		names[skill.ID] = skill.Name
	}
	covered := map[tool.Offered]tool.Pin{}
	for offered, pin := range pins {
		name, exists := names[offered.SkillID]
		if exists && slices.ContainsFunc(specs, func(spec rule.Spec) bool { return spec.CoversTool(name, offered.Name) }) {
			covered[offered] = pin
		}
	}
	definitions, err := s.discovery.Definitions(ctx, slices.Collect(maps.Values(covered)))
	if err != nil {
		return nil, err
	}
	tools := make([]coveredTool, 0, len(covered))
	for offered, pin := range covered {
		tools = append(tools, coveredTool{names[offered.SkillID], offered.Name, rule.Schema{Pin: pin, JSON: definitions[pin].InputSchema}})
	}
	slices.SortFunc(tools, func(a, b coveredTool) int {
		return cmp.Or(cmp.Compare(a.skill, b.skill), cmp.Compare(a.name, b.name))
	})
	return tools, nil
}

// listRule returns the fields of a rule, for the comparison of two versions.
func listRule(spec *rule.Spec) []field {
	var l fieldList
	l.add("agents", jsonText(spec.Agents))
	l.add("skills", jsonText(spec.Skills))
	l.add("tools", jsonText(spec.Tools))
	l.add("when", spec.When)
	l.add("effect", string(spec.Effect))
	l.add("mode", string(cmp.Or(spec.Mode, rule.Enforce)))
	l.add("message", spec.Message)
	addNonZero(&l, "high_risk", spec.HighRisk, func(bool) string { return "true" })
	addNonZero(&l, "grants", spec.Grants, func(bool) string { return "true" })
	l.add("policy", spec.Policy)
	return l
}

// FindCoveredSkills returns the ids of the skills that a rule is about, also of deleted ones.
func (s *Service) FindCoveredSkills(ctx context.Context, spec *rule.Spec) ([]uuid.UUID, error) {
	return s.findCoveredNames(ctx, `SELECT id, name FROM skills`, spec.CoversSkill)
}

// FindCoveredAgents is [Service.FindCoveredSkills] for agents.
func (s *Service) FindCoveredAgents(ctx context.Context, spec *rule.Spec) ([]uuid.UUID, error) {
	return s.findCoveredNames(ctx, `SELECT id, name FROM agents`, spec.CoversAgent)
}

// findCoveredNames returns the ids of the skills or agents of a query whose name is covered.
func (s *Service) findCoveredNames(ctx context.Context, sql string, covers func(name string) bool) ([]uuid.UUID, error) {
	all, err := postgres.Collect(ctx, s.pool, pgx.RowToStructByPos[Named], sql)
	if err != nil {
		return nil, fmt.Errorf("read names for rules: %w", err)
	}
	ids := []uuid.UUID{}
	for _, one := range all {
		if covers(one.Name) {
			ids = append(ids, one.ID)
		}
	}
	return ids, nil
}
