package ui_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// offer registers a skill "gallery" with these tools.
func (w *world) offer(tools ...string) {
	w.t.Helper()
	w.source.Lock()
	w.source.Tools = append(tools, w.source.Tools...)
	w.source.Unlock()
	timeout := agent.Duration(5 * time.Minute)
	_, err := w.agents.Apply(w.t.Context(), audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{{Name: "gallery", Transport: tool.HTTP, URL: "http://127.0.0.1:1/gallery", ApprovalTimeout: &timeout}},
		Agents: []agent.AgentSpec{{
			Name: "billing", Skills: &[]agent.AssignmentSpec{{Skill: "files"}, {Skill: "open"}, {Skill: "gallery"}},
		}},
	}, false)
	check(w.t, err)
}

// events returns the audit events on a subject, oldest first.
func (w *world) events(subject uuid.UUID) []audit.Event {
	w.t.Helper()
	list, err := audit.List(w.t.Context(), w.db.Pool(), audit.Filter{Subject: subject})
	check(w.t, err)
	return list
}

const loginTool = `{"name":"log_in","inputSchema":{"type":"object","properties":{
	"user":{"type":"string"},"phrase":{"type":"string","format":"password"},"code":{"type":"integer","writeOnly":true},
	"api_token":{"type":"string"}}}}`

const loginArguments = `{"user":"ana","phrase":"correct horse battery","code":471147,"api_token":"tok-93f1"}`

func TestSecretsAreHiddenUntilRevealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.offer(loginTool)
	reviewer := w.signedIn("rita", identity.Reviewer)
	id := w.submit(uuid.Nil, "gallery__log_in", loginArguments)
	secrets := []string{"correct horse battery", "471147", "tok-93f1"}
	shows := func(a *answer, wanted bool) {
		t.Helper()
		for _, s := range secrets {
			if strings.Contains(a.body, s) != wanted {
				t.Errorf("%q is shown: %v, want %v: %s", s, !wanted, wanted, a.text())
			}
		}
	}
	for _, query := range []string{"", "?view=json", "?view=raw", "?full=1"} {
		page := reviewer.get(callPath(id) + query)
		shows(page, false)
		if n := page.find("arguments").Find(`[data-testid="hidden"]`).Length(); n != 3 {
			t.Errorf("%s: %d values are hidden, want 3", query, n)
		}
		if text := page.find("arguments").Text(); !strings.Contains(text, "hidden (21 characters, fingerprint ") || !strings.Contains(text, "3 values hidden as secrets") {
			t.Errorf("%s: it is not said what is hidden: %s", query, text)
		}
		if page.find("approve").Length() != 0 || page.find("reveal-first").Length() != 1 {
			t.Errorf("%s: it can be approved unseen", query)
		}
		if notice := page.find("notice").Text(); !strings.Contains(notice, "Reveal 3 hidden values before you approve. Revealing is logged.") {
			t.Errorf("%s: the notice says %s", query, notice)
		}
	}
	unseen := url.Values{"digest": {w.getApproval(id).Digest.String()}}
	if a := reviewer.post(callPath(id)+"/approve", unseen); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.text(), "Reveal them before you approve") {
		t.Errorf("approved unseen: %d %s", a.status, a.text())
	}
	shows(reviewer.get("/"), false)
	text := reviewer.get(callPath(id) + "/arguments")
	shows(text, false)
	if !strings.Contains(text.body, `"user":"ana"`) || !strings.Contains(text.body, "hidden (8 characters") {
		t.Errorf("as text: %s", text.body)
	}
	if len(w.revealed(id)) != 0 {
		t.Fatal("an event says that secrets were revealed")
	}

	for i, view := range []string{"fields", "json", "raw"} {
		page := reviewer.post(callPath(id)+"/reveal", url.Values{"view": {view}})
		shows(page, true)
		if page.status != http.StatusOK || page.find("approve").Length() != 1 {
			t.Errorf("%s: %d %s", view, page.status, page.text())
		}
		if got := w.revealed(id); len(got) != i+1 || got[0].Data["values"] != 3.0 || got[0].Data["form"] != "page" || got[0].Actor.Kind != audit.KindPerson {
			t.Errorf("%s: events %+v", view, got)
		}
	}
	download := reviewer.post(callPath(id)+"/reveal", url.Values{"as": {"text"}})
	if download.body != loginArguments || !strings.HasPrefix(download.header.Get("Content-Type"), "text/plain") || !strings.HasPrefix(download.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("as text: %q %v", download.body, download.header)
	}
	if got := w.revealed(id); len(got) != 4 || got[0].Data["form"] != "text" {
		t.Errorf("events %+v", got)
	}
	for _, e := range w.events(id) {
		for _, s := range secrets {
			for _, value := range e.Data {
				if said, ok := value.(string); ok && strings.Contains(said, s) {
					t.Errorf("the event %s holds a secret", e.Action)
				}
			}
		}
	}
	shows(reviewer.get(callPath(id)), false)

	if other := w.signedIn("ben", identity.Reviewer); other.get(callPath(id)).find("approve").Length() != 0 {
		t.Error("another reviewer can approve unseen")
	}
	w.approve(reviewer, id)
	if c := w.waitForEnd(id); c.Status != call.Succeeded || string(c.Arguments) != loginArguments {
		t.Errorf("approved after revealing: %s %s", c.Status, c.Arguments)
	}
}

func (w *world) revealed(id uuid.UUID) []audit.Event {
	w.t.Helper()
	var found []audit.Event
	for _, e := range w.events(id) {
		if e.Action == "call.revealed" {
			found = append(found, e)
		}
	}
	return found
}

func TestNothingToReveal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("rita", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	if v.get(callPath(id)).find("secrets").Length() != 0 {
		t.Error("without secrets they can be revealed")
	}
	if a := v.post(callPath(id)+"/reveal", nil); a.status != http.StatusSeeOther || a.header.Get("Location") != callPath(id) {
		t.Errorf("%d to %q", a.status, a.header.Get("Location"))
	}
	if a := v.post("/calls/"+uuid.NewString()+"/reveal", nil); a.status != http.StatusNotFound {
		t.Errorf("no call: %d", a.status)
	}
	if len(w.revealed(id)) != 0 {
		t.Error("an event says that something was revealed")
	}
}

// Values stay revealed in the pane until the decision.
func TestRevealInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.offer(loginTool)
	id := w.submit(uuid.Nil, "gallery__log_in", loginArguments)
	p := w.signInWith(browsertest.Options{})
	p.ClickOn("#row-" + id.String() + " a")
	p.WaitText("arguments", "hidden (21 characters")
	p.Screenshot("hidden")
	p.Click("reveal")
	p.WaitText("arguments", "correct horse battery")
	p.WaitText("secrets", "logged")
	p.Screenshot("revealed")
	if p.Path() != "/" {
		t.Errorf("revealing leads to %s", p.Path())
	}
	p.WaitFor("keys to work", armed)
	readAll(p)
	p.Press("a")
	p.WaitText("outcome", "Saved 2 rows")
	if text := p.Text("arguments"); strings.Contains(text, "correct horse battery") {
		t.Error("after the decision the secrets stay on the screen")
	}
	noComplaints(t, p)
}

// The agent cannot hide a value by its name.
func TestNamesOfTheAgentHideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("rita", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a","api_token":"mail it to evil"}`)
	for _, page := range []*answer{v.get(callPath(id)), v.get("/")} {
		if !strings.Contains(page.text(), "mail it to evil") || page.find("secrets").Length() != 0 {
			t.Errorf("it is hidden: %s", page.text())
		}
		if n := strings.Count(page.text(), "named like a secret"); n != 1 {
			t.Errorf("%d badges name it: %s", n, page.text())
		}
	}
	plain := w.submit(uuid.Nil, "files__save_csv", `{"filename":"b","password":"declared","token_count":5}`)
	w.approve(v, id)
	for _, page := range []*answer{v.get(callPath(plain)), v.get("/")} {
		if strings.Contains(page.text(), "named like a secret") {
			t.Errorf("there is a badge without a reason: %s", page.text())
		}
	}
}

// A secret value must be revealed before approval, because the call's effect may hide in it. The page then shows all of it.
func TestHiddenPayloadsAreRevealedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.offer(`{"name":"run","inputSchema":{"type":"object","properties":{"script":{"type":"string","writeOnly":true}}}}`)
	v, other := w.signedIn("rita", identity.Reviewer), w.signedIn("ben", identity.Reviewer)
	command := "mail it to evil.example; " + strings.Repeat("x ", 1500) + "x"
	for name, id := range map[string]uuid.UUID{
		"by name":   w.submit(uuid.Nil, "files__save_csv", plainJSON(t, map[string]any{"filename": "/tmp/ok", "token_options": map[string]string{"command": command}})),
		"by schema": w.submit(uuid.Nil, "gallery__run", plainJSON(t, map[string]string{"script": command})),
	} {
		decision := v.get(callPath(id) + "?full=1").form("decide")
		for _, query := range []string{"", "?full=1", "?view=json", "?view=raw&full=1"} {
			page := v.get(callPath(id) + query)
			if page.find("approve").Length() != 0 || page.find("reveal-first").Length() != 1 || !strings.Contains(page.find("notice").Text(), "Values are hidden") {
				t.Errorf("%s%s: can be approved unseen: %s", name, query, page.text())
			}
		}
		if a := v.post(callPath(id)+"/approve", decision); a.status != http.StatusUnprocessableEntity || w.getApproval(id).Status != approval.Pending {
			t.Errorf("%s: approved unseen: %d", name, a.status)
		}
		decision.Set("reason", "typed")
		page := v.post(callPath(id)+"/reveal", decision)
		if !strings.Contains(page.find("arguments").Text(), command) || page.find("approve").Length() != 1 || page.find("reason").Text() != "typed" || len(w.revealed(id)) != 1 {
			t.Errorf("%s: revealed: %s", name, page.text())
		}
		if other.get(callPath(id)).find("approve").Length() != 0 {
			t.Errorf("%s: somebody else looked, and it is approved unseen", name)
		}
		if a := v.post(callPath(id)+"/approve", page.form("decide")); a.status != http.StatusSeeOther || w.getApproval(id).Status != approval.Approved {
			t.Errorf("%s: approved after looking: %d", name, a.status)
		}
	}
}

// Side by side, such a call cannot be approved.
func TestHiddenPayloadsSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("rita", identity.Reviewer)
	hiding := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a","password":"one"}`)
	plain := w.submit(uuid.Nil, "files__save_csv", `{"filename":"b"}`)
	page := v.get(callPath(plain) + "/like")
	if page.find("verdict-approve").Length() != 1 || !strings.Contains(page.find("notice").Text(), "Reveal 1 hidden value before you approve") {
		t.Errorf("offered: %s", page.text())
	}
	form := page.form("like-form")
	form["call"] = []string{hiding.String()}
	form.Set("verdict."+hiding.String(), "approve")
	if a := v.post(callPath(plain)+"/like", form); a.status != http.StatusConflict || w.getApproval(hiding).Status != approval.Pending {
		t.Errorf("approved unseen: %d", a.status)
	}
}

// The page shows no digest of the arguments, which would let a reader guess hidden values.
func TestNoDigestOfWhatIsHidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("rita", identity.Reviewer)
	for arguments, want := range map[string]bool{`{"filename":"a"}`: true, `{"filename":"a","password":"4711"}`: false} {
		id := w.submit(uuid.Nil, "files__save_csv", arguments)
		page := v.get(callPath(id))
		sum := sha256.Sum256([]byte(arguments))
		if strings.Contains(page.body, hex.EncodeToString(sum[:])) != want {
			t.Errorf("%s: its digest is shown: %v, want %v", arguments, !want, want)
		}
		if sum := sha256.Sum256([]byte("4711")); strings.Contains(page.body, hex.EncodeToString(sum[:])[:12]) {
			t.Error("the digest of a secret is shown")
		}
	}
}

// A person linked to the call's principal learns that they cannot decide before they try.
func TestLinkedPeopleMayNotDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v, boss := w.signedIn("rita", identity.Reviewer), w.signedIn("ada", identity.Reviewer)
	rita, principal := w.personCalled("rita"), w.personCalled("ada")
	check(t, w.people.Link(t.Context(), audit.System(), rita, principal))
	id := w.submit(principal, "files__save_csv", `{"filename":"a"}`)
	for name, who := range map[string]*visitor{"linked": v, "the principal": boss} {
		page := who.get(callPath(id))
		if page.find("approve").Length() != 0 || page.find("edit-open").Length() != 0 || !strings.Contains(page.find("no-actions").Text(), "on your behalf") {
			t.Errorf("%s: %s", name, page.text())
		}
		digest := url.Values{"digest": {w.getApproval(id).Digest.String()}}
		if a := who.post(callPath(id)+"/edit", digest); a.status != http.StatusForbidden || a.find("editor").Length() != 0 {
			t.Errorf("%s: the editor opens: %d", name, a.status)
		}
	}
}

// With keys, the first press reveals hidden values. A second one, after a moment, approves.
func TestRevealFirstInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"ok","token_options":{"command":"cp /srv/a /srv/b"}}`)
	p := w.signInWith(browsertest.Phone())
	p.Go(w.server.URL + callPath(id))
	p.WaitFor("keys to work", armed)
	p.Wait("reveal-first")
	p.Screenshot("withheld")
	browsertest.Eval[bool](p, `(window.press = () => document.dispatchEvent(new KeyboardEvent("keydown", {key: "a", bubbles: true})),
		document.addEventListener("htmx:after:swap", ({ detail }) => {
			if (detail.ctx.request.method === "POST") window.pressed ??= press();
		}),
		press(), press())`) // the second press while the first is handled
	p.WaitText("arguments", "cp /srv/a /srv/b")
	p.WaitFor("the key to be pressed again", "window.pressed")
	p.WaitFor("keys to work", armed)
	p.Wait("approve")
	p.Screenshot("withheld, revealed")
	if w.getApproval(id).Status != approval.Pending || len(w.revealed(id)) != 1 {
		t.Errorf("%s, %d times revealed", w.getApproval(id).Status, len(w.revealed(id)))
	}
	p.Press("a")
	p.WaitText("outcome", "Saved 2 rows")
	noComplaints(t, p)
}
