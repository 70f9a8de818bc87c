package ui_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Saving a form after a conflicting change shows the change beside each field.
func TestConflictsTellWhatDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	skill := w.skillNamed("files")
	w.relist(skill)
	path := "/skills/" + skill.ID.String()
	billing := "/agents/" + w.agent.ID.String()
	change := func(err error) { t.Helper(); check(t, err) }

	form := olga.get(path+"/edit").fillForm("skill-form", url.Values{"call_timeout": {"10s"}})
	_, err := w.agents.UpdateSkill(t.Context(), audit.System(), skill.ID, agent.SkillPatch{Team: new("ops"), TrustNewTools: new(true)})
	change(err)
	late := olga.post(path+"/edit", form)
	if late.status != http.StatusConflict || w.skillNamed("files").Team != "ops" {
		t.Fatalf("%d: %s", late.status, late.text())
	}
	for field, now := range map[string]string{"team": "Current value: ops", "trust_new_tools": "Current value: ticked", "call_timeout": "Current value: 1m"} {
		if got := strings.Join(strings.Fields(late.find("now-"+field).Text()), " "); got != now {
			t.Errorf("%s: %q", field, got)
		}
		if ids := late.doc.Find(`[name="`+field+`"]`).AttrOr("aria-describedby", ""); !strings.Contains(ids, "f-"+field+"-now") {
			t.Errorf("%s is described by %q", field, ids)
		}
	}
	if late.find("now-url").Length() != 0 || !strings.Contains(late.find("problems").Text(), "Team has changed") {
		t.Errorf("the summary: %s", late.find("problems").Text())
	}
	if a := olga.post(path+"/edit", late.fillForm("skill-form", nil)); a.status != http.StatusSeeOther || w.skillNamed("files").Team != "" {
		t.Errorf("saved again, knowingly: %d", a.status)
	}

	form = olga.get(billing+"/edit").fillForm("agent-form", url.Values{"team": {"desk"}})
	_, err = w.agents.UpdateAgent(t.Context(), audit.System(), w.agent.ID, agent.AgentPatch{Instructions: new("Be brief.")})
	change(err)
	if late = olga.post(billing+"/edit", form); late.status != http.StatusConflict || !strings.Contains(late.find("now-instructions").Text(), "Be brief.") {
		t.Errorf("agent: %d: %s", late.status, late.text())
	}

	form = olga.get(billing+"/assign?skill=files").fillForm("assign-tools", url.Values{"prefix": {"mine"}})
	_, err = w.agents.Assign(t.Context(), audit.System(), w.agent.ID, agent.AssignmentSpec{Skill: "files", Tools: []string{"save_csv"}}, nil)
	change(err)
	late = olga.post(billing+"/assign", form)
	if late.status != http.StatusConflict || !strings.Contains(late.find("now-tools").Text(), "save_csv") || !strings.Contains(late.find("now-scope").Text(), "Only the tools") {
		t.Errorf("assignment: %d: %s", late.status, late.text())
	}
}

// A stale page does not remove a mark that was added since.
func TestStaleToolPageKeepsTheMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	skill := w.skillNamed("open")
	w.relist(skill)
	path := "/skills/" + skill.ID.String() + "/tools"
	form := olga.get(path+"?tool=echo").fillForm("tool-form", url.Values{"idempotent": {"on"}})
	_, err := w.agents.UpdateTool(t.Context(), audit.System(), skill.ID, "echo", agent.ToolPatch{Risk: new(agent.RiskHigh)})
	check(t, err)
	late := olga.post(path, form)
	if late.status != http.StatusConflict || w.skillNamed("open").Tools["echo"].Risk != agent.RiskHigh {
		t.Fatalf("%d: %+v", late.status, w.skillNamed("open").Tools["echo"])
	}
	kept := late.fillForm("tool-form", nil)
	if kept.Get("idempotent") != "on" || late.find("now-high_risk").Text() != "Current value: on" || late.find("now-enabled").Length() != 0 {
		t.Errorf("the page: %v, %s", kept, late.text())
	}
	kept.Set("high_risk", "on")
	if a := olga.post(path, kept); a.status != http.StatusSeeOther || !w.skillNamed("open").Tools["echo"].Idempotent {
		t.Errorf("saved again: %d: %s", a.status, a.text())
	}
}

// A rejected form keeps ticked boxes and shows all errors at once.
func TestFormsKeepWhatWasTickedAndTellAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	skill := w.skillNamed("files")
	_, err := w.agents.UpdateSkill(t.Context(), audit.System(), skill.ID, agent.SkillPatch{Headers: map[string]*string{"X-Team": new("t")}})
	check(t, err)
	path := "/skills/" + skill.ID.String() + "/edit"
	form := olga.get(path).fillForm("skill-form", url.Values{"headers_remove": {"X-Team"}, "url": {"ftp://x"}, "call_timeout": {"soon"}})
	form["headers_name"], form["headers_value"] = append(form["headers_name"], "Bad Name"), append(form["headers_value"], "x")
	wrong := olga.post(path, form)
	if wrong.status != http.StatusUnprocessableEntity {
		t.Fatalf("%d: %s", wrong.status, wrong.text())
	}
	if kept := wrong.fillForm("skill-form", nil); !slices.Contains(kept["headers_remove"], "X-Team") {
		t.Error("the header is no longer to be removed")
	}
	summary := wrong.find("problems").Text()
	for _, one := range []string{"URL must be", "Headers, Bad Name: is not a valid name of an HTTP header", "Call timeout must be a duration"} {
		if !strings.Contains(summary, one) {
			t.Errorf("%q is not in the summary: %s", one, summary)
		}
	}
	bad := wrong.doc.Find(`input[aria-label="Value of Bad Name"]`)
	if said := wrong.doc.Find("#" + strings.Fields(bad.AttrOr("aria-describedby", "none"))[0]).Text(); !strings.Contains(said, "is not a valid name of an HTTP header") {
		t.Errorf("the input is described by %q", said)
	}
}

// A form that is not fully readable changes nothing.
func TestMalformedForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	send := func(body string) *answer {
		r := olga.request(http.MethodPost, "/skills/new", body, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/x-www-form-urlencoded")
		return olga.do(r)
	}
	const whole = "name=notes&url=http%3A%2F%2Fh%2F&approval_timeout=5m&call_timeout=1m&connection=shared"
	if a := send(whole + "&team=%zz"); a.status != http.StatusBadRequest || !strings.Contains(a.text(), "nothing was done") {
		t.Errorf("malformed: %d: %s", a.status, a.text())
	}
	if a := send(whole + "&team=" + strings.Repeat("x", 4<<20)); a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.text(), "can have at most") {
		t.Errorf("too long: %d: %s", a.status, a.text())
	}
	if _, err := w.agents.SkillByName(t.Context(), "notes"); err == nil {
		t.Error("the skill is registered")
	}
	if a := send(whole); a.status != http.StatusSeeOther {
		t.Errorf("whole: %d: %s", a.status, a.text())
	}
}
