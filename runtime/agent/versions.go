package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Version is one version of a rule or a policy. The tables rules and policies have the same columns, and keep all versions.
type Version[S any] struct {
	Name      string
	Revision  int64 // greater than that of every version of any rule or policy before it
	Spec      *S    // nil: it was deleted
	ChangedAt time.Time
	ChangedBy uuid.UUID // uuid.Nil: unknown
}

// RuleVersion is one version of a rule.
type RuleVersion = Version[rule.Spec]

// PolicyVersion is one version of an approval policy.
type PolicyVersion = Version[policy.Spec]

const versionColumns = `name, revision, spec, changed_at, changed_by`

// tableOf returns the table of the versions.
func tableOf[S any]() string {
	if _, isRule := any(*new(S)).(rule.Spec); isRule {
		return "rules"
	}
	return "policies"
}

func scanVersion[S any](row pgx.CollectableRow) (Version[S], error) {
	var v Version[S]
	var by *uuid.UUID
	err := row.Scan(&v.Name, &v.Revision, &v.Spec, &v.ChangedAt, &by)
	v.ChangedBy = postgres.OrNil(by)
	return v, err
}

// readVersions reads the newest version of each rule or policy, by name, also of deleted ones.
func readVersions[S any](ctx context.Context, db postgres.Querier) ([]Version[S], error) {
	versions, err := postgres.Collect(ctx, db, scanVersion[S],
		`SELECT DISTINCT ON (name) `+versionColumns+` FROM `+tableOf[S]()+` ORDER BY name, revision DESC`)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", tableOf[S](), err)
	}
	return versions, nil
}

// listVersions is [readVersions] without deleted ones.
func listVersions[S any](ctx context.Context, db postgres.Querier) ([]Version[S], error) {
	versions, err := readVersions[S](ctx, db)
	return slices.DeleteFunc(versions, func(v Version[S]) bool { return v.Spec == nil }), err
}

// readHistory returns the versions of a rule or policy, the newest first, also of a deleted one. ErrNotFound.
func readHistory[S any](ctx context.Context, db postgres.Querier, name string) ([]Version[S], error) {
	versions, err := postgres.Collect(ctx, db, scanVersion[S],
		`SELECT `+versionColumns+` FROM `+tableOf[S]()+` WHERE name = $1 ORDER BY revision DESC LIMIT 1000`, name)
	if err == nil && len(versions) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read versions of %s %q: %w", tableOf[S](), name, err)
	}
	return versions, nil
}

// versions are the present rules or policies by name, in a change of the registry.
type versions[S any] struct {
	edit    *edit
	present map[string]Version[S]
	about   versioned[S]
}

// versioned is what differs between rules and policies.
type versioned[S any] struct {
	kind                      string // see [Change]
	max                       int
	listFields                func(*S) []field
	created, updated, deleted audit.Action
	controlled                dualcontrol.Kind
	loosens                   func(before, after *S) bool // nil: there is none
}

func (e *edit) readRules(ctx context.Context) (*versions[rule.Spec], error) {
	return readPresent(ctx, e, versioned[rule.Spec]{KindRule, MaxRules, listRule, audit.RuleCreated, audit.RuleUpdated, audit.RuleDeleted, dualcontrol.Rule, rule.Loosens})
}

func (e *edit) readPolicies(ctx context.Context) (*versions[policy.Spec], error) {
	return readPresent(ctx, e, versioned[policy.Spec]{KindPolicy, MaxPolicies, listPolicy, audit.PolicyCreated, audit.PolicyUpdated, audit.PolicyDeleted, dualcontrol.Policy, loosensPolicy})
}

func readPresent[S any](ctx context.Context, e *edit, about versioned[S]) (*versions[S], error) {
	list, err := listVersions[S](ctx, e.tx)
	present := make(map[string]Version[S], len(list))
	for _, v := range list {
		present[v.Name] = v
	}
	return &versions[S]{e, present, about}, err
}

// set stores a checked spec, if it differs from the present one. Under dual control, one that loosens waits. It adds a field to the report if there are too many.
func (v *versions[S]) set(ctx context.Context, r report, name string, spec *S) (Change, error) {
	change := Change{Kind: v.about.kind, Name: name, Action: ActionCreate}
	var before []field
	if was, exists := v.present[name]; exists {
		change.Action, before = ActionUpdate, v.about.listFields(was.Spec)
	} else if len(v.present) >= v.about.max {
		r.add("name", fmt.Sprintf("must be the name of a %s that exists: there are %d, and there may be no more", v.about.kind, v.about.max))
		return change, nil
	}
	if change.Fields = diffFields(before, v.about.listFields(spec)); len(change.Fields) == 0 {
		change.Action = ActionUnchanged
		return change, nil
	}
	if waits, err := v.propose(ctx, name, spec); err != nil || waits {
		return change, err
	}
	version, err := v.store(ctx, name, spec)
	if err != nil {
		return change, err
	}
	v.present[name] = version
	action := v.about.created
	if change.Action == ActionUpdate {
		action = v.about.updated
	}
	data := auditData(name, change.Fields)
	data["revision"] = version.Revision
	v.edit.recordChange(action, subjectOf(v.about.kind, name), data)
	if change.Action == ActionCreate {
		err = v.edit.deleteLabel(ctx, labeled{v.about.kind, name})
	}
	return change, err
}

// remove stores that there is no rule or policy of this name any more. ErrNotFound.
func (v *versions[S]) remove(ctx context.Context, name string) error {
	if _, exists := v.present[name]; !exists {
		return ErrNotFound
	}
	if waits, err := v.propose(ctx, name, nil); err != nil || waits {
		return err
	}
	if _, err := v.store(ctx, name, nil); err != nil {
		return err
	}
	v.edit.recordChange(v.about.deleted, subjectOf(v.about.kind, name), auditData(name, nil))
	return v.edit.deleteLabel(ctx, labeled{v.about.kind, name})
}

// subjectOf returns the id of a rule or policy in the audit log, which follows from the name.
func subjectOf(kind, name string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("holdpoint:"+kind+":"+name))
}

func (v *versions[S]) store(ctx context.Context, name string, spec *S) (Version[S], error) {
	var by *uuid.UUID
	if v.edit.by.Kind == audit.KindPerson {
		by = postgres.OrNull(v.edit.by.ID)
	}
	var stored []byte
	if spec != nil {
		var err error
		if stored, err = json.Marshal(spec); err != nil {
			return Version[S]{}, fmt.Errorf("store %s %s: %w", v.about.kind, name, err)
		}
	}
	version, err := postgres.CollectOne(ctx, v.edit.tx, scanVersion[S],
		`INSERT INTO `+tableOf[S]()+` (name, spec, changed_by) VALUES ($1, $2::jsonb, $3) RETURNING `+versionColumns, name, stored, by)
	if err != nil {
		return version, fmt.Errorf("store %s %s: %w", v.about.kind, name, err)
	}
	return version, nil
}
