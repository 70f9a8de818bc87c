package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// MaxPolicies bounds the policies that are not deleted.
const MaxPolicies = 200

// ListPolicies returns the newest version of each policy that is not deleted, by name, from the database.
func (s *Service) ListPolicies(ctx context.Context) ([]PolicyVersion, error) {
	return listVersions[policy.Spec](ctx, s.pool)
}

// PolicyHistory returns the versions of a policy, the newest first, also of a deleted one. ErrNotFound.
func (s *Service) PolicyHistory(ctx context.Context, name string) ([]PolicyVersion, error) {
	return readHistory[policy.Spec](ctx, s.pool, name)
}

// QueuePolicies adds the read of the present policies of these names to a batch. Deleted ones are left out.
func QueuePolicies(batch *pgx.Batch, names []string, into *[]policy.Policy) {
	batch.Queue(`SELECT DISTINCT ON (name) `+versionColumns+` FROM policies WHERE name = ANY($1) ORDER BY name, revision DESC`, names).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanVersion[policy.Spec])
		*into = nil
		for _, v := range found {
			if v.Spec != nil {
				*into = append(*into, policy.Policy{Spec: *v.Spec, Revision: v.Revision})
			}
		}
		return err
	})
}

// SetPolicy creates a policy, or replaces the one of this name. A revision, if not nil, must be the policy's, and 0 if there is none. The
// error also lists the invalid fields in known. Errors: ErrChanged, *fault.InvalidError.
func (s *Service) SetPolicy(ctx context.Context, by audit.Actor, spec policy.Spec, revision *int64, known ...fault.Field) (PolicyVersion, error) {
	r := newReport(known...)
	r.addFields(spec.Check())
	var set PolicyVersion
	err := r.err()
	if err == nil {
		err = s.changeRegistry(ctx, by, false, func(e *edit) error {
			policies, err := e.readPolicies(ctx)
			if err != nil {
				return err
			}
			if err := checkRevision(revision, policies.present[spec.Name].Revision); err != nil {
				return err
			}
			_, err = policies.set(ctx, r, spec.Name, &spec)
			set = policies.present[spec.Name]
			return cmp.Or(err, r.err())
		})
	}
	if err != nil {
		return PolicyVersion{}, fmt.Errorf("set policy %q: %w", spec.Name, err)
	}
	return set, nil
}

// PolicyUser is a rule, a skill, or a tool of a skill, that refers to a policy.
type PolicyUser struct {
	Rule, Skill, Tool string
	SkillID           uuid.UUID // uuid.Nil: it is a rule
}

// String returns a name such as "rule big-payments".
func (u PolicyUser) String() string {
	switch {
	case u.Rule != "":
		return "rule " + u.Rule
	case u.Tool != "":
		return "tool " + u.Tool + " of skill " + u.Skill
	}
	return "skill " + u.Skill
}

// InUseError means that something refers to a policy that was to be deleted.
type InUseError struct{ By []PolicyUser }

func (e *InUseError) Error() string {
	names := make([]string, len(e.By))
	for i, user := range e.By {
		names[i] = user.String()
	}
	return "it is used by " + strings.Join(names, ", ")
}

// DeletePolicy deletes a policy. Its versions are kept, and calls that wait keep theirs. Errors: ErrNotFound, *[InUseError].
func (s *Service) DeletePolicy(ctx context.Context, by audit.Actor, name string) error {
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		policies, err := e.readPolicies(ctx)
		if err != nil {
			return err
		}
		return e.deletePolicy(ctx, policies, name)
	})
	if err != nil {
		return fmt.Errorf("delete policy %q: %w", name, err)
	}
	return nil
}

func (e *edit) deletePolicy(ctx context.Context, policies *versions[policy.Spec], name string) error {
	if err := policies.remove(ctx, name); err != nil {
		return err
	}
	users, err := findPolicyUsers(ctx, e.tx)
	if err == nil && len(users[name]) > 0 {
		err = &InUseError{users[name]}
	}
	return err
}

// FindPolicyUsers returns what refers to policies, by their names.
func (s *Service) FindPolicyUsers(ctx context.Context) (map[string][]PolicyUser, error) {
	return findPolicyUsers(ctx, s.pool)
}

func findPolicyUsers(ctx context.Context, db postgres.Querier) (map[string][]PolicyUser, error) {
	rules, err := listVersions[rule.Spec](ctx, db)
	if err != nil {
		return nil, err
	}
	users := map[string][]PolicyUser{}
	add := func(policy string, user PolicyUser) {
		if policy != "" {
			users[policy] = append(users[policy], user)
		}
	}
	for _, r := range rules {
		add(r.Spec.Policy, PolicyUser{Rule: r.Name})
	}
	type skillTools struct {
		ID           uuid.UUID
		Name, Policy string
		Tools        map[string]ToolSettings
	}
	skills, err := postgres.Collect(ctx, db, pgx.RowToStructByPos[skillTools],
		`SELECT id, name, coalesce(policy, ''), tools FROM skills WHERE deleted_at IS NULL ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("find skills with policies: %w", err)
	}
	for _, skill := range skills {
		add(skill.Policy, PolicyUser{Skill: skill.Name, SkillID: skill.ID})
		for _, t := range slices.Sorted(maps.Keys(skill.Tools)) {
			add(skill.Tools[t].Policy, PolicyUser{Skill: skill.Name, SkillID: skill.ID, Tool: t})
		}
	}
	return users, nil
}

// requirePolicy reports a policy that does not exist. An empty name is none.
func requirePolicy(r report, policies *versions[policy.Spec], field, name string) {
	if _, exists := policies.present[name]; !exists && name != "" {
		r.add(field, "must be the name of a policy; there is none called "+plain.Quoted(name, plain.MaxName))
	}
}

// requirePolicies reports the policies of a skill that do not exist.
func (e *edit) requirePolicies(ctx context.Context, r report, s *skillState) error {
	named := s.Policy != ""
	for _, t := range s.Tools {
		named = named || t.Policy != ""
	}
	if !named {
		return nil
	}
	policies, err := e.readPolicies(ctx)
	if err == nil {
		requirePolicies(r, policies, s)
	}
	return err
}

func requirePolicies(r report, policies *versions[policy.Spec], s *skillState) {
	requirePolicy(r, policies, "policy", s.Policy)
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		requirePolicy(r.below("tools"), policies, name+".policy", s.Tools[name].Policy)
	}
}

// checkPolicy checks the form of the name of a policy.
func (r report) checkPolicy(field, name string) {
	r.check(name == "" || plain.IsName(name), field, "must be the name of a policy")
}

// PolicyOf returns the name of the policy for calls of a tool of the skill. Empty: none.
func (s *Skill) PolicyOf(toolName string) string { return cmp.Or(s.Tools[toolName].Policy, s.Policy) }

// listPolicy returns the fields of a policy, for the comparison of two versions.
func listPolicy(spec *policy.Spec) []field {
	var l fieldList
	for i := range spec.Any {
		l.add(fmt.Sprintf("any[%d]", i), jsonText(spec.Any[i].All))
	}
	addNonZero(&l, "rejections", spec.Rejections, strconv.Itoa)
	if spec.ApprovalTimeout != nil {
		l.add("approval_timeout", spec.ApprovalTimeout.String())
	}
	if spec.ApprovalValidity != nil {
		l.add("approval_validity", spec.ApprovalValidity.String())
	}
	addNonZero(&l, "break_glass", spec.BreakGlass, func(bool) string { return "true" })
	return l
}
