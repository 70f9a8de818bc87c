package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const ruleText = `{"name":"small","agents":[],"skills":["ledger"],"tools":["post_*"],"when":"args.amount <= 100.0","effect":"allow","mode":"shadow",` +
	`"message":null,"high_risk":false,"revision":7,"changed_at":"2026-01-02T03:04:00Z","changed_by":{"id":"p1","name":"olga","issuer":"holdpoint","subject":"olga"},` +
	`"warnings":[{"skill":"ledger","tool":"post_fee","message":"1:6: args has no field amount"}],"shadow":{"since":"2026-01-02T03:04:00Z","complete":true,"matched":41,"failed":0,` +
	`"outcomes":[{"would":"allow","calls":40,"approved":38,"edited":1,"rejected":1,"expired":0,"cancelled":0,"waiting":0,"not_asked":0}],` +
	`"rejected":[{"call_id":"c1","agent":"billing","skill":"ledger","tool":"post_fee","created_at":"2026-01-02T03:05:00Z"}]}}`

func TestRulesAreShown(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/rules", `{"items":[`+ruleText+`],"next_cursor":null}`).setAnswer("GET /api/v1/rules/small", ruleText).
		setAnswer("GET /api/v1/rules/small/history", `{"items":[{"revision":8,"changed_at":"2026-01-02T03:05:00Z","changed_by":null,"rule":null},`+
			`{"revision":7,"changed_at":"2026-01-02T03:04:00Z","changed_by":null,"rule":`+ruleText+`}],"next_cursor":null}`)
	wantContains(t, "list", f.run("rules", "list").wantCode(t, 0).stdout, "small", "allow", "shadow", "skills ledger; tools post_*", "args.amount <= 100.0", "1\n")
	wantContains(t, "show", f.run("rules", "show", "small").wantCode(t, 0).stdout, "Revision", "7", "olga", "Does not fit  ledger: post_fee: 1:6: args has no field amount", "\nCondition\nargs.amount <= 100.0\n\nIt holds if the argument amount is at most 100.\n",
		"In shadow mode it matched 41 calls (since ", "c1", "ledger: post_fee", "allow  40     38        1       1")
	wantContains(t, "history", f.run("rules", "history", "small").wantCode(t, 0).stdout, "8 ", "(deleted)", "args.amount <= 100.0")
	if got := f.run("rules", "show", "small", "--json").wantCode(t, 0).stdout; got != ruleText+"\n" {
		t.Errorf("--json: %s", got)
	}
}

// rules set changes the fields that flags name, of the revision that it read.
func TestRulesSet(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/rules/small", ruleText).setAnswer("PUT /api/v1/rules/small", ruleText).setAnswer("PUT /api/v1/rules/new", ruleText)
	for _, tc := range []struct {
		args []string
		body string
	}{
		{[]string{"small", "--mode", "enforce"}, `{"effect":"allow","high_risk":false,"mode":"enforce","revision":7,"skills":["ledger"],"tools":["post_*"],"when":"args.amount <= 100.0"}`},
		{[]string{"small", "--tool", "", "--effect", "deny", "--message", "no", "--revision", "6"}, `{"effect":"deny","high_risk":false,"message":"no","mode":"shadow","revision":6,"skills":["ledger"],"when":"args.amount <= 100.0"}`},
		{[]string{"new", "--effect", "park", "--skill", "a,b"}, `{"effect":"park","revision":0,"skills":["a","b"]}`},
	} {
		f.run(append([]string{"rules", "set"}, tc.args...)...).wantCode(t, 0)
		if got := f.getLastBody(); got != tc.body {
			t.Errorf("%v: sent %s", tc.args, got)
		}
	}
	wantContains(t, "stderr", f.run("rules", "set", "new", "--mode", "off").wantCode(t, 1).stderr, "there is no rule new", "--effect")
	wantContains(t, "stderr", f.run("rules", "set", "small", "--file", "x.yaml", "--mode", "off").wantCode(t, 1).stderr, "--file excludes --mode")
}

// A rule in a file is sent as it is written, and errors about it name its lines.
func TestRulesSetFromFile(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("PUT /api/v1/rules/small", ruleText)
	const rule = "effect: allow\nskills: [ledger]\nwhen: |\n  args.amount <= 100.0 &&\n  args.currency == \"EUR\"\n"
	run(t, f.env(), rule, "rules", "set", "small", "--file", "-").wantCode(t, 0)
	if got := f.getLastBody(); got != `{"effect":"allow","skills":["ledger"],"when":"args.amount \u003c= 100.0 \u0026\u0026\n  args.currency == \"EUR\"\n"}` &&
		got != `{"effect":"allow","skills":["ledger"],"when":"args.amount <= 100.0 &&\nargs.currency == \"EUR\"\n"}` {
		t.Errorf("sent %s", got)
	}
	wantContains(t, "another name", run(t, f.env(), "name: big\n"+rule, "rules", "set", "small", "--file", "-").wantCode(t, 1).stderr, "standard input:1:1: name: must be small, or omitted")
	wantContains(t, "an unknown key", run(t, f.env(), "efect: allow\n", "rules", "set", "small", "--file", "-").wantCode(t, 1).stderr, `standard input:1:1: unknown key "efect"`)
	f.setProblem("PUT /api/v1/rules/small", 422, `{"title":"Unprocessable Entity","status":422,"code":"invalid_request","detail":"x","errors":[{"location":"body.when","message":"1:6: args has no field amuont: did you mean amount?"}]}`)
	wantContains(t, "a problem", run(t, f.env(), rule, "rules", "set", "small", "--file", "-").wantCode(t, 1).stderr, "standard input:3:1: when: 1:6: args has no field amuont: did you mean amount?")
}

func TestRulesCheck(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.setAnswer("POST /api/v1/rules/check", `{"problems":[],"tools":[{"skill":"ledger","tool":"a","problems":[]},{"skill":"ledger","tool":"b","problems":[{"line":1,"column":6,"message":"args has no field m"}]}]}`)
	got := f.run("rules", "check", "--when", "args.m > 1", "--skill", "ledger").wantCode(t, 1)
	if f.getLastBody() != `{"skills":["ledger"],"when":"args.m > 1"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	wantContains(t, "problems", got.stdout, "ledger: b: 1:6: args has no field m\n", "The condition fits 1 of 2 tools in the scope.\n")
	f.setAnswer("POST /api/v1/rules/check", `{"problems":[{"line":1,"column":3,"message":"unexpected the end of the condition"}],"tools":[]}`)
	if got := f.run("rules", "check", "--when", "a <").wantCode(t, 1); got.stdout != "1:3: unexpected the end of the condition\n" {
		t.Errorf("stdout %s", got.stdout)
	}
	f.setAnswer("POST /api/v1/rules/check", `{"problems":[],"tools":[]}`)
	wantContains(t, "no tool", f.run("rules", "check", "--when", "args.m > 1").wantCode(t, 0).stdout, "No listed tool is in the scope")
}

// calls show and approvals show name the rules that were applied.
func TestCallsShowTheirRules(t *testing.T) {
	t.Parallel()
	const rules = `"rules":[{"name":"limit","revision":3,"effect":"allow","mode":"enforce","failure":"no such key: amount"},{"name":"night","revision":4,"effect":"deny","mode":"shadow","failure":null}],`
	f := newFake(t).setAnswer("GET /api/v1/approvals/a1", strings.Replace(approvalText, `"digest"`, rules+`"digest"`, 1)).
		setAnswer("GET /api/v1/calls/a1", `{"id":"a1","status":"parked","agent":"billing","skill":"files","tool":"write","arguments":{},"files":[],"result":null,`+rules+`"created_at":"2026-01-02T03:04:00Z"}`)
	for _, group := range []string{"calls", "approvals"} {
		wantContains(t, group, f.run(group, "show", "a1").wantCode(t, 0).stdout,
			"limit (revision 3): allow, but failed, so the call is parked: no such key: amount", "night (revision 4): deny, in shadow mode: it had no effect")
	}
}

// writeFiles writes files into a new folder and returns its path.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const testedRules = `skills: [{name: ledger, transport: http, url_env: NOT_SET}]
rules:
  - {name: small, skills: [ledger], when: args.amount <= 100.0, effect: allow}
  - {name: night, when: now.getHours("Europe/Berlin") < 6, effect: deny}
  - {name: maybe, skills: [ledger], when: args.amount == 5.0, effect: deny, mode: shadow}
  - {name: unused, effect: deny, mode: "off"}
`

// rules test names each failed test with its line, what was expected and what came.
func TestRulesTest(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{"holdpoint.yaml": testedRules, "tests.yaml": `tests:
  - {rule: small, skill: ledger, tool: pay, arguments: {amount: 100.5}, matches: true}
  - {rule: small, skill: other, tool: pay, arguments: {amount: 1}, matches: true}
  - {rule: small, skill: ledger, tool: pay, arguments: {}, matches: false}
  - {rule: small, skill: ledger, tool: pay, arguments: {amount: 5}, matches: false}
  - {rule: gone, skill: ledger, tool: pay, matches: true}
  - {rule: night, skill: ledger, tool: pay, matches: true}
  - name: five
    skill: ledger
    tool: pay
    arguments: {amount: 5}
    now: 2026-01-01T12:00:00Z
    verdict: deny
  - {rule: unused, skill: ledger, tool: pay, matches: true}
  - {name: by night, rule: night, skill: ledger, tool: pay, now: '2026-01-01T04:59:00Z', arguments: {amount: 5}, matches: true, verdict: deny}
  - {name: no rule, skill: other, tool: pay, now: '2026-01-01T12:00:00Z', verdict: park}
  - {name: no rule, skill: other, tool: pay, now: '2026-01-01T12:00:00Z', auto_approved: true, verdict: allow}
  - {name: risk, skill: ledger, tool: pay, now: '2026-01-01T12:00:00Z', arguments: {amount: 1}, high_risk: true, verdict: allow}
`})
	file := filepath.Join(dir, "tests.yaml")
	got := run(t, nil, "", "rules", "test", file).wantCode(t, 1)
	want := file + `:2:73: tests[0]: matches: expected a match, got no match
` + file + `:3:68: tests[1]: matches: expected a match, got none: the call is not in the rule's scope
` + file + `:4:60: tests[2]: matches: expected no match, but the rule failed: no such key: amount
` + file + `:5:69: tests[3]: matches: expected no match, got a match
` + file + `:6:6: tests[4]: rule: there is no rule gone
` + file + `:7:5: tests[5]: now: must be given, because the rule reads the time
` + file + `:13:5: five: verdict: expected deny, got allow, because rule_allowed: matched by small (allow), maybe (deny, shadow)
` + file + `:18:114: risk: verdict: expected allow, got park, because high_risk: matched by small (allow)
4 tests passed, 8 failed
`
	if got.stdout != want {
		t.Errorf("stdout\n%s\nwant\n%s", got.stdout, want)
	}
	got = run(t, nil, "", "rules", "test", "--json", file).wantCode(t, 1)
	wantContains(t, "--json", got.stdout, `{"failed":8,"items":[{"file":"`+file+`","line":2,"column":73,"test":"tests[0]","message":"matches: expected`, `"passed":4}`)
}

// What rules test cannot read is an error at its line, and no test runs.
func TestRulesTestRefuses(t *testing.T) {
	t.Parallel()
	const rules, tests = "rules: [{name: small, skills: [ledger], when: args.amount <= 100.0, effect: allow}]\n", "tests: [{rule: small, skill: ledger, tool: pay, matches: true}]\n"
	const schema = "schema: {ledger/pay: {type: object, properties: {amount: {type: number}, sum: {type: number}}}, mail/send: {type: object, properties: {to: {type: string}}}}\n"
	for name, tc := range map[string]struct{ rules, tests, want string }{
		"no rules":           {"", tests, "holdpoint.yaml: no such file"},
		"an unknown key":     {rules, "tests: [{rul: small}]", `tests.yaml:1:10: tests[0]: unknown key "rul"`},
		"nothing expected":   {rules, "tests: [{skill: ledger, tool: pay}]", `tests.yaml:1:9: tests[0]: must say what is expected`},
		"no rule to match":   {rules, "tests: [{skill: ledger, tool: pay, matches: true}]", `tests[0]: must have both "rule" and "matches"`},
		"no tool":            {rules, "tests: [{skill: ledger, verdict: park}]", `tests[0].tool: must be the name of a tool`},
		"a verdict":          {rules, "tests: [{skill: ledger, tool: pay, verdict: approve}]", `tests.yaml:1:36: tests[0].verdict: must be allow, park or deny`},
		"a time":             {rules, "tests: [{skill: ledger, tool: pay, verdict: park, now: noon}]", `tests[0].now: must be a time`},
		"an earlier call":    {rules, "tests: [{skill: ledger, tool: pay, verdict: park, earlier: [{ago: yesterday}]}]", `tests[0].earlier[0].ago: must be how long ago the call was sent`},
		"a field of a sum":   {strings.Replace(rules, "args.amount <= 100.0", `'spent("amuont", "1h") < 1.0'`, 1), schema + tests, `rules[0].when: 1:7: args has no field amuont: did you mean amount? (tool pay of skill ledger)`},
		"a schema's name":    {rules, "schema: {ledger: {}}\n" + tests, `schema.ledger: must be a skill and a tool`},
		"a rule's effect":    {strings.Replace(rules, "allow", "approve", 1), tests, `holdpoint.yaml:1:69: rules[0].effect: must be allow, park or deny`},
		"a name twice":       {"rules:\n  - {name: a, effect: park}\n  - {name: a, effect: deny}\n", tests, `holdpoint.yaml:3:6: rules[1].name: "a" is named twice`},
		"a schema":           {rules, "schema: {ledger/pay: {type: 5}}\n" + tests, `tests.yaml:1:10: schema.ledger/pay: `},
		"a condition":        {strings.Replace(rules, "<=", "=", 1), tests, `holdpoint.yaml:1:41: rules[0].when: 1:13: unexpected =: write == to compare`},
		"a field of no tool": {strings.Replace(rules, "amount", "amuont", 1), schema + tests, `rules[0].when: 1:6: args has no field amuont: did you mean amount? (tool pay of skill ledger)`},
		"a type":             {strings.Replace(rules, "100.0", "100", 1), schema + tests, `rules[0].when: 1:13: cannot compare a number with an integer: write 100.0 (tool pay of skill ledger)`},
	} {
		files := map[string]string{"tests.yaml": tc.tests}
		if tc.rules != "" {
			files["holdpoint.yaml"] = tc.rules
		}
		dir := writeFiles(t, files)
		got := run(t, nil, "", "rules", "test", filepath.Join(dir, "tests.yaml")).wantCode(t, 1)
		if !strings.Contains(got.stderr, tc.want) {
			t.Errorf("%s: %s, want %s", name, got.stderr, tc.want)
		}
	}
	run(t, nil, "", "rules", "test").wantCode(t, 1)
	dir := writeFiles(t, map[string]string{"tests.yaml": tests, "mine.yaml": rules})
	got := run(t, nil, "", "rules", "test", "--rules", filepath.Join(dir, "mine.yaml"), filepath.Join(dir, "tests.yaml")).wantCode(t, 1)
	wantContains(t, "--rules", got.stdout, "the rule failed: no such key: amount", "0 tests passed, 1 failed")
}

// Numbers of tests are as they are written: no digit is lost.
func TestRulesTestKeepsNumbers(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{
		"holdpoint.yaml": "rules: [{name: r, when: args.n == 9007199254740993, effect: park}]",
		"tests.yaml": `schema: {a/b: {type: object, properties: {n: {type: integer}}}}
tests:
  - {rule: r, skill: a, tool: b, arguments: {n: 9007199254740993}, matches: true}
  - {rule: r, skill: a, tool: b, arguments: {n: 9007199254740992}, matches: false}
  - {rule: r, skill: a, tool: b, arguments: {n: 9007199254740993.0}, matches: true}
`,
		"invalid.yaml": "schema: {a/b: {type: object, properties: {n: {type: integer}}}}\ntests: [{rule: r, skill: a, tool: b, arguments: {n: many}, matches: false}]",
	})
	if got := run(t, nil, "", "rules", "test", filepath.Join(dir, "tests.yaml")).wantCode(t, 0).stdout; got != "3 tests passed, 0 failed\n" {
		t.Errorf("stdout %s", got)
	}
	got := run(t, nil, "", "rules", "test", filepath.Join(dir, "invalid.yaml")).wantCode(t, 1).stdout
	wantContains(t, "arguments that the server refuses", got, "invalid.yaml:2:38: tests[0]: arguments: must fit the tool's schema, or the call is invalid and no rule sees it: /n: ")
}

// TestRuleBook runs the tests of the rule book in docs/rules.md, which shows both files.
func TestRuleBook(t *testing.T) {
	t.Parallel()
	const folder = "../../../../docs/"
	page, err := os.ReadFile(folder + "rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rules/holdpoint.yaml"} {
		text, err := os.ReadFile(folder + name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```yaml\n"+string(text)+"```\n") {
			t.Errorf("docs/rules.md does not show docs/%s as it is", name)
		}
	}
	got := run(t, nil, "", "rules", "test", folder+"rules/tests.yaml")
	if got.code != 0 {
		t.Errorf("docs/rules/tests.yaml: %s%s", got.stdout, got.stderr)
	}
}

// rules replay sends the stored rule, or the one of a file, and lists the calls with another verdict.
func TestRulesReplay(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/rules/small", ruleText)
	f.setAnswer("POST /api/v1/rules/replay", `{"judged":4711,"matched":40,"failed":1,"since":"2026-01-02T03:04:00Z","complete":false,"differing":2,"rejected":1,"differences":[`+
		`{"call_id":"c1","agent":"billing","skill":"ledger","tool":"post_fee","created_at":"2026-01-02T03:05:00Z","before":"park","after":"allow","decision":"rejected","failure":null}]}`)
	got := f.run("rules", "replay", "small").wantCode(t, 0).stdout
	wantContains(t, "replay", got, "4711, since", "there are older ones", "Of these rejected  1", "c1", "billing", "ledger: post_fee", "rejected", "allow")
	if body := f.getLastBody(); body != `{"effect":"allow","high_risk":false,"mode":"shadow","name":"small","skills":["ledger"],"tools":["post_*"],"when":"args.amount <= 100.0"}` &&
		body != `{"effect":"allow","high_risk":false,"mode":"shadow","name":"small","skills":["ledger"],"tools":["post_*"],"when":"args.amount \u003c= 100.0"}` {
		t.Errorf("sent %s", body)
	}
	run(t, f.env(), "effect: deny\ntools: [drop_*]\n", "rules", "replay", "tried", "--file", "-").wantCode(t, 0)
	if body := f.getLastBody(); body != `{"effect":"deny","name":"tried","tools":["drop_*"]}` {
		t.Errorf("sent %s", body)
	}
	f.setProblem("POST /api/v1/rules/replay", 422, `{"title":"Unprocessable Entity","status":422,"code":"invalid_request","detail":"x","errors":[{"location":"body.effect","message":"must be allow, park or deny"}]}`)
	wantContains(t, "a problem", run(t, f.env(), "effect: alow\n", "rules", "replay", "tried", "--file", "-").wantCode(t, 1).stderr, "standard input:1:1: effect: must be allow, park or deny")
}
