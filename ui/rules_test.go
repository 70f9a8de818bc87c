package ui_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// ruleForm returns the fields that the form of a rule would send.
func (a *answer) ruleForm(changes url.Values) url.Values {
	a.t.Helper()
	form := a.fillForm("rule-form", nil)
	for _, list := range []string{"agents", "skills", "tools"} {
		form.Del(list)
		a.find("rule-form").Find(`input[name="` + list + `"]`).Each(func(_ int, s *goquery.Selection) { form.Add(list, s.AttrOr("value", "")) })
	}
	maps.Copy(form, changes)
	return form
}

func (w *world) setRule(spec rule.Spec) {
	w.t.Helper()
	_, err := w.agents.SetRule(w.t.Context(), audit.System(), spec, nil)
	check(w.t, err)
}

// rule returns the newest version of a rule, or nil.
func (w *world) rule(name string) *rule.Spec {
	w.t.Helper()
	rules, err := w.agents.ListRules(w.t.Context())
	check(w.t, err)
	for i := range rules {
		if rules[i].Name == name {
			return rules[i].Spec
		}
	}
	return nil
}

// decideCall decides a pending call as a person of its own.
func (w *world) decideCall(id uuid.UUID, approve bool) {
	w.t.Helper()
	_, err := w.calls.Decide(w.t.Context(), call.Decision{CallID: id, Approve: approve, Digest: w.getApproval(id).Digest.String(), By: uuid.New()})
	check(w.t, err)
	w.waitForEnd(id)
}

const wrongCondition = "args.rows.size() > 0 &&\n  args.filname == \"x.csv\""

func TestRuleForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.relist(w.skillNamed("files"))
	olga, rita := w.signedIn("olga", identity.Operator), w.signedIn("rita", identity.Reviewer)
	if a := olga.get("/rules"); a.find("empty").Length() != 1 || a.find("new-rule").Length() != 1 {
		t.Errorf("the empty list: %s", a.text())
	}
	empty := olga.get("/rules/new")
	if got := empty.doc.Find(`#f-tools-known option[value="save_csv"]`).Length(); got != 1 {
		t.Errorf("%d suggestions of save_csv", got)
	}
	if got := empty.doc.Find(`#f-skills-known option[value="files"]`).Length(); got != 1 {
		t.Errorf("%d suggestions of files", got)
	}
	form := empty.ruleForm(url.Values{
		"name": {"only-csv"}, "skills": {"files", " "}, "tools": {"save_csv"}, "when": {strings.ReplaceAll(wrongCondition, "\n", "\r\n")},
		"effect": {"deny"}, "mode": {"shadow"}, "message": {"Not this file."},
	})
	const problem = "Line 2, column 8: args has no field filname: did you mean filename? (tool save_csv of skill files)"
	for step, path := range map[string]string{"check": "/rules/check", "save": "/rules/new"} {
		a := olga.post(path, form)
		status := map[string]int{"check": http.StatusOK, "save": http.StatusUnprocessableEntity}[step]
		if got := strings.Join(strings.Fields(a.find("condition-problem").Text()), " "); a.status != status || got != problem {
			t.Errorf("%s: %d, %q", step, a.status, got)
		}
		if n := strings.Count(a.find("problems").Text(), problem); n != map[string]int{"save": 1}[step] {
			t.Errorf("%s: the summary has the problem %d times: %s", step, n, a.find("problems").Text())
		}
		area := a.doc.Find("#f-when")
		if described := a.doc.Find("#" + strings.Fields(area.AttrOr("aria-describedby", "none"))[0]).Text(); area.AttrOr("aria-invalid", "") != "true" || !strings.Contains(described, "filname") {
			t.Errorf("%s: the field is described by %q", step, described)
		}
		kept := a.ruleForm(nil)
		if kept.Get("when") != wrongCondition || kept.Get("name") != "only-csv" || kept["tools"][0] != "save_csv" || kept.Get("mode") != "shadow" || kept.Get("effect") != "deny" || kept.Get("message") != "Not this file." {
			t.Errorf("%s: %v", step, kept)
		}
	}
	if w.rule("only-csv") != nil {
		t.Error("the rule is stored")
	}

	// A script gets only the result.
	part := olga.post("/rules/check", form, "HX-Request", "true")
	if part.find("condition-problem").Length() != 1 || part.doc.Find("form, nav").Length() != 0 {
		t.Errorf("the part: %s", part.body)
	}
	if fields := part.find("field").Text(); !strings.Contains(fields, "args.filename") || !strings.Contains(fields, "principal.email") {
		t.Errorf("fields: %s", fields)
	}

	form.Set("when", `args.filename == "x.csv"`)
	if a := olga.post("/rules/check", form); !strings.Contains(a.find("checked").Text(), "fits the 1 tool in scope") {
		t.Errorf("checked: %s", a.find("checked").Text())
	}
	page := olga.get(olga.post("/rules/new", form).wantRedirect("/rules/named/only-csv"))
	for _, want := range []string{"Saved.", "Deny", "Shadow", `args.filename == "x.csv"`, "skills: files; tools: save_csv", "Not this file.", "by olga"} {
		if !strings.Contains(page.text(), want) {
			t.Errorf("the page lacks %q: %s", want, page.text())
		}
	}
	if a := olga.post("/rules/new", form); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.find("problem-name").Text(), "is taken") {
		t.Errorf("the same name: %d: %s", a.status, a.text())
	}
	form.Set("name", "no name")
	form.Set("effect", "allow")
	form["agents"] = []string{strings.Repeat("x", 300)}
	if a := olga.post("/rules/new", form); a.status != http.StatusUnprocessableEntity || a.find("problem-name").Length() != 1 || a.find("problem-agents").Length() != 1 || a.find("problem-message").Length() != 1 {
		t.Errorf("other fields: %d: %s", a.status, a.find("problems").Text())
	}
	if a := olga.post("/rules/check", form); a.status != http.StatusOK || a.find("problem-agents").Length() != 1 {
		t.Errorf("a check of other fields: %d: %s", a.status, a.text())
	}

	for path, has := range map[string]string{"/rules": "rule-row", "/rules/named/only-csv": "version"} {
		if a := rita.get(path); a.find(has).Length() != 1 || a.doc.Find(`main a[href$="/edit"], main form, main a[href="/rules/new"]`).Length() != 0 {
			t.Errorf("%s for a reviewer: %d: %s", path, a.status, a.text())
		}
	}
	if a := rita.get("/search?q=ONLY"); !strings.Contains(a.find("hit").Text(), "only-csv") {
		t.Errorf("the search finds %s", a.find("hit").Text())
	}
	if a := olga.get("/rules/named/nothing"); a.status != http.StatusNotFound || !strings.Contains(a.text(), "no such rule") {
		t.Errorf("an unknown rule: %d: %s", a.status, a.text())
	}
}

// Saving a rule after a conflicting change shows the change beside each field.
func TestRuleConflicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	w.setRule(rule.Spec{Name: "r", Skills: []string{"files"}, Effect: rule.Park})
	const path = "/rules/named/r/edit"
	form := olga.get(path).ruleForm(url.Values{"when": {`agent == "billing"`}})
	w.setRule(rule.Spec{Name: "r", Skills: []string{"files"}, Tools: []string{"save_*", "echo"}, Effect: rule.Park, Mode: rule.Off})
	late := olga.post(path, form)
	if late.status != http.StatusConflict || w.rule("r").When != "" {
		t.Fatalf("%d: %s", late.status, late.text())
	}
	for field, now := range map[string]string{"tools": "save_*, echo", "mode": "Off", "when": "none"} {
		if got := late.find("now-" + field).Text(); !strings.Contains(got, "Current value: "+now) {
			t.Errorf("%s: %q", field, got)
		}
	}
	if late.find("now-skills").Length() != 0 {
		t.Error("the skills differ")
	}
	olga.post(path, late.ruleForm(nil)).wantRedirect("done=saved")
	if got := w.rule("r"); got.When != `agent == "billing"` || len(got.Tools) != 0 || got.Mode != rule.Enforce {
		t.Errorf("saved again, knowingly: %+v", got)
	}

	form = olga.get(path).ruleForm(url.Values{"effect": {"deny"}})
	check(t, w.agents.DeleteRule(t.Context(), audit.System(), "r"))
	if late = olga.post(path, form); late.status != http.StatusConflict || w.rule("r") != nil {
		t.Fatalf("deleted meanwhile: %d: %s", late.status, late.text())
	}
	olga.post(path, late.ruleForm(nil)).wantRedirect("done=saved")
	if got := w.rule("r"); got == nil || got.Effect != rule.Deny {
		t.Errorf("created again, knowingly: %+v", got)
	}
}

func TestRuleVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	w.setRule(rule.Spec{Name: "new", When: `agent == "one"`, Effect: rule.Allow, HighRisk: true})
	olga.post("/rules/named/new/edit", olga.get("/rules/named/new/edit").ruleForm(url.Values{"when": {"agent == \"two\""}, "high_risk": nil})).wantRedirect("done=saved")
	page := olga.get("/rules/named/new")
	if n := page.find("version").Length(); n != 2 {
		t.Fatalf("%d versions: %s", n, page.text())
	}
	changed := page.find("version").First()
	for _, want := range []string{"by olga", `agent == \"one\"`, `agent == \"two\"`, "high_risk"} {
		if !strings.Contains(changed.Text(), want) {
			t.Errorf("the change lacks %q: %s", want, changed.Text())
		}
	}
	if changed.Find("[data-testid=restore]").Length() != 0 || page.find("restore").Length() != 1 {
		t.Error("only the first version can be restored")
	}
	restore := olga.get(page.find("restore").AttrOr("href", ""))
	form := restore.ruleForm(nil)
	if form.Get("when") != `agent == "one"` || form.Get("high_risk") != "on" || !strings.Contains(restore.text(), "These are the values of version") {
		t.Errorf("the form: %v", form)
	}
	olga.post("/rules/named/new/edit", form).wantRedirect("done=saved")
	if got := w.rule("new"); got.When != `agent == "one"` || !got.HighRisk {
		t.Errorf("restored: %+v", got)
	}

	gone := olga.get(olga.post("/rules/named/new/delete", nil).wantRedirect("/rules"))
	if !strings.Contains(gone.text(), "Rule deleted") || w.rule("new") != nil {
		t.Errorf("deleted: %s", gone.text())
	}
	page = olga.get("/rules/named/new")
	if page.find("edit").Length() != 0 || page.find("version").Length() != 4 || page.find("restore").Length() != 3 || !strings.Contains(page.text(), "The rule was deleted.") {
		t.Errorf("the page of a deleted rule: %s", page.text())
	}
	form = olga.get(page.find("restore").Last().AttrOr("href", "")).ruleForm(nil)
	olga.post("/rules/named/new/edit", form).wantRedirect("done=saved")
	if got := w.rule("new"); got == nil || got.When != `agent == "one"` {
		t.Errorf("restored after it was deleted: %+v", got)
	}
	if a := olga.get("/rules/named/new/edit?version=999999"); a.status != http.StatusNotFound {
		t.Errorf("a version that does not exist: %d", a.status)
	}
}

// A rule whose condition does not fit a tool any more has a warning.
func TestRuleWarnings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := w.skillNamed("files")
	w.setRule(rule.Spec{Name: "names", Skills: []string{"files"}, Tools: []string{"save_csv"}, When: `args.title == "x"`, Effect: rule.Park, Mode: rule.Shadow})
	w.relist(files)
	olga := w.signedIn("olga", identity.Operator)
	if list := olga.get("/rules").find("rule-row").Text(); !strings.Contains(list, "Does not fit 1 tool") || !strings.Contains(list, "Shadow") {
		t.Errorf("the list: %s", list)
	}
	if got := olga.get("/rules/named/names").find("misfits").Text(); !strings.Contains(got, "tool save_csv of skill files") || !strings.Contains(got, "args has no field title") {
		t.Errorf("the rule: %s", got)
	}
}

func TestRulesOfCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rita := w.signedIn("rita", identity.Reviewer)
	scope := []string{"files"}
	w.setRule(rule.Spec{Name: "never", Skills: scope, When: `args.filename == "never"`, Effect: rule.Deny, Mode: rule.Shadow})
	w.setRule(rule.Spec{Name: "asks", Skills: scope, When: `args.filename.startsWith("ask")`, Effect: rule.Park})
	w.setRule(rule.Spec{Name: "domains", Skills: scope, When: `domain(args.filename) == "example.com"`, Effect: rule.Allow})
	said := func(part, filename string) []string {
		t.Helper()
		id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"`+filename+`"}`)
		var list []string
		rita.get(callPath(id)).doc.Find(part + " [data-testid=applied-rule]").Each(func(_ int, s *goquery.Selection) {
			if s.Find("a[href^='/rules/named/']").Length() != 1 {
				t.Errorf("no link: %s", s.Text())
			}
			list = append(list, strings.Join(strings.Fields(s.Text()), " "))
		})
		return list
	}
	const why, other = "[data-testid=why]", "section:not([data-testid=why])"
	if got := said(why, "ask"); !slices.Contains(got, "Rule asks requires an approval.") || !slices.ContainsFunc(got, func(one string) bool {
		return strings.HasPrefix(one, "Rule domains could not be evaluated, so the call needs an approval: domain: ")
	}) {
		t.Errorf("%q", got)
	}
	if got := said(why, "never"); !slices.Contains(got, "Rule never is in shadow mode. It would have denied this call.") {
		t.Errorf("%q", got)
	}
	if got := said(other, "a@example.com"); !slices.Equal(got, []string{"Rule domains allows this call."}) {
		t.Errorf("%q", got)
	}
	w.setRule(rule.Spec{Name: "never", Skills: scope, When: `args.filename.startsWith("never")`, Effect: rule.Deny})
	if got := said(other, "never again"); !slices.Contains(got, "Rule never denies this call.") {
		t.Errorf("%q", got)
	}

	// A failure quotes no hidden value.
	w.setRule(rule.Spec{Name: "domains", Skills: scope, When: `domain(args.password) == "example.com"`, Effect: rule.Park, Mode: rule.Shadow})
	page := rita.get(callPath(w.submit(uuid.Nil, "files__save_csv", `{"filename":"f","password":"hunter2"}`)))
	if strings.Contains(page.body, "hunter2") || !strings.Contains(page.find("why").Text(), "It could not be evaluated, so it would have required an approval: ") {
		t.Errorf("a secret: %s", page.text())
	}
}

// An operator writes a rule with a mistake, sees it at its place, corrects it with a completed name, replays it on recorded calls, sees on a call and on
// the page of the rule what it would have done, and enforces it.
func TestRuleJourney(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.relist(w.skillNamed("files"))
	recorded := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x.csv","rows":[2]}`)
	w.decideCall(recorded, false)
	p := w.signInWith(browsertest.Options{})
	choose := func(field, value string) {
		t.Helper()
		browsertest.Eval[string](p, `document.querySelector("#f-`+field+`").value = "`+value+`"`)
	}
	p.Go(w.server.URL + "/rules")
	p.Click("new-rule")
	p.WaitFor("scripts to work", `document.querySelector("[data-testid=rule-form][data-htmx-powered]") !== null`)
	p.ClickOn("#f-name")
	p.Press("only-csv")
	p.ClickOn("#f-skills input")
	p.Press("files")
	p.ClickOn("#f-tools input")
	p.Press("save_csv")
	choose("effect", "deny")
	choose("mode", "shadow")
	p.ClickOn("#f-when")
	p.Press(`args.filname == "x.csv"`)
	p.WaitText("condition-problem", "Line 1, column 6: args has no field filname: did you mean filename?")
	if browsertest.Eval[string](p, `document.activeElement.value`) != `args.filname == "x.csv"` {
		t.Error("the check took the focus, or the text")
	}
	browsertest.Eval[bool](p, `document.querySelector("#f-when").select(), true`)
	p.Press(`args.filen`)
	p.WaitText("completions", "args.filename")
	p.Press(kb.ArrowDown)
	p.Press(kb.Enter)
	p.Press(` == "x.csv"`)
	if got := browsertest.Eval[string](p, `document.querySelector("#f-when").value`); got != `args.filename == "x.csv"` {
		t.Errorf("completed: %s", got)
	}
	p.WaitText("checked", "fits the 1 tool in scope")
	p.WaitGone("condition-problem")
	p.WaitText("says", `the argument filename is "x.csv"`)
	p.Click("replay")
	p.WaitText("replay-row", "Rejected")
	if got := browsertest.Eval[string](p, `document.querySelector("[data-testid=replay-row] a").getAttribute("href")`); got != callPath(recorded) {
		t.Errorf("the replay lists %s, want %s", got, callPath(recorded))
	}
	p.Click("send")
	p.WaitText("rule", "Shadow")

	tried := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x.csv"}`)
	p.Go(w.server.URL + callPath(tried))
	p.WaitText("applied-rule", "It would have denied this call.")
	p.ClickOn("[data-testid=applied-rule] a")
	p.WaitText("shadow-row", "allowed")
	p.Click("edit")
	p.Wait("rule-form")
	choose("mode", "enforce")
	p.Click("send")
	p.Wait("version")

	denied := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x.csv","rows":[1]}`)
	if c := w.waitForEnd(denied); c.Status != call.Denied || c.Code != call.CodeRuleDenied {
		t.Errorf("the call is %s, %s", c.Status, c.Code)
	}
	p.Go(w.server.URL + callPath(denied))
	p.WaitText("applied-rule", "Rule only-csv denies this call.")
	noComplaints(t, p)
}

// The replay works without scripts, saves nothing, and lists calls that a reviewer rejected first. The page of a rule in shadow mode does the same for
// the calls since it was saved.
func TestRuleReplayAndShadow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.relist(w.skillNamed("files"))
	olga, rita := w.signedIn("olga", identity.Operator), w.signedIn("rita", identity.Reviewer)
	submit := func(filename string, approve bool) uuid.UUID {
		id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"`+filename+`"}`)
		w.decideCall(id, approve)
		return id
	}
	rejected := submit("r1.csv", false)
	submit("a1.csv", true)
	form := olga.get("/rules/new").ruleForm(url.Values{
		"skills": {"files"}, "tools": {"save_csv"}, "when": {`args.filename.endsWith(".csv")`}, "effect": {"allow"}, "mode": {"shadow"},
	})
	replayed := olga.post("/rules/replay", form)
	rows := replayed.find("replay-row")
	if replayed.status != http.StatusOK || rows.Length() != 2 || rows.First().Find("a").AttrOr("href", "") != callPath(rejected) {
		t.Fatalf("%d: %s", replayed.status, replayed.find("replay-result").Text())
	}
	said := strings.Join(strings.Fields(replayed.find("replay-result").Text()), " ")
	for _, want := range []string{"2 recorded calls in its scope were judged.", "The condition holds for 2", "2 decisions would differ.", "A reviewer rejected 1 of them."} {
		if !strings.Contains(said, want) {
			t.Errorf("the replay lacks %q: %s", want, said)
		}
	}
	if kept := replayed.ruleForm(nil); kept.Get("when") != form.Get("when") || kept.Get("mode") != "shadow" || olga.get("/rules").find("rule-row").Length() != 0 {
		t.Errorf("after the replay: %v", kept)
	}
	form.Set("when", "args.filename ==")
	if a := olga.post("/rules/replay", form); a.status != http.StatusUnprocessableEntity || a.find("condition-problem").Length() != 1 || a.find("replay-result").Length() != 0 {
		t.Errorf("a replay of a mistake: %d: %s", a.status, a.text())
	}
	if a := rita.post("/rules/replay", form); a.status != http.StatusForbidden {
		t.Errorf("a reviewer: %d", a.status)
	}

	w.setRule(rule.Spec{Name: "csv", Skills: []string{"files"}, When: `args.filename.endsWith(".csv")`, Effect: rule.Allow, Mode: rule.Shadow})
	if got := rita.get("/rules/named/csv").find("shadow").Text(); !strings.Contains(got, "It has matched no call since") {
		t.Errorf("a new rule: %s", got)
	}
	rejected = submit("r2.csv", false)
	submit("a2.csv", true)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"w.csv"}`)
	page := rita.get("/rules/named/csv")
	if got := page.find("shadow-rejected"); got.Find("a").AttrOr("href", "") != callPath(rejected) || !strings.Contains(got.Text(), "A reviewer rejected 1 call that it would have allowed.") {
		t.Errorf("rejected: %s", got.Text())
	}
	var cells []string
	page.find("shadow-row").First().Children().Each(func(_ int, s *goquery.Selection) { cells = append(cells, s.Text()) })
	if got := strings.Join(cells, " "); got != "allowed 3 1 0 1 0 0 1 0" {
		t.Errorf("would have been allowed: %q", got)
	}
	if got := page.find("says").Text(); !strings.Contains(got, `It holds if the argument filename ends with ".csv".`) {
		t.Errorf("the condition in words: %q", got)
	}
	if got := rita.get("/rules").find("says").Text(); !strings.Contains(got, `the argument filename ends with ".csv"`) {
		t.Errorf("the list: %q", got)
	}
	if got := rita.get(callPath(rejected)).find("says").Text(); !strings.Contains(got, `If the argument filename ends with ".csv".`) {
		t.Errorf("the call: %q", got)
	}
}
