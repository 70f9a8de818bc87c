package agent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

const pruned = `{"label":"platform","prune":true,
	"policies":[{"name":"two","any":[{"all":[{"count":2}]}]}],
	"skills":[{"name":"ledger","transport":"http","url":"http://127.0.0.1:1/mcp","policy":"two"},{"name":"mail","transport":"http","url":"http://127.0.0.1:1/mcp"}],
	"agents":[{"name":"billing","skills":[{"skill":"ledger"},{"skill":"mail"}]}],
	"rules":[{"name":"never","effect":"deny"}]}`

func TestPrune(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"skills":[{"name":"desk","transport":"http","url":"http://127.0.0.1:1/mcp"}],"agents":[{"name":"support"}],"rules":[{"name":"hours","effect":"park"}]}`)
	w.registry.ApplyJSON(`{"label":"other","agents":[{"name":"night"}]}`)
	w.registry.ApplyJSON(pruned)
	if got := formatActions(w.registry.ApplyJSON(pruned)); slices.ContainsFunc(got, func(action string) bool { return !strings.HasPrefix(action, "unchanged ") }) {
		t.Errorf("again: %v", got)
	}

	const rest = `{"label":"platform","prune":true,"agents":[{"name":"billing"}]}`
	want := []string{"unchanged agent billing", "delete rule never", "delete skill ledger", "delete skill mail", "delete policy two"}
	dry, err := w.Apply(t.Context(), operator, readSpec(t, rest), true)
	if got := formatActions(dry); err != nil || !slices.Equal(got, want) {
		t.Errorf("dry run: %v, %v", got, err)
	}
	unpruned := strings.Replace(rest, `,"prune":true`, "", 1)
	if got := formatActions(w.registry.ApplyJSON(unpruned)); !slices.Equal(got, want[:1]) {
		t.Errorf("without prune: %v", got)
	}
	if got := formatActions(w.registry.ApplyJSON(rest)); !slices.Equal(got, want) {
		t.Errorf("pruned: %v", got)
	}
	for _, action := range []audit.Action{audit.RuleDeleted, audit.SkillDeleted, audit.PolicyDeleted} {
		if w.db.Count("audit_events WHERE action = '"+string(action)+"'") == 0 {
			t.Errorf("no event %s", action)
		}
	}
	export, err := w.Export(t.Context())
	if err != nil || len(export.Spec.Skills) != 1 || len(export.Spec.Agents) != 3 || len(export.Spec.Rules) != 1 || len(export.Spec.Policies) != 0 {
		t.Errorf("left: %+v, %v", export.Spec, err)
	}
}

// A label is a change: it lets a later apply delete the part. So it is shown and recorded once.
func TestLabelIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unlabeled := strings.Replace(pruned, `"label":"platform","prune":true,`, "", 1)
	w.registry.ApplyJSON(unlabeled)
	before := w.db.Count("audit_events")
	want := []string{"update policy two", "update skill ledger", "update skill mail", "update agent billing", "unchanged assignment billing/ledger", "unchanged assignment billing/mail", "update rule never"}
	dry, err := w.Apply(t.Context(), operator, readSpec(t, pruned), true)
	if got := formatActions(dry); err != nil || !slices.Equal(got, want) {
		t.Errorf("dry run: %v, %v", got, err)
	}
	for _, change := range w.registry.ApplyJSON(pruned) {
		if fields := change.Fields; change.Kind != agent.KindAssignment && (len(fields) != 1 || fields[0].Field != "label" || fields[0].Old != "" || fields[0].New != "platform") {
			t.Errorf("%s %s: %+v", change.Kind, change.Name, fields)
		}
	}
	if n := w.db.Count("audit_events") - before; n != 5 {
		t.Errorf("%d events, want one of each part", n)
	}
	w.registry.ApplyJSON(pruned)
	if n := w.db.Count("audit_events") - before; n != 5 {
		t.Errorf("%d events after the same again", n)
	}
}

// A part that was deleted elsewhere, and made again there, no longer belongs to the files.
func TestLabelEndsWithItsPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(pruned)
	if err := w.DeleteRule(t.Context(), operator, "never"); err != nil {
		t.Fatal(err)
	}
	if err := w.DeleteAgent(t.Context(), operator, w.registry.Agent("billing").ID); err != nil {
		t.Fatal(err)
	}
	w.db.Exec(`INSERT INTO labels VALUES ('rule', 'never', 'platform')`) // an older version deletes no labels
	w.registry.ApplyJSON(`{"rules":[{"name":"never","effect":"park"}],"agents":[{"name":"billing"}]}`)
	got := formatActions(w.registry.ApplyJSON(`{"label":"platform","prune":true}`))
	if want := []string{"delete skill ledger", "delete skill mail", "delete policy two"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestLabelErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(pruned)
	w.registry.ApplyJSON(`{"rules":[{"name":"big","effect":"park","policy":"two"}]}`)
	for name, tc := range map[string]struct{ spec, field, expected string }{
		"no label":         {`{"prune":true}`, "label", "is required"},
		"no name":          {`{"label":"a b"}`, "label", "must be"},
		"another label":    {`{"label":"desk","rules":[{"name":"never","effect":"deny"}]}`, "rules[0].name", `has the label "platform"`},
		"a policy in use":  {`{"label":"platform","prune":true}`, "prune", `the policy "two": it is used by`},
		"an invalid skill": {`{"label":"platform","prune":true,"skills":[{"name":"ledger","transport":"http"}]}`, "skills[0].url", ""},
	} {
		_, err := w.Apply(t.Context(), operator, readSpec(t, tc.spec), false)
		invalid, ok := errors.AsType[*fault.InvalidError](err)
		if !ok || !slices.ContainsFunc(invalid.Fields, func(f fault.Field) bool { return f.Name == tc.field && strings.Contains(f.Expected, tc.expected) }) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := w.db.Count("skills WHERE deleted_at IS NOT NULL"); n != 0 {
		t.Errorf("an error deleted %d skills", n)
	}
}
