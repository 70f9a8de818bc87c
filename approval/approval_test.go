package approval_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	open := approval.Facts{AutoApprove: true, Known: true, Accepted: true, EverSeen: true}
	with := func(change func(f *approval.Facts)) approval.Facts {
		q := open
		change(&q)
		return q
	}
	untested := judgeAll()
	for name, tc := range map[string]struct {
		q    approval.Facts
		want approval.Verdict
	}{
		"nothing is known":           {approval.Facts{}, approval.Verdict{Action: approval.Deny, Rule: approval.RuleToolGone}},
		"auto-approved":              {open, approval.Verdict{Action: approval.Allow, Rule: approval.RuleAutoApproved}},
		"gated":                      {with(func(f *approval.Facts) { f.AutoApprove = false }), approval.Verdict{Action: approval.Park, Rule: approval.RuleGated}},
		"high risk":                  {with(func(f *approval.Facts) { f.HighRisk = true }), approval.Verdict{Action: approval.Park, Rule: approval.RuleHighRisk}},
		"changed":                    {with(func(f *approval.Facts) { f.Accepted = false }), approval.Verdict{Action: approval.Park, Rule: approval.RuleDefinitionChanged}},
		"new":                        {with(func(f *approval.Facts) { f.Accepted, f.EverSeen = false, false }), approval.Verdict{Action: approval.Park, Rule: approval.RuleNewTool}},
		"disabled":                   {with(func(f *approval.Facts) { f.Disabled = true }), approval.Verdict{Action: approval.Deny, Rule: approval.RuleDisabled}},
		"disabled, gated, high risk": {approval.Facts{Disabled: true, HighRisk: true, Known: true}, approval.Verdict{Action: approval.Deny, Rule: approval.RuleDisabled}},
		"refused":                    {with(func(f *approval.Facts) { f.Refused = true }), approval.Verdict{Action: approval.Deny, Rule: approval.RuleRefused}},
		"refused, changed, gated":    {approval.Facts{Refused: true, Known: true, EverSeen: true}, approval.Verdict{Action: approval.Deny, Rule: approval.RuleRefused}},
		"refused, and gone":          {approval.Facts{Refused: true}, approval.Verdict{Action: approval.Deny, Rule: approval.RuleToolGone}},
		"gone":                       {with(func(f *approval.Facts) { f.Known = false }), approval.Verdict{Action: approval.Deny, Rule: approval.RuleToolGone}},
	} {
		if got := approval.Judge(tc.q); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
		delete(untested, tc.want.Rule)
	}
	for rule := range untested {
		t.Errorf("no row of this table has the rule %s", rule)
	}
}

// judgeAll judges all combinations of facts, and returns the action of each rule.
func judgeAll() map[approval.Rule]approval.Action {
	actions := map[approval.Rule]approval.Action{}
	for bits := range 1 << reflect.TypeFor[approval.Facts]().NumField() {
		var q approval.Facts
		for i := range reflect.TypeFor[approval.Facts]().NumField() {
			reflect.ValueOf(&q).Elem().Field(i).SetBool(bits>>i&1 == 1)
		}
		verdict := approval.Judge(q)
		actions[verdict.Rule] = verdict.Action
	}
	return actions
}

// TestDigestCoversEverything changes each field of an envelope, and moves bytes between neighboring fields: each time the
// digest changes.
func TestDigestCoversEverything(t *testing.T) {
	t.Parallel()
	base := func() approval.Envelope {
		return approval.Envelope{
			ApprovalID: uuid.UUID{1}, AgentID: uuid.UUID{2}, PrincipalID: uuid.UUID{3}, SkillID: uuid.UUID{4},
			SkillRevision: 5, Tool: "write", Pin: [32]byte{6}, Arguments: []byte(`{"a":1}`), FileHashes: [][]byte{{7}, {8}},
		}
	}
	seen := map[approval.Digest]string{base().Digest(): "the envelope itself"}
	if again := base(); seen[again.Digest()] == "" {
		t.Fatal("the digest is not the same twice")
	}
	for name, change := range map[string]func(e *approval.Envelope){
		"approval":      func(e *approval.Envelope) { e.ApprovalID[15] = 1 },
		"agent":         func(e *approval.Envelope) { e.AgentID[15] = 1 },
		"principal":     func(e *approval.Envelope) { e.PrincipalID = uuid.Nil },
		"skill":         func(e *approval.Envelope) { e.SkillID[15] = 1 },
		"revision":      func(e *approval.Envelope) { e.SkillRevision = 6 },
		"tool":          func(e *approval.Envelope) { e.Tool = "writ" },
		"pin":           func(e *approval.Envelope) { e.Pin[31] = 1 },
		"arguments":     func(e *approval.Envelope) { e.Arguments = []byte(`{"a":1.0}`) },
		"file":          func(e *approval.Envelope) { e.FileHashes[1][0] = 9 },
		"files swapped": func(e *approval.Envelope) { e.FileHashes = [][]byte{{8}, {7}} },
		"files joined":  func(e *approval.Envelope) { e.FileHashes = [][]byte{{7, 8}} },
		"no files":      func(e *approval.Envelope) { e.FileHashes = nil },
	} {
		e := base()
		change(&e)
		if other, ok := seen[e.Digest()]; ok {
			t.Errorf("%s: the same digest as %s", name, other)
		}
		seen[e.Digest()] = name
	}
}

func TestParseDigest(t *testing.T) {
	t.Parallel()
	want := approval.Envelope{Tool: "x"}.Digest()
	if got, err := approval.ParseDigest(want.String()); err != nil || got != want {
		t.Fatalf("ParseDigest: %s, %v", got, err)
	}
	for _, text := range []string{"", "00", strings.ToUpper(want.String()), want.String() + "0", " " + want.String()[1:], strings.Repeat("g", 64)} {
		if _, err := approval.ParseDigest(text); !errors.Is(err, approval.ErrDigestMismatch) {
			t.Errorf("ParseDigest(%q): %v, want a mismatch", text, err)
		}
	}
}
