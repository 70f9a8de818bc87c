package ui_test

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui"
)

const typedSecret = "s3cret-that-was-typed"

// skillNamed returns a stored skill.
func (w *world) skillNamed(name string) *agent.Skill {
	w.t.Helper()
	skill, err := w.agents.SkillByName(w.t.Context(), name)
	check(w.t, err)
	return skill
}

// fillForm returns the fields of a form with some changes. Selected options and ticked boxes count.
func (a *answer) fillForm(testID string, changes url.Values) url.Values {
	a.t.Helper()
	form := a.form(testID)
	part := a.find(testID)
	for name := range form {
		if strings.HasSuffix(name, "_name") || strings.HasSuffix(name, "_value") {
			form.Del(name) // pairs may have several values
		}
	}
	for _, name := range []string{"headers", "env"} {
		part.Find(`[name="` + name + `_name"]`).Each(func(_ int, s *goquery.Selection) {
			form.Add(name+"_name", s.AttrOr("value", ""))
			form.Add(name+"_value", "")
		})
	}
	part.Find("select").Each(func(_ int, s *goquery.Selection) {
		form.Set(s.AttrOr("name", ""), s.Find("option[selected]").AttrOr("value", ""))
	})
	part.Find("input:checked").Each(func(_ int, s *goquery.Selection) { form.Del(s.AttrOr("name", "")) })
	part.Find("input:checked").Each(func(_ int, s *goquery.Selection) { form.Add(s.AttrOr("name", ""), s.AttrOr("value", "")) })
	maps.Copy(form, changes)
	return form
}

// The fields that do not belong to the chosen grant and method of OAuth say when they are shown, and are ignored.
func TestOAuthFieldsOfOtherMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	page := olga.get("/skills/new")
	for name, want := range map[string]string{
		"oauth.client_secret": "client_secret_basic client_secret_post", "oauth.private_key": "private_key_jwt", "oauth.idp.issuer": "enterprise_managed",
	} {
		if got := page.doc.Find(`[name="`+name+`"]`).Closest("[data-for]").AttrOr("data-for", ""); got != want {
			t.Errorf("%s is for %q, want %q", name, got, want)
		}
	}
	made := olga.post("/skills/new", page.fillForm("skill-form", url.Values{
		"name": {"other"}, "url": {"http://one.test/mcp"}, "oauth.client_id": {"me"}, "oauth.auth_method": {"none"}, "oauth.client_secret": {"x"},
		"oauth.private_key": {"no key"}, "oauth.idp.issuer": {"no address"},
	}))
	if made.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", made.status, made.find("problems").Text())
	}
	if got := w.skillNamed("other").OAuth; got == nil || got.AuthMethod != "none" || got.IDPIssuer != "" || len(got.Secrets) != 0 {
		t.Errorf("OAuth is %+v", got)
	}
}

func TestRegisterSkill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	page := olga.get("/skills/new")
	wrong := olga.post("/skills/new", page.fillForm("skill-form", url.Values{
		"name": {"No Name"}, "url": {"ftp://x"}, "approval_timeout": {"5m"}, "team": {"ops"}, "escalate_to": {"ops"},
		"headers_name": {"X-Team", ""}, "headers_value": {typedSecret, ""}, "auto_approve": {"on"},
		"oauth.client_secret": {typedSecret},
	}))
	if wrong.status != http.StatusUnprocessableEntity || strings.Contains(wrong.body, typedSecret) {
		t.Fatalf("%d: %s", wrong.status, wrong.body)
	}
	summary := wrong.find("problems")
	if _, focused := summary.Attr("autofocus"); !focused || summary.Find(`a[href="#f-url"]`).Length() != 1 || !strings.Contains(summary.Text(), "Enter them again") {
		t.Errorf("summary: %s", summary.Text())
	}
	for _, field := range []string{"name", "url", "escalate_to"} {
		if wrong.find("problem-"+field).Length() != 1 || wrong.doc.Find(`[name="`+field+`"]`).AttrOr("aria-invalid", "") != "true" {
			t.Errorf("nothing is said at %s", field)
		}
	}
	kept := wrong.fillForm("skill-form", nil)
	if kept.Get("name") != "No Name" || kept.Get("url") != "ftp://x" || kept.Get("team") != "ops" || kept.Get("auto_approve") != "on" ||
		!slices.Contains(kept["headers_name"], "X-Team") {
		t.Errorf("kept %v", kept)
	}
	for field, value := range map[string]string{"approval_timeout": "soon", "call_timeout": ""} {
		a := olga.post("/skills/new", page.fillForm("skill-form", url.Values{"name": {"n"}, "url": {"http://h/"}, field: {value}}))
		if a.status != http.StatusUnprocessableEntity || a.find("problem-"+field).Length() != 1 {
			t.Errorf("%s %q: %d", field, value, a.status)
		}
	}
	if a := olga.post("/skills/new", page.fillForm("skill-form", url.Values{"name": {"files"}, "url": {"http://h/"}})); a.status != http.StatusUnprocessableEntity ||
		!strings.Contains(a.find("problem-name").Text(), "taken") {
		t.Errorf("a name that is taken: %d", a.status)
	}
	made := olga.post("/skills/new", page.fillForm("skill-form", url.Values{
		"name": {"notes"}, "url": {"http://127.0.0.1:1/notes"}, "team": {"ops"}, "approval_timeout": {"90s"}, "approval_validity": {"2m"},
		"headers_name": {"X-Team", "", "Authorization"}, "headers_value": {typedSecret, "", "Bearer x"},
	}))
	if made.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", made.status, made.text())
	}
	skill := w.skillNamed("notes")
	_, server, err := w.agents.FreshSkill(t.Context(), skill.ID)
	check(t, err)
	if skill.Team != "ops" || skill.ApprovalTimeout != 90*time.Second || skill.ApprovalValidity != 2*time.Minute || skill.AutoApprove || skill.OAuth != nil || server.Headers["X-Team"] != typedSecret {
		t.Errorf("registered %+v", skill)
	}
	shown := olga.get(made.header.Get("Location"))
	if !strings.Contains(shown.find("notice").Text(), "Registered") || strings.Contains(shown.body, typedSecret) {
		t.Errorf("its page: %s", shown.text())
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: skill.ID})
	check(t, err)
	if len(events) != 1 || events[0].Action != "skill.created" || events[0].Actor.Kind != audit.Person(skill.ID).Kind {
		t.Errorf("events %+v", events)
	}
}

func TestEditSkill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.agents.CreateSkill(t.Context(), audit.System(), agent.SkillSpec{
		Name: "notes", Transport: tool.HTTP, URL: "http://one.test/mcp",
		Headers: map[string]string{"X-Kept": "kept value", "X-Gone": "gone value", "X-New": "old value"},
		OAuth:   &agent.OAuthSpec{ClientID: "c", ClientSecret: "client secret", Grant: tool.ClientCredentials, Issuer: "https://as.test"},
	})
	check(t, err)
	path := "/skills/" + w.skillNamed("notes").ID.String()
	olga := w.signedIn("olga", identity.Operator)
	page := olga.get(path + "/edit")
	for _, secret := range []string{"kept value", "gone value", "old value", "client secret"} {
		if strings.Contains(page.body, secret) {
			t.Fatalf("the form shows %q", secret)
		}
	}
	form := page.fillForm("skill-form", url.Values{"call_timeout": {"10s"}, "headers_remove": {"X-Gone"}})
	form["headers_value"][slices.Index(form["headers_name"], "X-New")] = "new value"
	if a := olga.post(path+"/edit", form); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	skill, server, err := w.agents.FreshSkill(t.Context(), w.skillNamed("notes").ID)
	check(t, err)
	if skill.CallTimeout != 10*time.Second || len(server.Headers) != 2 || server.Headers["X-Kept"] != "kept value" ||
		server.Headers["X-New"] != "new value" || server.Authorization.ClientSecret != "client secret" {
		t.Errorf("%+v, %+v", skill, server.Headers)
	}
	late := olga.post(path+"/edit", form)
	if late.status != http.StatusConflict || late.fillForm("skill-form", nil).Get("call_timeout") != "10s" {
		t.Errorf("of an earlier revision: %d: %s", late.status, late.text())
	}
	if differs := late.find("now-headers").Text(); !strings.Contains(differs, "X-Kept, X-New") || late.find("now-call_timeout").Length() != 0 {
		t.Errorf("what differs: %q", differs)
	}
	moved := olga.post(path+"/edit", olga.get(path+"/edit").fillForm("skill-form", url.Values{"url": {"http://two.test/mcp"}}))
	if moved.status != http.StatusUnprocessableEntity || !strings.Contains(moved.text(), "was given for another host") {
		t.Errorf("secrets followed to another host: %d: %s", moved.status, moved.text())
	}
	removed := olga.post(path+"/edit", olga.get(path+"/edit").fillForm("skill-form", url.Values{
		"oauth.grant": {""}, "oauth.client_id": {""}, "oauth.issuer": {""}, "oauth.scopes": {""},
	}))
	if removed.status != http.StatusSeeOther || w.skillNamed("notes").OAuth != nil {
		t.Errorf("%d: OAuth is %+v", removed.status, w.skillNamed("notes").OAuth)
	}
	if rita := w.signedIn("rita", identity.Reviewer); rita.get(path).find("manage").Length() != 0 {
		t.Error("a reviewer is offered to change the skill")
	}
}

func TestCommandsAreSetWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.agents.CreateSkill(t.Context(), audit.System(), agent.SkillSpec{
		Name: "local", Transport: tool.Stdio, Command: []string{"safe", "one"}, Env: map[string]string{"A": "b"},
	})
	check(t, err)
	path := "/skills/" + w.skillNamed("local").ID.String() + "/edit"
	program := url.Values{"transport": {"stdio"}, "command": {"evil\r\n--now"}, "env_name": {"LD_PRELOAD"}, "env_value": {"x"}, "url": {""}}

	olga := w.signedIn("olga", identity.Operator)
	if page := olga.get("/skills/new"); page.doc.Find(`[name="command"], [name="transport"] [value="stdio"]`).Length() != 0 {
		t.Error("a command is asked for")
	}
	form := olga.get("/skills/new").fillForm("skill-form", program)
	form.Set("name", "other")
	if a := olga.post("/skills/new", form); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.text(), "--stdio-from-dashboard") {
		t.Errorf("%d: %s", a.status, a.text())
	}
	if a := olga.post(path, olga.get(path).fillForm("skill-form", program)); a.status != http.StatusSeeOther {
		t.Errorf("%d: %s", a.status, a.text())
	}
	if skill := w.skillNamed("local"); !slices.Equal(skill.Command, []string{"safe", "one"}) || !slices.Equal(skill.EnvNames, []string{"A"}) {
		t.Fatalf("it runs %q with %q", skill.Command, skill.EnvNames)
	}

	w.settings = ui.Server{Stdio: false, StdioFromDashboard: true}
	w.startDashboard(slog.New(slog.DiscardHandler), w.server.URL)
	if page := w.signedIn("olga", identity.Operator).get("/skills/new"); page.doc.Find(`[name="command"]`).Length() != 0 {
		t.Error("a command is asked for where no skill may run one")
	}
	w.settings = ui.Server{Stdio: true, StdioFromDashboard: true}
	w.startDashboard(slog.New(slog.DiscardHandler), w.server.URL)
	olga = w.signedIn("olga", identity.Operator)
	form = olga.get("/skills/new").fillForm("skill-form", program)
	form.Set("name", "other")
	if a := olga.post("/skills/new", form); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if skill := w.skillNamed("other"); !slices.Equal(skill.Command, []string{"evil", "--now"}) || !slices.Equal(skill.EnvNames, []string{"LD_PRELOAD"}) {
		t.Errorf("it runs %q with %q", skill.Command, skill.EnvNames)
	}
	for name, attack := range map[string]url.Values{
		"another command": {"command": {"sh\n-c\nenv"}},
		"other code":      {"env_name": {"NODE_OPTIONS"}, "env_value": {"--require=/srv/theirs"}},
	} {
		a := olga.post(path, olga.get(path).fillForm("skill-form", attack))
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.text(), "was given for another command") {
			t.Errorf("%s: %d: %s", name, a.status, a.text())
		}
	}
	if skill := w.skillNamed("local"); !slices.Equal(skill.Command, []string{"safe", "one"}) || !slices.Equal(skill.EnvNames, []string{"A"}) {
		t.Errorf("it runs %q with %q", skill.Command, skill.EnvNames)
	}
	if a := olga.post(path, olga.get(path).fillForm("skill-form", url.Values{"command": {"safe\ntwo"}, "env_remove": {"A"}})); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if skill := w.skillNamed("local"); !slices.Equal(skill.Command, []string{"safe", "two"}) || len(skill.EnvNames) != 0 {
		t.Errorf("it runs %q with %q", skill.Command, skill.EnvNames)
	}
}

func TestDeleteSkill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill := w.skillNamed("files")
	path := "/skills/" + skill.ID.String()
	olga := w.signedIn("olga", identity.Operator)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	asked := olga.get(path + "/delete")
	if text := asked.text(); !strings.Contains(asked.find("users").Text(), "billing") || !strings.Contains(text, "1 pending call") {
		t.Errorf("the question: %s", text)
	}
	if a := olga.post(path+"/delete", nil); a.status != http.StatusOK || a.find("removal").Length() != 1 {
		t.Errorf("unconfirmed: %d", a.status)
	}
	if a := olga.post(path+"/delete", asked.form("removal-form")); a.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", a.status, a.text())
	}
	if _, err := w.agents.SkillByName(t.Context(), "files"); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	if a := olga.get(path); a.status != http.StatusNotFound {
		t.Errorf("its page: %d", a.status)
	}
	if a := olga.get("/calls/" + id.String()); a.status != http.StatusOK {
		t.Errorf("its call: %d", a.status)
	}
}

func TestEmptyStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.db.Exec(`DELETE FROM assignments`)
	w.db.Exec(`UPDATE skills SET deleted_at = now()`)
	w.db.Exec(`UPDATE agents SET deleted_at = now()`)
	olga, rita := w.signedIn("olga", identity.Operator), w.signedIn("rita", identity.Reviewer)
	for path, next := range map[string]string{"/skills": "/skills/new", "/agents": "/agents/new"} {
		empty := olga.get(path).find("empty")
		if empty.Find(`a[href="`+next+`"]`).Length() != 1 || !strings.Contains(empty.Find("pre").Text(), path[1:]+":") {
			t.Errorf("%s: %s", path, empty.Text())
		}
		if told := rita.get(path); told.doc.Find(`a[href="`+next+`"]`).Length() != 0 || !strings.Contains(told.find("empty").Text(), "perator") {
			t.Errorf("a reviewer's %s: %s", path, told.text())
		}
	}
}
