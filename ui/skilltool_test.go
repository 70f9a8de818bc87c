package ui_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// relist lists the tools of a skill's server again.
func (w *world) relist(skill *agent.Skill) {
	w.t.Helper()
	w.discovery.ListChanged(skill.ID)
	_, server, err := w.agents.FreshSkill(w.t.Context(), skill.ID)
	check(w.t, err)
	_, err = w.discovery.List(w.t.Context(), server, false)
	check(w.t, err)
}

func (w *world) pins(skill *agent.Skill, name string) tool.PinStatus {
	w.t.Helper()
	status, err := w.discovery.Status(w.t.Context(), skill.ID, name)
	check(w.t, err)
	return status
}

// redescribe changes the server's description of save_csv.
func (w *world) redescribe(skill *agent.Skill, more string) {
	w.t.Helper()
	w.source.set(func() {
		w.source.Tools = []string{strings.Replace(saveTool, "An existing file is replaced.", "An existing file is replaced."+more, 1), deleteTool, echoTool}
	})
	w.relist(skill)
}

func TestChangedDefinitionIsAcceptedOrRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill := w.skillNamed("files")
	w.relist(skill)
	w.redescribe(skill, ` Then \u202eit is mailed.`)
	path, at := "/skills/"+skill.ID.String(), "/skills/"+skill.ID.String()+"/tools?tool=save_csv"
	olga, rita := w.signedIn("olga", identity.Operator), w.signedIn("rita", identity.Reviewer)

	if row := olga.get(path).find("tool-row").First().Text(); !strings.Contains(row, "save_csv") || !strings.Contains(row, "tool changed") {
		t.Errorf("what is to be looked at does not come first: %s", row)
	}
	if list := olga.get("/skills").find("skill-row").First().Text(); !strings.Contains(list, "1 to review") {
		t.Errorf("the list: %s", list)
	}
	page := olga.get(at)
	diff := page.find("diff")
	if diff.Find("del").Length() != 1 || diff.Find("ins").Length() != 1 || !strings.Contains(diff.Find("ins").Text(), "U+202E") || strings.ContainsRune(page.body, 0x202E) {
		t.Errorf("the difference: %s", diff.Text())
	}
	if rita.get(at).find("settle").Length() != 0 {
		t.Error("a reviewer may accept it")
	}
	seen := page.form("refuse-form")
	w.redescribe(skill, " Then it is deleted.")
	for _, verb := range []string{"accept", "refuse"} {
		late := olga.post(path+"/"+verb, seen)
		if late.status != http.StatusConflict || !strings.Contains(late.find("diff").Text(), "Then it is deleted") {
			t.Errorf("%s what was on the screen: %d: %s", verb, late.status, late.text())
		}
	}
	if s := w.pins(skill, "save_csv"); s.IsAccepted() || s.IsRefused() {
		t.Fatalf("settled: %+v", s)
	}
	refused := olga.post(path+"/refuse", olga.get(at).form("refuse-form"))
	if refused.status != http.StatusSeeOther || !w.pins(skill, "save_csv").IsRefused() {
		t.Fatalf("refused: %d", refused.status)
	}
	told := olga.get(refused.header.Get("Location"))
	if !strings.Contains(told.find("notice").Text(), "Refused") || told.find("refuse-form").Length() != 0 {
		t.Errorf("after refusing: %s", told.text())
	}
	accepted := olga.post(path+"/accept", told.form("accept-form"))
	if s := w.pins(skill, "save_csv"); accepted.status != http.StatusSeeOther || !s.IsAccepted() || s.IsRefused() {
		t.Fatalf("accepted: %d, %+v", accepted.status, s)
	}
	if done := olga.get(accepted.header.Get("Location")); done.find("settle").Length() != 0 || !strings.Contains(done.find("notice").Text(), "Accepted") {
		t.Errorf("after accepting: %s", done.text())
	}
	if a := olga.post(path+"/accept", url.Values{"tool": {"nothing"}, "pin": {seen.Get("pin")}}); a.status != http.StatusNotFound {
		t.Errorf("no such tool: %d", a.status)
	}
}

// A definition that is truncated on the page cannot be accepted there.
func TestFoldedDefinitionIsNotAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill := w.skillNamed("files")
	w.relist(skill)
	w.redescribe(skill, strings.Repeat(" and on", 3000)+" and it is mailed")
	olga := w.signedIn("olga", identity.Operator)
	page := olga.get("/skills/" + skill.ID.String() + "/tools?tool=save_csv")
	if page.find("folded").Length() == 0 || page.find("accept-form").Length() != 0 || page.find("refuse-form").Length() != 1 {
		t.Fatalf("a folded definition: %s", page.find("settle").Text())
	}
	whole := olga.get(page.find("show-all").AttrOr("href", ""))
	if whole.find("folded").Length() != 0 || whole.find("accept-form").Length() != 1 || !strings.Contains(whole.find("diff").Text(), "and it is mailed") {
		t.Errorf("the whole definition: %s", whole.find("settle").Text())
	}
}

func TestToolSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill := w.skillNamed("open")
	w.source.set(func() {
		w.source.Tools = append(w.source.Tools, `{"name":"a/../b c?&","inputSchema":{"type":"object"}}`)
	})
	w.relist(skill)
	olga := w.signedIn("olga", identity.Operator)
	const name = "a/../b c?&"
	row := olga.get("/skills/" + skill.ID.String()).doc.Find(`a[href*="b+c"]`)
	at, ok := row.Attr("href")
	if !ok {
		t.Fatal("the tool is not listed")
	}
	page := olga.get(at)
	form := page.fillForm("tool-form", nil)
	if form.Get("enabled") != "on" || form.Get("high_risk") != "" {
		t.Errorf("the form says %v", form)
	}
	form.Set("high_risk", "on")
	form.Set("idempotent", "on")
	form.Del("enabled")
	if a := olga.post("/skills/"+skill.ID.String()+"/tools", form); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if got := w.skillNamed("open").Tools[name]; got.Risk != agent.RiskHigh || !got.Idempotent || !got.Disabled() {
		t.Errorf("settings %+v", got)
	}
	again := olga.get(at).fillForm("tool-form", nil)
	if again.Get("high_risk") != "on" || again.Get("idempotent") != "on" || again.Get("enabled") != "" {
		t.Errorf("the form says %v", again)
	}
	// Removing the mark would bypass the recent sign-in of high-risk calls, so it needs one too.
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at - interval '1 hour'`)
	again.Set("enabled", "on")
	if a := olga.post("/skills/"+skill.ID.String()+"/tools", again); a.status != http.StatusSeeOther || w.skillNamed("open").Tools[name].Disabled() {
		t.Errorf("what leaves the mark: %d %s", a.status, a.header.Get("Location"))
	}
	unmarked := olga.get(at).fillForm("tool-form", nil)
	unmarked.Del("high_risk")
	if a := olga.post("/skills/"+skill.ID.String()+"/tools", unmarked); !strings.HasPrefix(a.header.Get("Location"), "/sign-in/again?") ||
		w.skillNamed("open").Tools[name].Risk != agent.RiskHigh {
		t.Errorf("unmarked after an hour: %d %s", a.status, a.header.Get("Location"))
	}
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at + interval '1 hour'`)
	if a := olga.post("/skills/"+skill.ID.String()+"/tools", unmarked); a.status != http.StatusSeeOther || w.skillNamed("open").Tools[name].Risk != "" {
		t.Errorf("unmarked after a new proof: %d", a.status)
	}
}

func TestProbeShowsEachStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.set(func() {
		w.source.steps = []tool.Step{
			{Name: "connect", Detail: "<script>alert(1)</script>", Took: time.Millisecond}, {Name: "tools/list", Err: errors.New("\u202Eno answer")},
		}
	})
	olga := w.signedIn("olga", identity.Operator)
	page := olga.post("/skills/"+w.skillNamed("files").ID.String()+"/probe", nil)
	steps := page.find("step")
	if page.status != http.StatusOK || steps.Length() != 2 || page.find("probe-done").Length() != 1 {
		t.Fatalf("%d: %s", page.status, page.text())
	}
	if !strings.Contains(steps.First().Text(), "<script>") || !strings.Contains(steps.Last().Text(), "U+202E") || !strings.Contains(steps.Last().Text(), "failed") {
		t.Errorf("steps: %s", steps.Text())
	}
}

// The page of a probe is streamed while the probe runs.
func TestProbeIsStreamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := make(chan struct{})
	w.source.set(func() { w.source.gate, w.source.steps = gate, []tool.Step{{Name: "connect"}, {Name: "tools/list"}} })
	olga := w.signedIn("olga", identity.Operator)
	r := olga.request(http.MethodPost, "/skills/"+w.skillNamed("files").ID.String()+"/probe", "", "Sec-Fetch-Site", "same-origin")
	response, err := olga.client.Do(r)
	check(t, err)
	defer response.Body.Close()
	var got strings.Builder
	read := func(until string) {
		t.Helper()
		piece := make([]byte, 4096)
		for !strings.Contains(got.String(), until) {
			n, err := response.Body.Read(piece)
			got.Write(piece[:n])
			if err != nil && !strings.Contains(got.String(), until) {
				t.Fatalf("%q did not come: %v", until, err)
			}
		}
	}
	read("connect")
	if strings.Contains(got.String(), "tools/list") {
		t.Error("the second step came before it was taken")
	}
	close(gate)
	read("tools/list")
	read("</html>")
}

func TestAskingAServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill := w.skillNamed("files")
	path := "/skills/" + skill.ID.String()
	olga := w.signedIn("olga", identity.Operator)
	if text := olga.get(path).find("strip").Text(); !strings.Contains(text, "not checked") {
		t.Errorf("before: %s", text)
	}
	asked := olga.post(path+"/ask", nil)
	if to := asked.header.Get("Location"); to != path+"?done=asked" || !strings.Contains(olga.get(to).find("tools").Text(), "save_csv") {
		t.Errorf("asked: %d to %s", asked.status, to)
	}
	w.source.set(func() { w.source.Tools = []string{`{"nonsense"`} })
	if to := olga.post(path+"/ask", nil).header.Get("Location"); to != path {
		t.Errorf("a server that fails: %s", to)
	}
	page := olga.get(path)
	if !strings.Contains(page.find("health-error").Text(), "last check failed") || !strings.Contains(page.find("strip").Text(), "failed in 1") ||
		!strings.Contains(page.find("trouble").Text(), "protocol") || page.doc.Find("svg.strip g").Length() != 48 {
		t.Errorf("after it failed: %s", page.text())
	}
	w.db.Exec(`UPDATE skill_listings SET at = at - interval '3 days'`)
	if olga.get(path).find("trouble").Length() != 0 || olga.get(path+"?range=30d").find("trouble").Length() != 1 {
		t.Error("the ranges are not told apart")
	}
	if a := olga.post("/skills/"+uuid.NewString()+"/ask", nil); a.status != http.StatusNotFound {
		t.Errorf("no such skill: %d", a.status)
	}
}

// An operator marks arguments as not secret. Showing more values needs a recent sign-in.
func TestNotSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.offer(loginTool)
	olga, rita := w.signedIn("olga", identity.Operator), w.signedIn("rita", identity.Reviewer)
	hidden := w.submit(uuid.Nil, "gallery__log_in", loginArguments)
	if text := rita.get(callPath(hidden)).text(); strings.Contains(text, "tok-93f1") {
		t.Errorf("before: %s", text)
	}
	path := "/skills/" + w.skillNamed("gallery").ID.String() + "/tools"
	at := path + "?tool=log_in"
	page := olga.get(at)
	if text := strings.Join(strings.Fields(page.find("not-secret").Text()), " "); !strings.HasPrefix(text, "Not secret /api_token /code /phrase ") {
		t.Errorf("the page lists %q", text)
	}
	if text := olga.get("/skills/" + w.skillNamed("files").ID.String() + "/tools?tool=echo").find("not-secret"); text.Length() != 0 {
		t.Errorf("a tool without secrets has %s", text.Text())
	}
	form := page.fillForm("tool-form", url.Values{"not_secret": {"/api_token"}})
	marked := func() []string { return w.skillNamed("gallery").Tools["log_in"].NotSecret }
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at - interval '1 hour'`)
	if a := olga.post(path, form); !strings.HasPrefix(a.header.Get("Location"), "/sign-in/again?") || marked() != nil {
		t.Errorf("without a recent sign-in: %d %s, %q", a.status, a.header.Get("Location"), marked())
	}
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at + interval '1 hour'`)
	if a := olga.post(path, form); a.status != http.StatusSeeOther || !slices.Equal(marked(), []string{"/api_token"}) {
		t.Fatalf("%d: %q, %s", a.status, marked(), a.text())
	}
	late := olga.post(path, form) // made for the earlier revision, and it wants the same
	if late.status != http.StatusConflict || late.find("now-not_secret").Length() != 0 {
		t.Errorf("again: %d %s", late.status, late.find("not-secret").Text())
	}
	form.Del("not_secret")
	if late = olga.post(path, form); late.status != http.StatusConflict || late.find("now-not_secret").Text() != "Current value: on" {
		t.Errorf("stale: %d %s", late.status, late.find("not-secret").Text())
	}

	id := w.submit(uuid.Nil, "gallery__log_in", loginArguments)
	for _, page := range []*answer{rita.get(callPath(id)), rita.get("/")} {
		if text := page.text(); !strings.Contains(text, "tok-93f1") || strings.Contains(text, "correct horse") || strings.Contains(text, "named like a secret") {
			t.Errorf("marked: %s", text)
		}
	}
	if text := rita.get(callPath(id)).find("notice").Text(); !strings.Contains(text, "Reveal 2 hidden values") {
		t.Errorf("the notice says %s", text)
	}

	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at - interval '1 hour'`)
	again := olga.get(at).fillForm("tool-form", nil)
	if got := again["not_secret"]; !slices.Equal(got, []string{"/api_token"}) {
		t.Errorf("the form has %q", got)
	}
	again.Del("not_secret")
	if a := olga.post(path, again); a.status != http.StatusSeeOther || marked() != nil {
		t.Errorf("hidden again: %d, %q", a.status, marked())
	}
}
