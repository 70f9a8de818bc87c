package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func newRulesTestCmd(e *Env) *cobra.Command {
	var rules string
	cmd := &cobra.Command{
		Use: "test FILE…", Short: "Test rules with examples that must and must not match",
		Long: `Test rules with examples that must and must not match. No running Holdpoint is needed. The rules are
those of holdpoint.yaml in the folder of the tests, or of --rules.

A test names an agent, a skill, a tool and arguments, and says whether one rule matches the call, or
what all rules together do with it: allow, park or deny. Without a rule the call would be parked; with
"auto_approved: true" it would be allowed, and with "high_risk: true" the tool is marked as high risk.
With the tools' input schemas in "schema", conditions and arguments are checked as a server does it.

  schema:
    ledger/post_payment: {type: object, properties: {amount: {type: number}}}
  tests:
    - {rule: small-payments, agent: billing, skill: ledger, tool: post_payment,
       arguments: {amount: 50.0}, matches: true}
    - {name: large sums wait, agent: billing, skill: ledger, tool: post_payment,
       arguments: {amount: 5000.0}, verdict: park}

"now" and "principal: {email, name, groups}" set the time and the person, "claimed: {read_only}" the
hints of the tool's server, "context: {cwd, paths}" what the caller of a gate-only call says. "earlier" lists calls that were sent before, for rules that count:

    - {rule: hourly-limit, skill: ledger, tool: post_payment, arguments: {amount: 2000.0},
       earlier: [{ago: 10m, arguments: {amount: 4000.0}}], matches: false}`,
		Example: "  holdpoint rules test rules_test.yaml\n  holdpoint rules test --rules holdpoint.yaml tests/*.yaml",
		Args: usage(func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misusef("name a file with tests")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.testRules(cmd.Context(), rules, args)
		},
	}
	cmd.Flags().StringVar(&rules, "rules", "", "file with the rules (default holdpoint.yaml in the folder of the tests)")
	return cmd
}

// ruleTest is an example of a call, and what rules have to do with it.
type ruleTest struct {
	Name      string          `json:"name"`
	Rule      string          `json:"rule"`
	Agent     string          `json:"agent"`
	Skill     string          `json:"skill"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Now       string          `json:"now"`
	Principal *testPrincipal  `json:"principal"`
	Claimed   struct {
		ReadOnly    *bool `json:"read_only"`
		Destructive *bool `json:"destructive"`
		Idempotent  *bool `json:"idempotent"`
		OpenWorld   *bool `json:"open_world"`
	} `json:"claimed"`
	Context struct {
		Cwd   string   `json:"cwd"`
		Paths []string `json:"paths"`
	} `json:"context"`
	Earlier      []earlierCall `json:"earlier"`
	AutoApproved bool          `json:"auto_approved"`
	HighRisk     bool          `json:"high_risk"`
	Matches      *bool         `json:"matches"`
	Verdict      string        `json:"verdict"`
}

// testPrincipal is the person of an example.
type testPrincipal struct {
	ID     string   `json:"id"`
	Email  string   `json:"email"`
	Name   string   `json:"name"`
	Groups []string `json:"groups"`
}

// identify returns what tells one person from another.
func (p *testPrincipal) identify() string {
	if p == nil {
		return ""
	}
	return cmp.Or(p.ID, p.Email, p.Name)
}

// earlierCall is a call that was sent before the example, for rules that count. What it leaves out is as in the example.
type earlierCall struct {
	Ago               string          `json:"ago"`
	Agent             string          `json:"agent"`
	Skill             string          `json:"skill"`
	Tool              string          `json:"tool"`
	Arguments         json.RawMessage `json:"arguments"`
	Principal         *testPrincipal  `json:"principal"`
	OtherConversation bool            `json:"other_conversation"`
}

// ruleTests is a file with tests.
type ruleTests struct {
	Schema map[string]json.RawMessage `json:"schema"` // by skill/tool
	Tests  []ruleTest                 `json:"tests"`

	declared *manifest.Manifest
	schemas  map[string]*tool.Schemas
}

func (e *Env) testRules(ctx context.Context, rulesFile string, files []string) error {
	programs := rule.NewPrograms(e.Now)
	defer programs.Close()
	books := map[string]*rule.Book{} // by file
	var revision int64               // one for each rule of all files, because programs are cached by it
	var failures manifest.Errors
	count := 0
	for _, file := range files {
		tests, err := e.readRuleTests(file)
		if err != nil {
			return err
		}
		from := cmp.Or(rulesFile, filepath.Join(filepath.Dir(file), "holdpoint.yaml"))
		book := books[from]
		if book == nil {
			specs, err := e.readRules(from, tests.Schema)
			if err != nil {
				return err
			}
			rules := make([]rule.Rule, len(specs))
			for i, spec := range specs {
				revision++
				rules[i] = rule.Rule{Spec: spec, Revision: revision}
			}
			book = rule.NewBook(revision, rules, nil, programs)
			books[from] = book
		}
		for i := range tests.Tests {
			count++
			failures = append(failures, tests.run(ctx, book, i)...)
		}
	}
	return e.showRuleTests(count, failures)
}

func (e *Env) showRuleTests(count int, failures manifest.Errors) error {
	type failure struct {
		File    string `json:"file"`
		Line    int    `json:"line"`
		Column  int    `json:"column"`
		Test    string `json:"test"`
		Message string `json:"message"`
	}
	items, failed := []failure{}, map[string]bool{}
	var b strings.Builder
	for _, f := range failures {
		items = append(items, failure{f.File, f.Place.Line, f.Place.Column, f.Path, f.Message})
		failed[f.File+" "+f.Path] = true
		b.WriteString(f.Error() + "\n")
	}
	fmt.Fprintf(&b, "%d tests passed, %d failed\n", count-len(failed), len(failed))
	var err error
	if e.json {
		err = e.printEncoded(map[string]any{"items": items, "passed": count - len(failed), "failed": len(failed)})
	} else {
		err = write(e.Stdout, Visible(b.String()))
	}
	if err == nil && len(failures) > 0 {
		err = &ExitError{Code: ExitFailure}
	}
	return err
}

// readRules reads the rules of a file, and compares their conditions with the schemas of tools.
func (e *Env) readRules(file string, schemas map[string]json.RawMessage) ([]rule.Spec, error) {
	text, err := e.readFile(file)
	if err != nil {
		return nil, err
	}
	declared, err := manifest.ParseRules(file, text, manifest.Options{Getenv: e.Getenv})
	if err != nil {
		return nil, err
	}
	var spec struct {
		Rules []rule.Spec `json:"rules"`
	}
	if err := json.Unmarshal(declared.Spec, &spec); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	types := map[string]*condition.Schema{} // by skill/tool; "": arguments of any shape
	for _, of := range append([]string{""}, slices.Sorted(maps.Keys(schemas))...) {
		if types[of], err = condition.ReadSchema(schemas[of]); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", of, err)
		}
	}
	var wrong manifest.Errors
	known := map[string]bool{}
	for i := range spec.Rules {
		r := spec.Rules[i].Normalize()
		spec.Rules[i] = r
		at := fmt.Sprintf("rules[%d]", i)
		invalid := r.Check()
		for _, f := range invalid {
			wrong = append(wrong, declared.Locate(at+"."+f.Name, f.Expected))
		}
		if known[r.Name] {
			wrong = append(wrong, declared.Locate(at+".name", fmt.Sprintf("%q is named twice", r.Name)))
		}
		known[r.Name] = true
		if len(invalid) > 0 || r.When == "" {
			continue
		}
		for _, of := range slices.Sorted(maps.Keys(types)) {
			skill, name, _ := strings.Cut(of, "/")
			if of != "" && !r.CoversTool(skill, name) {
				continue
			}
			if _, err := types[of].Compile(r.When); err != nil {
				suffix := ""
				if of != "" {
					suffix = fmt.Sprintf(" (tool %s of skill %s)", name, skill)
				}
				for problem := range strings.SplitSeq(err.Error(), "\n") {
					wrong = append(wrong, declared.Locate(at+".when", problem+suffix))
				}
				break // other tools have the same problems, or more of them
			}
		}
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return spec.Rules, nil
}

func (e *Env) readRuleTests(file string) (*ruleTests, error) {
	text, err := e.readFile(file)
	if err != nil {
		return nil, err
	}
	declared, err := manifest.ParseRuleTests(file, text, manifest.Options{Getenv: e.Getenv})
	if err != nil {
		return nil, err
	}
	tests := &ruleTests{declared: declared, schemas: map[string]*tool.Schemas{}}
	if err := json.Unmarshal(declared.Spec, tests); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var wrong manifest.Errors
	check := func(ok bool, path, expected string) {
		if !ok {
			wrong = append(wrong, declared.Locate(path, expected))
		}
	}
	for of, schema := range tests.Schema {
		skill, name, _ := strings.Cut(of, "/")
		check(skill != "" && name != "", "schema."+of, "must be a skill and a tool, such as ledger/post_payment")
		tests.schemas[of], err = tool.CompileSchemas(tool.Definition{Name: name, InputSchema: schema})
		check(err == nil, "schema."+of, fmt.Sprint(err))
	}
	for i := range tests.Tests {
		t, at := &tests.Tests[i], fmt.Sprintf("tests[%d]", i)
		check(t.Skill != "", at+".skill", "must be the name of a skill")
		check(t.Tool != "", at+".tool", "must be the name of a tool")
		check(t.Matches != nil || t.Verdict != "", at, `must say what is expected: "matches" of a rule, or "verdict"`)
		check((t.Matches != nil) == (t.Rule != ""), at, `must have both "rule" and "matches", or neither`)
		check(slices.Contains([]string{"", "allow", "park", "deny"}, t.Verdict), at+".verdict", "must be allow, park or deny")
		_, err := t.readNow()
		check(err == nil, at+".now", "must be a time such as 2026-01-31T15:04:05+01:00")
		for j, e := range t.Earlier {
			_, err := condition.ParseWindow(e.Ago)
			check(err == nil, fmt.Sprintf("%s.earlier[%d].ago", at, j), "must be how long ago the call was sent, in s, m, h or d, such as 10m")
		}
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return tests, nil
}

func (t *ruleTest) readNow() (time.Time, error) {
	if t.Now == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, t.Now)
}

// buildInput returns the call of the test.
func (t *ruleTest) buildInput() *condition.Input {
	now, _ := t.readNow() // checked before
	in := &condition.Input{
		Arguments: t.Arguments, Agent: t.Agent, Skill: t.Skill, Tool: t.Tool, Now: now,
		Claimed: condition.Hints{ReadOnly: t.Claimed.ReadOnly, Destructive: t.Claimed.Destructive, Idempotent: t.Claimed.Idempotent, OpenWorld: t.Claimed.OpenWorld},
		Context: condition.Context{Cwd: t.Context.Cwd, Paths: t.Context.Paths},
	}
	if len(in.Arguments) == 0 {
		in.Arguments = json.RawMessage(`{}`)
	}
	if p := t.Principal; p != nil {
		in.Principal = &condition.Principal{ID: p.ID, Email: p.Email, Name: p.Name, Groups: p.Groups}
	}
	return in
}

// remember answers what rules ask about the earlier calls of the test.
func (t *ruleTest) remember(ctx context.Context, prepared *rule.Prepared, in *condition.Input) rule.Memory {
	const conversation = "this one"
	judged := rule.Call{
		Subject: rule.Subject{Agent: t.Agent, Skill: t.Skill, Tool: t.Tool}, Principal: t.Principal.identify(), Conversation: conversation,
		Arguments: in.Arguments, At: in.Now,
	}
	sent := make([]rule.Call, len(t.Earlier))
	for i, e := range t.Earlier {
		ago, _ := condition.ParseWindow(e.Ago) // checked before
		c := rule.Call{
			Subject:   rule.Subject{Agent: cmp.Or(e.Agent, t.Agent), Skill: cmp.Or(e.Skill, t.Skill), Tool: cmp.Or(e.Tool, t.Tool)},
			Principal: cmp.Or(e.Principal.identify(), judged.Principal), Arguments: e.Arguments, At: in.Now.Add(-ago),
		}
		if len(c.Arguments) == 0 {
			c.Arguments = json.RawMessage(`{}`)
		}
		if c.Agent == t.Agent && !e.OtherConversation {
			c.Conversation = conversation
		}
		sent[i] = c
	}
	return rule.NewHistory(sent).Remember(ctx, prepared, in, &judged)
}

// run runs a test and returns its failures.
func (f *ruleTests) run(ctx context.Context, book *rule.Book, i int) manifest.Errors {
	t, at := &f.Tests[i], fmt.Sprintf("tests[%d]", i)
	var failures manifest.Errors
	fail := func(field, format string, args ...any) {
		failure := f.declared.Locate(at+"."+field, fmt.Sprintf(field+": "+format, args...))
		failure.Path = at
		if t.Name != "" {
			failure.Path = t.Name
		}
		failures = append(failures, failure)
	}
	schema := rule.Schema{JSON: f.Schema[t.Skill+"/"+t.Tool]}
	if schema.JSON != nil {
		schema.Pin = sha256.Sum256(schema.JSON)
	}
	in := t.buildInput()
	if schemas := f.schemas[t.Skill+"/"+t.Tool]; schemas != nil {
		problems, err := schemas.ValidateInput(ctx, in.Arguments)
		if err != nil {
			problems = []tool.Problem{{Message: err.Error()}}
		}
		if len(problems) > 0 {
			fail("arguments", "must fit the tool's schema, or the call is invalid and no rule sees it: %s", problems[0])
			return failures
		}
	}
	subject := rule.Subject{Agent: t.Agent, Skill: t.Skill, Tool: t.Tool}
	if t.Rule != "" {
		n := slices.IndexFunc(book.Rules, func(r rule.Rule) bool { return r.Name == t.Rule })
		if n < 0 {
			fail("rule", "there is no rule %s", t.Rule)
			return failures
		}
		r := &book.Rules[n]
		prepared := book.Prepare(ctx, []*rule.Rule{r}, schema)
		if t.Now == "" && prepared.ReadsTime() {
			fail("now", "must be given, because the rule reads the time")
			return failures
		}
		expected := map[bool]string{true: "a match", false: "no match"}
		if !r.Covers(subject) {
			if *t.Matches {
				fail("matches", "expected a match, got none: the call is not in the rule's scope")
			}
		} else if applied := prepared.Apply(ctx, in, t.remember(ctx, prepared, in)); len(applied) > 0 && applied[0].Failure != "" {
			fail("matches", "expected %s, but the rule failed: %s", expected[*t.Matches], applied[0].Failure)
		} else if matches := len(applied) > 0; matches != *t.Matches {
			fail("matches", "expected %s, got %s", expected[*t.Matches], expected[matches])
		}
	}
	if t.Verdict == "" {
		return failures
	}
	prepared := book.Prepare(ctx, book.Find(subject), schema)
	if t.Now == "" && prepared.ReadsTime() {
		fail("now", "must be given, because a rule reads the time")
		return failures
	}
	settings := approval.Judge(approval.Facts{AutoApprove: t.AutoApproved, HighRisk: t.HighRisk, Known: true, Accepted: true, EverSeen: true})
	v := rule.Combine(settings, prepared.Apply(ctx, in, t.remember(ctx, prepared, in)))
	if got := v.Action.String(); got != t.Verdict {
		fail("verdict", "expected %s, got %s, because %s", t.Verdict, got, explainVerdict(&v))
	}
	return failures
}

// explainVerdict names the reason for a verdict, and the rules that were applied.
func explainVerdict(v *rule.Verdict) string {
	if len(v.Applied) == 0 {
		return string(v.Rule) + ": no rule matched"
	}
	names := make([]string, len(v.Applied))
	for i := range v.Applied {
		a := &v.Applied[i]
		names[i] = a.Name + " (" + string(a.Effect)
		if a.Mode != rule.Enforce {
			names[i] += ", " + string(a.Mode)
		}
		if a.Failure != "" {
			names[i] += ", failed: " + a.Failure
		}
		names[i] += ")"
	}
	return string(v.Rule) + ": matched by " + strings.Join(names, ", ")
}
