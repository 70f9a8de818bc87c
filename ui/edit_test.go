package ui_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

func TestEditInAForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"prod.csv","n":9007199254740993}`)
	form := v.get(callPath(id)).form("decide")
	editor := v.post(callPath(id)+"/edit", form)
	if editor.status != http.StatusOK || editor.find("edit-f0").AttrOr("value", "") != "prod.csv" || editor.find("edit-f1").AttrOr("value", "") != "9007199254740993" {
		t.Fatalf("the editor: %d: %s", editor.status, editor.text())
	}
	sent := editor.form("edit-form")
	sent.Set("sent", "form")
	sent.Set("f0", "test.csv")
	sent.Set("f1", "many")
	if a := v.post(callPath(id)+"/edit", sent); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.find("problems").Text(), "a number") ||
		a.find("edit-f0").AttrOr("value", "") != "test.csv" {
		t.Errorf("a bad number: %d: %s", a.status, a.text())
	}
	sent.Set("f1", "9007199254740993")
	preview := v.post(callPath(id)+"/edit", sent)
	diff := strings.Join(strings.Fields(preview.find("diff").Text()), " ")
	if preview.status != http.StatusOK || !strings.Contains(diff, `- "filename": "prod.csv"`) || !strings.Contains(diff, `+ "filename": "test.csv"`) {
		t.Fatalf("the preview: %d: %s", preview.status, preview.text())
	}
	if w.getApproval(id).Status != approval.Pending {
		t.Fatal("a preview decides")
	}
	decision := preview.form("decide")
	if a := v.post(callPath(id)+"/approve", decision); a.status != http.StatusSeeOther {
		t.Fatalf("approve as edited: %d: %s", a.status, a.text())
	}
	done := w.waitForEnd(id)
	if got := w.source.Arguments(); done.Status != call.Succeeded || !slices.Equal(got, []string{`{"filename":"test.csv","n":9007199254740993}`}) {
		t.Errorf("call %s, sent %q", done.Status, got)
	}
	if page := v.get(callPath(id)); !strings.Contains(page.find("sent-edited").Text(), "prod.csv") {
		t.Errorf("the page does not say what the reviewer changed: %s", page.text())
	}
}

func TestEditAsJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a`+"\u202e"+`b.csv","rows":[{"n":1.0}]}`)
	form := v.get(callPath(id)).form("decide")
	editor := v.post(callPath(id)+"/edit", form)
	source := editor.find("edit-json").Text()
	if want := "{\n  \"filename\": \"a\\u202eb.csv\",\n  \"rows\": [\n    {\n      \"n\": 1.0\n    }\n  ]\n}"; source != want {
		t.Errorf("the editor has %q, want %q", source, want)
	}
	sent := editor.form("edit-form")
	sent.Set("sent", "json")
	sent.Set("json", source)
	if same := v.post(callPath(id)+"/edit", sent); same.find("edited").Length() != 0 || same.find("decide").Length() != 1 {
		t.Errorf("what nobody edited counts as edited: %s", same.text())
	}
	for text, want := range map[string]string{
		`{"filename":`:                    "ends too early",
		`{"rows":[]}`:                     "filename",
		`{"filename":"x","filename":"y"}`: "duplicate",
	} {
		sent.Set("json", text)
		a := v.post(callPath(id)+"/edit", sent)
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.find("problems").Text(), want) || a.find("edit-json").Text() != text {
			t.Errorf("%s: %d: %s", text, a.status, a.find("problems").Text())
		}
	}
	sent.Set("json", `{"filename":"ab.csv","rows":[{"n":1.0}]}`)
	preview := v.post(callPath(id)+"/edit", sent)
	decision := preview.form("decide")
	tampered := maps.Clone(decision)
	tampered["edited"] = []string{`{"rows":[]}`}
	if a := v.post(callPath(id)+"/approve", tampered); a.status != http.StatusUnprocessableEntity || w.getApproval(id).Status != approval.Pending {
		t.Errorf("arguments that the tool does not take: %d", a.status)
	}
	if a := v.post(callPath(id)+"/approve", decision); a.status != http.StatusSeeOther {
		t.Fatalf("approve: %d: %s", a.status, a.text())
	}
	w.waitForEnd(id)
	if got := w.source.Arguments(); !slices.Equal(got, []string{`{"filename":"ab.csv","rows":[{"n":1.0}]}`}) {
		t.Errorf("sent %q", got)
	}
}

// An edited destructive call keeps its confirmation step, and the arguments on the screen are sent exactly.
func TestEditedDestructiveCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__delete_file", `{"path":"/srv/all"}`)
	sent := v.get(callPath(id)).form("decide")
	sent.Set("sent", "json")
	sent.Set("json", `{"path":"/srv/one"}`)
	preview := v.post(callPath(id)+"/edit", sent)
	step := v.post(callPath(id)+"/approve", preview.form("decide"))
	if step.status != http.StatusUnprocessableEntity || step.find("confirm").Length() != 1 || w.getApproval(id).Status != approval.Pending {
		t.Fatalf("one step was enough: %d", step.status)
	}
	if !strings.Contains(step.find("confirm").Text(), "/srv/one") {
		t.Errorf("the second step names %s", step.find("confirm").Text())
	}
	if a := v.post(callPath(id)+"/approve", step.form("confirm")); a.status != http.StatusSeeOther {
		t.Fatalf("the second step: %d: %s", a.status, a.text())
	}
	w.waitForEnd(id)
	if got := w.source.Arguments(); !slices.Equal(got, []string{`{"path":"/srv/one"}`}) {
		t.Errorf("sent %q", got)
	}
}

func TestEditComesTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v, other := w.signedIn("ana", identity.Reviewer), w.signedIn("ben", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a"}`)
	form := v.get(callPath(id)).form("decide")
	form.Set("sent", "json")
	form.Set("json", `{"filename":"mine"}`)
	preview := v.post(callPath(id)+"/edit", form)
	other.post(callPath(id)+"/reject", other.get(callPath(id)).form("decide"))
	late := v.post(callPath(id)+"/approve", preview.form("decide"))
	if late.status != http.StatusConflict || !strings.Contains(late.text(), "Rejected by ben at ") || late.find("draft").Text() != `{"filename":"mine"}` {
		t.Errorf("%d: %s", late.status, late.text())
	}
	if late := v.post(callPath(id)+"/edit", form); late.status != http.StatusConflict {
		t.Errorf("the editor of a decided call: %d", late.status)
	}
}

func TestMoreTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a"}`)
	before := w.getApproval(id).Deadline
	for i := range approval.MaxExtensions {
		a := v.post(callPath(id)+"/extend", url.Values{"reason": {"typed"}})
		if a.status != http.StatusOK || a.find("reason").Text() != "typed" || (a.find("extend").Length() == 0) != (i == approval.MaxExtensions-1) {
			t.Errorf("more time, %d: %d: %s", i, a.status, a.text())
		}
	}
	if !w.getApproval(id).Deadline.After(before) {
		t.Error("the deadline did not move")
	}
	if a := v.post(callPath(id)+"/extend", nil); a.status != http.StatusConflict || !strings.Contains(a.text(), "cannot be extended again") {
		t.Errorf("once more: %d: %s", a.status, a.text())
	}
}

// preview edits a call as JSON and returns the page that shows the changes.
func (v *visitor) preview(id uuid.UUID, arguments string) *answer {
	v.w.t.Helper()
	form := v.get(callPath(id)).form("decide")
	form.Set("sent", "json")
	form.Set("json", arguments)
	return v.post(callPath(id)+"/edit", form)
}

// Extending the deadline after an edit keeps the edit on the screen, so that approving approves it.
func TestMoreTimeKeepsTheEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"prod.csv"}`)
	page := v.preview(id, `{"filename":"test.csv"}`)
	shown := page.find("call").AttrOr("data-edited", "")
	for i := range approval.MaxExtensions {
		page = v.post(callPath(id)+"/extend", page.form("decide"))
		if page.status != http.StatusOK || !strings.Contains(page.find("edited").Text(), "test.csv") || page.find("call").AttrOr("data-edited", "") != shown || shown == "" {
			t.Fatalf("more time, %d: %d: %s", i, page.status, page.text())
		}
	}
	form := page.form("decide")
	late := v.post(callPath(id)+"/extend", form)
	if late.status != http.StatusConflict || !strings.Contains(late.find("edited").Text(), "test.csv") {
		t.Errorf("once more: %d: %s", late.status, late.text())
	}
	form.Set("edited", `{"rows":[]}`)
	if wrong := v.post(callPath(id)+"/extend", form); wrong.find("edited").Length() != 0 || !strings.Contains(wrong.find("notice").Text(), "can no longer be sent") {
		t.Errorf("what the tool does not take: %d: %s", wrong.status, wrong.text())
	}
	if a := v.post(callPath(id)+"/approve", late.form("decide")); a.status != http.StatusSeeOther {
		t.Fatalf("approve: %d: %s", a.status, a.text())
	}
	w.waitForEnd(id)
	if got := w.source.Arguments(); !slices.Equal(got, []string{`{"filename":"test.csv"}`}) {
		t.Errorf("sent %q", got)
	}
}

// Keys are disabled briefly after each change on the screen, even if only the edit changed.
func TestMoreTimeKeepsTheEditInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"prod.csv"}`)
	p := w.signInWith(browsertest.Options{})
	p.Go(w.server.URL + callPath(id))
	p.WaitFor("keys work", armed)
	p.Press("e")
	p.Wait("edit-f0")
	p.Type("edit-f0", "-test")
	p.WaitFor("keys work", armed)
	p.Click("edit-preview")
	p.WaitText("diff", "-test")
	p.WaitFor("keys work", armed)
	deadline := w.getApproval(id).Deadline.UnixMilli()
	p.Press("h")
	p.WaitFor("more time", fmt.Sprintf(`Number(document.querySelector("#call [data-deadline]").dataset.deadline) > %d`, deadline))
	p.WaitText("diff", "-test")
	if browsertest.Eval[bool](p, `(() => {
		const call = document.querySelector("#call");
		call.dataset.edited = "another";
		call.dispatchEvent(new CustomEvent("htmx:after:swap", {bubbles: true, detail: {ctx: {request: {method: "GET"}}}}));
		return `+armed+`;
	})()`) {
		t.Error("keys act at once on other arguments than those that were on the screen")
	}
	p.WaitFor("keys work", armed)
	p.Press("a")
	p.WaitText("sent-edited", "-test")
	w.waitForEnd(id)
	if got := w.source.Arguments(); len(got) != 1 || !strings.Contains(got[0], "-test") {
		t.Errorf("sent %q", got)
	}
	noComplaints(t, p)
}

// The agent never sees an edit.
func TestAnEditIsNoReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a","password":"hunter2"}`)
	form := v.preview(id, `{"filename":"mine","password":"hunter2"}`).form("decide")
	form.Set("digest", strings.Repeat("0", 64))
	form.Set("reason", "typed")
	for _, step := range []string{"/approve", "/confirm", "/extend"} {
		a := v.post(callPath(id)+step, form)
		if a.status != http.StatusConflict || a.find("reason").Text() != "typed" || !strings.Contains(a.find("draft").Text(), `"mine"`) {
			t.Errorf("%s: %d: the reason is %q, kept is %q", step, a.status, a.find("reason").Text(), a.find("draft").Text())
		}
	}
}

func TestUsualReasons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	for reason, want := range map[string]string{"": "Wrong target.", "use /tmp": "Wrong target. use /tmp"} {
		id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"`+uuid.NewString()+`"}`)
		form := v.get(callPath(id)).form("decide")
		form.Set("preset", "Wrong target")
		form.Set("reason", reason)
		v.post(callPath(id)+"/reject", form)
		if a := w.getApproval(id); a.Note != want {
			t.Errorf("rejected with %q, want %q", a.Note, want)
		}
	}
}

func TestWhatACallIsComparedWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v, other := w.signedIn("ana", identity.Reviewer), w.signedIn("ben", identity.Reviewer)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"jan.csv","rows":[1]}`)
	if page := v.get(callPath(first)); !strings.Contains(page.find("compared").Text(), "Nothing to compare with") || !strings.Contains(page.find("record").Text(), "No call of this tool was decided") {
		t.Errorf("before any decision: %s", page.text())
	}
	v.post(callPath(first)+"/approve", v.get(callPath(first)).form("decide"))
	w.waitForEnd(first)
	for _, name := range []string{"mar.csv", "apr.csv"} {
		id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"`+name+`","rows":[1]}`)
		w.approve(v, id)
		w.waitForEnd(id)
	}
	next := w.submit(uuid.Nil, "files__save_csv", `{"filename":"feb.csv","rows":[1]}`)
	other.post(callPath(next)+"/seen", nil)
	page := v.get(callPath(next))
	if first := page.find("argument").First().Text(); !strings.Contains(page.find("compared").Text(), "3 approved calls") || !strings.Contains(first, "filename") {
		t.Errorf("compared with approved calls: %s; %s", page.find("compared").Text(), first)
	}
	if record := page.find("record").Text(); !strings.Contains(record, "3 approved, 0 rejected, 0 expired") {
		t.Errorf("record: %s", record)
	}
	if viewers := page.find("viewers").Text(); !strings.Contains(viewers, "ben") || strings.Contains(viewers, "ana") {
		t.Errorf("on the screen of %q", viewers)
	}
	if row := v.get("/").find("viewers").Text(); !strings.Contains(row, "ben") {
		t.Errorf("in the list, on the screen of %q", row)
	}
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"feb.csv","rows":[1], "x":1}`)
	if page := v.get(callPath(next)); page.find("like").Length() != 1 {
		t.Error("the page does not say that another like it waits")
	}
}

func TestSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	var ids []uuid.UUID
	for _, name := range []string{"a", "b", "c", "d"} {
		ids = append(ids, w.submit(uuid.Nil, "files__save_csv", `{"folder":"/srv/shared","filename":"`+name+`"}`))
	}
	w.submit(uuid.Nil, "files__delete_file", `{"path":"x"}`)
	page := v.get(callPath(ids[0]) + "/like")
	if n := page.find("alike-row").Length(); n != 4 {
		t.Fatalf("%d side by side: %s", n, page.text())
	}
	if row := page.find("alike-row").First().Text(); strings.Contains(row, "/srv/shared") || !strings.Contains(row, "filename") {
		t.Errorf("a row shows %q, want only what differs", row)
	}
	if page.find("notice").Length() != 0 {
		t.Errorf("ordinary calls have a warning: %s", page.find("notice").Text())
	}
	form := page.form("like-form")
	form["call"] = []string{ids[0].String(), ids[1].String(), ids[2].String(), ids[3].String(), "x"}
	form.Set("verdict."+ids[0].String(), "approve")
	form.Set("verdict."+ids[1].String(), "reject")
	form.Set("verdict."+ids[2].String(), "approve")
	form.Set("digest."+ids[2].String(), strings.Repeat("0", 64))
	form.Set("reason", "not that one")
	done := v.post(callPath(ids[0])+"/like", form)
	if done.status != http.StatusConflict || !strings.Contains(done.text(), "1 approved, 1 rejected") || !strings.Contains(done.text(), "changed since it was shown") {
		t.Errorf("%d: %s", done.status, done.text())
	}
	for i, want := range []approval.Status{approval.Approved, approval.Rejected, approval.Pending, approval.Pending} {
		if a := w.getApproval(ids[i]); a.Status != want || want == approval.Rejected && a.Note != "not that one" {
			t.Errorf("call %d is %s (%s), want %s", i, a.Status, a.Note, want)
		}
	}
}

// Destructive calls are never approved side by side, even with a forged form.
func TestDestructiveCallsSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	one := w.submit(uuid.Nil, "files__delete_file", `{"path":"a"}`)
	two := w.submit(uuid.Nil, "files__delete_file", `{"path":"b"}`)
	page := v.get(callPath(one) + "/like")
	if page.find("verdict-approve").Length() != 0 || page.find("verdict-reject").Length() != 2 {
		t.Errorf("offered: %s", page.text())
	}
	form := page.form("like-form")
	form["call"] = []string{one.String(), two.String()}
	form.Set("verdict."+one.String(), "approve")
	form.Set("verdict."+two.String(), "reject")
	if a := v.post(callPath(one)+"/like", form); a.status != http.StatusConflict || !strings.Contains(a.text(), "on its own page") {
		t.Errorf("%d: %s", a.status, a.text())
	}
	if w.getApproval(one).Status != approval.Pending || w.getApproval(two).Status != approval.Rejected {
		t.Errorf("%s, %s", w.getApproval(one).Status, w.getApproval(two).Status)
	}
}

func TestEditInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"prod.csv"}`)
	p := w.signInWith(browsertest.Options{})
	w.setQueue(false, false)
	p.Go(w.server.URL + callPath(id))
	p.WaitFor("keys work", armed)
	p.Press("e")
	p.Wait("edit-f0")
	p.Type("edit-f0", "-test")
	p.Go(w.server.URL + callPath(id)) // leave and return: the draft is restored
	p.WaitFor("keys work", armed)
	p.Press("e")
	p.WaitFor("the draft is back", `document.querySelector("[data-testid=edit-f0]")?.value.includes("-test")`)
	p.WaitFor("keys work", armed)
	p.Click("edit-preview")
	p.WaitText("diff", "-test")
	p.WaitFor("keys work", armed)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"another"}`) // updates the live parts, but not the preview
	p.WaitText("pending", "2")
	p.WaitText("diff", "-test")
	p.Click("approve")
	p.WaitText("sent-edited", "-test")
	w.waitForEnd(id)
	if got := w.source.Arguments(); len(got) != 1 || !strings.Contains(got[0], "-test") {
		t.Errorf("sent %q", got)
	}
	noComplaints(t, p)
}

// marksHighRisk marks a tool as an operator.
func (w *world) marksHighRisk(skill, name string) {
	w.t.Helper()
	found, err := w.agents.SkillByName(w.t.Context(), skill)
	check(w.t, err)
	marked := map[string]agent.ToolSettings{name: {Risk: agent.RiskHigh}}
	_, err = w.agents.UpdateSkill(w.t.Context(), audit.System(), found.ID, agent.SkillPatch{Tools: &marked})
	check(w.t, err)
}

// Approving a call of a marked tool needs a recent sign-in. Rejecting it does not.
func TestHighRiskWantsProof(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.marksHighRisk("files", "save_csv")
	v := w.signedIn("ana", identity.Reviewer)
	fresh := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a"}`)
	form := v.get(callPath(fresh)).form("decide")
	form.Set("confirmed", "1")
	if a := v.post(callPath(fresh)+"/approve", form); a.status != http.StatusSeeOther || w.getApproval(fresh).Status != approval.Approved {
		t.Errorf("approved at once: %d, %s", a.status, w.getApproval(fresh).Status)
	}
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at - interval '1 hour'`)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"b"}`)
	form = v.get(callPath(id)).form("decide")
	form.Set("confirmed", "1")
	a := v.post(callPath(id)+"/approve", form)
	if to := a.header.Get("Location"); !strings.HasPrefix(to, "/sign-in") || !strings.Contains(to, id.String()) || w.getApproval(id).Status != approval.Pending {
		t.Errorf("approved after an hour: %d to %q, %s", a.status, to, w.getApproval(id).Status)
	}
	if a := v.post(callPath(id)+"/approve", form, "HX-Request", "true"); !strings.HasPrefix(a.header.Get("HX-Redirect"), "/sign-in") {
		t.Errorf("the page is not sent to sign in: %d, %v", a.status, a.header)
	}
	if a := v.post(callPath(id)+"/reject", form); a.status != http.StatusSeeOther || w.getApproval(id).Status != approval.Rejected {
		t.Errorf("rejected after an hour: %d", a.status)
	}
}

// An edit of a high-risk call survives the new sign-in, and is then approved.
func TestProofKeepsTheEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	marked := map[string]agent.ToolSettings{"save_csv": {Risk: agent.RiskHigh}}
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), skill.ID, agent.SkillPatch{Tools: &marked, Edits: new(agent.EditsAlone)})
	check(t, err)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"prod.csv"}`)
	step := v.post(callPath(id)+"/confirm", v.preview(id, `{"filename":"test.csv"}`).form("decide"))
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at - interval '1 hour'`)
	page := v.post(callPath(id)+"/approve", step.form("confirm"))
	if page.status != http.StatusForbidden || w.getApproval(id).Status != approval.Pending || !strings.Contains(page.find("edited").Text(), "test.csv") {
		t.Fatalf("approved after an hour: %d: %s", page.status, page.text())
	}
	if link := page.find("prove").Find("a"); !strings.HasPrefix(link.AttrOr("href", ""), "/sign-in/again") || link.AttrOr("target", "") != "_blank" {
		t.Errorf("the way to prove it: %s", page.find("prove").Text())
	}
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at + interval '1 hour'`) // as if another tab had done it
	if a := v.post(callPath(id)+"/approve", page.form("confirm")); a.status != http.StatusSeeOther {
		t.Fatalf("approve: %d: %s", a.status, a.text())
	}
	w.waitForEnd(id)
	if got := w.source.Arguments(); !slices.Equal(got, []string{`{"filename":"test.csv"}`}) {
		t.Errorf("sent %q", got)
	}
}

// An invalid reason is marked for screen readers.
func TestARefusedReasonIsMarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a"}`)
	page := v.get(callPath(id))
	if _, marked := page.find("reason").Attr("aria-invalid"); marked {
		t.Error("an empty reason is marked")
	}
	form := page.form("decide")
	form.Set("reason", strings.Repeat("long ", 2000))
	if a := v.post(callPath(id)+"/reject", form); a.status != http.StatusUnprocessableEntity || a.find("reason").AttrOr("aria-invalid", "") != "true" {
		t.Errorf("%d: aria-invalid is %q", a.status, a.find("reason").AttrOr("aria-invalid", ""))
	}
}

// The editor does not alter arguments: HTML drops a leading line break in a text area.
func TestAnEditorKeepsTheFirstLineBreak(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"\n\nsecond line"}`)
	sent := v.post(callPath(id)+"/edit", v.get(callPath(id)).form("decide")).form("edit-form")
	sent.Set("sent", "form")
	if page := v.post(callPath(id)+"/edit", sent); page.find("edited").Length() != 0 || page.find("decide").Length() != 1 {
		t.Errorf("what nobody edited counts as edited: %s", page.text())
	}
	sent.Set("sent", "json")
	sent.Set("json", "\n{")
	if page := v.post(callPath(id)+"/edit", sent); page.find("edit-json").Text() != "\n{" {
		t.Errorf("the editor has %q", page.find("edit-json").Text())
	}
}
