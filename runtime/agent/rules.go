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
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// MaxRules bounds the rules that are not deleted.
const MaxRules = 1000

// RuleVersion is one version of a rule.
type RuleVersion struct {
	Name      string
	Revision  int64
	Spec      *rule.Spec // nil: the rule was deleted
	ChangedAt time.Time
	ChangedBy uuid.UUID // uuid.Nil: unknown
}

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

// QueueRulesRevision adds the read of the revision of the last change of any rule to a batch.
func QueueRulesRevision(batch *pgx.Batch, into *int64) {
	batch.Queue(`SELECT coalesce(max(revision), 0) FROM rules`).QueryRow(func(row pgx.Row) error { return row.Scan(into) })
}

func (s *Service) loadRules(ctx context.Context) (*rule.Book, error) {
	versions, err := readRuleVersions(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	var revision int64
	var rules []rule.Rule
	for _, v := range versions {
		revision = max(revision, v.Revision)
		if v.Spec != nil {
			rules = append(rules, rule.Rule{Spec: *v.Spec, Revision: v.Revision})
		}
	}
	return rule.NewBook(revision, rules, s.programs), nil
}

const ruleColumns = `name, revision, spec, changed_at, changed_by`

// readRuleVersions reads the newest version of each rule, by name, also of deleted ones.
func readRuleVersions(ctx context.Context, db postgres.Querier) ([]RuleVersion, error) {
	versions, err := postgres.Collect(ctx, db, scanRuleVersion, `SELECT DISTINCT ON (name) `+ruleColumns+` FROM rules ORDER BY name, revision DESC`)
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	return versions, nil
}

func scanRuleVersion(row pgx.CollectableRow) (RuleVersion, error) {
	var v RuleVersion
	var by *uuid.UUID
	err := row.Scan(&v.Name, &v.Revision, &v.Spec, &v.ChangedAt, &by)
	v.ChangedBy = postgres.OrNil(by)
	return v, err
}

// ListRules returns the newest version of each rule that is not deleted, by name, from the database.
func (s *Service) ListRules(ctx context.Context) ([]RuleVersion, error) {
	versions, err := readRuleVersions(ctx, s.pool)
	return slices.DeleteFunc(versions, func(v RuleVersion) bool { return v.Spec == nil }), err
}

// RuleHistory returns the versions of a rule, the newest first, also of a deleted one. ErrNotFound.
func (s *Service) RuleHistory(ctx context.Context, name string) ([]RuleVersion, error) {
	versions, err := postgres.Collect(ctx, s.pool, scanRuleVersion,
		`SELECT `+ruleColumns+` FROM rules WHERE name = $1 ORDER BY revision DESC LIMIT 1000`, name)
	if err == nil && len(versions) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read rule %q: %w", name, err)
	}
	return versions, nil
}

// SetRule creates a rule, or replaces the one of this name. A revision, if not nil, must be the rule's, and 0 if there is none. The
// error also lists the invalid fields in known. Errors: ErrChanged, *fault.InvalidError.
func (s *Service) SetRule(ctx context.Context, by audit.Actor, spec rule.Spec, revision *int64, known ...fault.Field) (RuleVersion, error) {
	r := newReport(known...)
	spec = spec.Normalize()
	r.checkRule(spec)
	if err := s.checkConditions(ctx, r, spec); err != nil {
		return RuleVersion{}, fmt.Errorf("set rule %q: %w", spec.Name, err)
	}
	if err := r.err(); err != nil {
		return RuleVersion{}, fmt.Errorf("set rule %q: %w", spec.Name, err)
	}
	var set RuleVersion
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		rules, err := e.readRules(ctx)
		if err != nil {
			return err
		}
		if err := checkRevision(revision, rules[spec.Name].Revision); err != nil {
			return err
		}
		_, err = e.setRule(ctx, r, rules, spec)
		if err == nil {
			err = r.err()
		}
		set = rules[spec.Name]
		return err
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
		version, exists := rules[name]
		if !exists {
			return ErrNotFound
		}
		if waits, err := e.proposeRule(ctx, version, name, nil); err != nil || waits {
			return err
		}
		return e.deleteRule(ctx, name)
	})
	if err != nil {
		return fmt.Errorf("delete rule %q: %w", name, err)
	}
	return nil
}

func (e *edit) deleteRule(ctx context.Context, name string) error {
	_, err := e.storeRule(ctx, name, nil)
	e.recordChange(audit.RuleDeleted, ruleSubject(name), auditData(name, nil))
	return err
}

// readRules reads the rules by name.
func (e *edit) readRules(ctx context.Context) (map[string]RuleVersion, error) {
	versions, err := readRuleVersions(ctx, e.tx)
	rules := map[string]RuleVersion{}
	for _, v := range versions {
		if v.Spec != nil {
			rules[v.Name] = v
		}
	}
	return rules, err
}

// setRule stores a checked rule, if it differs from the one of its name in rules, and updates rules. Under dual control, one that loosens
// waits. It adds a field to the report if there
// are too many.
func (e *edit) setRule(ctx context.Context, r report, rules map[string]RuleVersion, spec rule.Spec) (Change, error) {
	change := Change{Kind: KindRule, Name: spec.Name, Action: ActionCreate}
	var before []field
	if was, exists := rules[spec.Name]; exists {
		change.Action, before = ActionUpdate, listRule(was.Spec)
	} else if len(rules) >= MaxRules {
		r.add("name", fmt.Sprintf("must be the name of a rule that exists: there are %d rules, and there may be no more", MaxRules))
		return change, nil
	}
	if change.Fields = diffFields(before, listRule(&spec)); len(change.Fields) == 0 {
		change.Action = ActionUnchanged
		return change, nil
	}
	if waits, err := e.proposeRule(ctx, rules[spec.Name], spec.Name, &spec); err != nil || waits {
		return change, err
	}
	version, err := e.storeRule(ctx, spec.Name, &spec)
	if err != nil {
		return change, err
	}
	rules[spec.Name] = version
	action := audit.RuleCreated
	if change.Action == ActionUpdate {
		action = audit.RuleUpdated
	}
	data := auditData(spec.Name, change.Fields)
	data["revision"] = version.Revision
	e.recordChange(action, ruleSubject(spec.Name), data)
	return change, nil
}

// ruleSubject returns the id of a rule in the audit log, which follows from its name.
func ruleSubject(name string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("holdpoint:rule:"+name))
}

func (e *edit) storeRule(ctx context.Context, name string, spec *rule.Spec) (RuleVersion, error) {
	var by *uuid.UUID
	if e.by.Kind == audit.KindPerson {
		by = postgres.OrNull(e.by.ID)
	}
	var stored []byte
	if spec != nil {
		var err error
		if stored, err = json.Marshal(spec); err != nil {
			return RuleVersion{}, fmt.Errorf("store rule %s: %w", name, err)
		}
	}
	version, err := postgres.CollectOne(ctx, e.tx, scanRuleVersion,
		`INSERT INTO rules (name, spec, changed_by) VALUES ($1, $2::jsonb, $3) RETURNING `+ruleColumns, name, stored, by)
	if err != nil {
		return RuleVersion{}, fmt.Errorf("store rule %s: %w", name, err)
	}
	return version, nil
}

// checkRule reports the invalid fields of a normalized rule. A condition that no tool makes wrong is compiled for arguments of any shape.
func (r report) checkRule(spec rule.Spec) {
	invalid := spec.Check()
	for _, f := range invalid {
		r.add(f.Name, f.Expected)
	}
	if len(invalid) > 0 || spec.When == "" {
		return
	}
	if _, err := condition.Compile(spec.When, nil); err != nil {
		r.addProblems(err.Error(), "")
	}
}

// checkConditions reports the conditions that do not fit the tools that they are about. A transaction must not wait for another connection,
// so this comes before it.
func (s *Service) checkConditions(ctx context.Context, r report, specs ...rule.Spec) error {
	if *r.fields != nil || len(specs) == 0 {
		return nil
	}
	warnings, err := s.findMisfits(ctx, specs)
	for _, w := range warnings {
		at := r
		if i := slices.IndexFunc(specs, func(spec rule.Spec) bool { return spec.Name == w.Rule }); r.at != "" {
			at = r.below(fmt.Sprintf("[%d]", i))
		}
		at.addProblems(w.Message, fmt.Sprintf(" (tool %s of skill %s)", w.Tool, w.Skill))
	}
	return err
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
	return l
}

// FindCoveredSkills returns the ids of the skills that a rule is about, also of deleted ones.
func (s *Service) FindCoveredSkills(ctx context.Context, spec *rule.Spec) ([]uuid.UUID, error) {
	skills, err := postgres.Collect(ctx, s.pool, pgx.RowToStructByPos[Named], `SELECT id, name FROM skills`)
	if err != nil {
		return nil, fmt.Errorf("read skills for rules: %w", err)
	}
	ids := []uuid.UUID{}
	for _, skill := range skills {
		if spec.CoversSkill(skill.Name) {
			ids = append(ids, skill.ID)
		}
	}
	return ids, nil
}
