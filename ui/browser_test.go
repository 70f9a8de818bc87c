package ui_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// armed is true once keys and buttons act on the call on the screen.
const armed = `(() => {
	const call = document.querySelector("#call");
	return document.documentElement.dataset.armed === [call?.dataset.call, call?.dataset.digest, call?.dataset.step, call?.dataset.edited, call?.dataset.url, call?.dataset.revealed].join() &&
		!document.querySelector("#call [hx-post]:not([data-htmx-powered])");
})()`

// signInWith opens the dashboard by a one-time link.
func (w *world) signInWith(o browsertest.Options) *browsertest.Page {
	w.t.Helper()
	p := browsertest.New(w.t, o)
	p.Go(w.server.URL + w.createLink("ana", identity.Reviewer, identity.Operator))
	p.Click("sign-in-link")
	p.Wait("queue")
	if !o.NoScript {
		ready(p)
	}
	return p
}

// setQueue sets whether the next call opens after a decision of ana, and whether she may undo an approval.
func (w *world) setQueue(advance, undo bool) {
	w.t.Helper()
	w.db.Exec(`INSERT INTO queue_settings (person_id, advance, undo) VALUES ($1, $2, $3)`, w.personCalled("ana"), advance, undo)
}

// delayDeadlines keeps all pending calls pending while a slow machine looks at them.
func (w *world) delayDeadlines() {
	w.t.Helper()
	w.db.Exec(`UPDATE approvals SET deadline = deadline + interval '1 hour' WHERE status = 'pending'`)
}

// noComplaints fails the test if the page violated its policy or threw an error.
func noComplaints(t *testing.T, p *browsertest.Page) {
	t.Helper()
	if complaints := p.Complaints(); len(complaints) > 0 {
		t.Errorf("the page complained:\n%s", strings.Join(complaints, "\n"))
	}
}

func (w *world) waitForEnd(id uuid.UUID) call.Call {
	w.t.Helper()
	c, err := w.calls.Wait(w.t.Context(), id, call.Listener{})
	check(w.t, err)
	return *c
}

func TestDecideInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.signInWith(browsertest.Options{})
	p.Wait("empty")
	browsertest.Eval[bool](p, `(window.untouched = true)`)

	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	second := w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	p.WaitText("row", "second")
	p.WaitFor("the title counts", `document.title.startsWith("(2) ")`)

	p.Press("j")
	p.Wait("decide")
	p.WaitFor("keys to work", armed)
	p.Press("r")
	p.Press("wrong folder")
	p.Screenshot("rejecting")
	p.PressCtrlEnter()
	p.WaitText("arguments", "second") // the next call opens
	if c := w.waitForEnd(first); c.Status != call.Rejected || c.Message != "wrong folder" {
		t.Errorf("the first call is %s, %q", c.Status, c.Message)
	}

	p.WaitFor("keys to work", armed)
	p.Press("a")
	p.WaitText("outcome", "Saved 2 rows")
	p.Screenshot("outcome")
	if c := w.waitForEnd(second); c.Status != call.Succeeded {
		t.Errorf("the second call is %s", c.Status)
	}
	p.WaitFor("the count to go", `!document.title.startsWith("(")`)
	if !browsertest.Eval[bool](p, "window.untouched === true") {
		t.Error("the page was loaded again")
	}
	if len(w.source.Arguments()) != 1 {
		t.Errorf("%d calls arrived, want 1", len(w.source.Arguments()))
	}
	noComplaints(t, p)
}

// listRenewed is true once the list of the queue was fetched after the page.
const listRenewed = `performance.getEntriesByType("resource").some((entry) => entry.name === location.origin + "/") &&
	!document.querySelector("#queue.htmx-request")`

// A key that is pressed before the list shows a new call opens it as soon as it does.
func TestKeysWaitForTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.signInWith(browsertest.Options{})
	p.Wait("empty")
	p.WaitFor("live updates", `document.documentElement.hasAttribute("data-live")`)
	p.WaitFor("the first renewal", listRenewed)
	browsertest.Eval[bool](p, `(() => {
		const real = window.fetch;
		window.held = [];
		window.fetch = async (...args) => {
			const response = await real(...args);
			if (String(args[0]) === "/") await new Promise((done) => window.held.push(done));
			return response;
		};
		return true;
	})()`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	p.WaitFor("the list to be held back", `document.title.startsWith("(1) ") && window.held.length > 0`)
	p.Press("j")
	p.WaitGone("row")
	browsertest.Eval[bool](p, `(window.held.forEach((done) => done()), true)`)
	p.WaitText("arguments", "first")
	p.WaitFor("the row to be selected", `document.querySelector("#rows > [data-hp-selected]:focus-within")`)
	noComplaints(t, p)
}

// A row that is clicked while the list loads stays open, whatever keys were pressed before.
func TestClickEndsTheWaitForTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	p := w.signInWith(browsertest.Options{})
	p.WaitText("row", "first")
	p.WaitFor("live updates", `document.documentElement.hasAttribute("data-live")`)
	p.Press("j")
	p.WaitText("arguments", "first")
	p.WaitFor("keys to work", armed)
	p.WaitFor("the first renewal", listRenewed)
	browsertest.Eval[bool](p, `(() => {
		const real = window.fetch;
		window.held = [];
		window.fetch = async (...args) => {
			const response = await real(...args);
			if (String(args[0]) === "/") await new Promise((done) => window.held.push(done));
			return response;
		};
		document.addEventListener("htmx:finally:request", ({ detail }) => { window.listed ||= detail.ctx.sourceElement.id === "queue"; });
		return true;
	})()`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	p.WaitFor("the list to be held back", `document.title.startsWith("(2) ") && window.held.length > 0`)
	p.Press("j") // there is no other row yet
	p.ClickOn("#row-" + first.String() + " a")
	browsertest.Eval[bool](p, `(window.listed = false, window.held.forEach((done) => done()), true)`)
	p.WaitFor("the list", `window.listed && document.querySelector("#rows").textContent.includes("second")`)
	if file := browsertest.Eval[string](p, selectedFile); file != "first" {
		t.Errorf("the selected row is %s", file)
	}
	noComplaints(t, p)
}

// Keys that are pressed after a rejection was sent are no part of its reason.
func TestKeysAfterARejection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	p := w.signInWith(browsertest.Options{})
	p.WaitText("row", "second")
	ready(p)
	p.Press("j")
	p.WaitText("arguments", "first")
	p.WaitFor("keys to work", armed)
	browsertest.Eval[bool](p, `(() => {
		const real = window.fetch;
		window.fetch = async (...args) => {
			if (String(args[0]).endsWith("/reject")) await new Promise((done) => { window.release = done; });
			return real(...args);
		};
		return true;
	})()`)
	p.Press("r")
	p.Press("no")
	p.PressCtrlEnter()
	p.WaitFor("the rejection to be held back", `!!window.release`)
	p.Press("j")
	p.WaitText("arguments", "second")
	browsertest.Eval[bool](p, `(window.release(), true)`)
	if c := w.waitForEnd(first); c.Status != call.Rejected || c.Message != "no" {
		t.Errorf("the call is %s, %q", c.Status, c.Message)
	}
	p.WaitFor("the row to turn gray", `document.querySelectorAll("#rows > .row:not(.gone)").length === 1`)
	if got := browsertest.Eval[string](p, selectedFile); got != "second" {
		t.Errorf("%s is selected", got)
	}
	noComplaints(t, p)
}

func TestDecideWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.signInWith(browsertest.Options{NoScript: true})
	p.Wait("empty")
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	second := w.submit(uuid.Nil, "files__delete_file", `{"path":"/srv/shared/second"}`)
	p.WaitText("queue", "second") // the page updates itself
	p.Screenshot("queue")

	p.ClickOn("#row-" + first.String() + " a")
	p.Type("reason", "wrong folder")
	p.Click("reject")
	p.WaitText("decision", "wrong folder")
	if c := w.waitForEnd(first); c.Status != call.Rejected || c.Message != "wrong folder" {
		t.Errorf("the first call is %s, %q", c.Status, c.Message)
	}

	p.Go(w.server.URL)
	p.ClickOn("#row-" + second.String() + " a")
	p.Type("reason", "as agreed")
	p.Click("approve")
	p.WaitText("confirm", "/srv/shared/second")
	p.Screenshot("confirm")
	p.Click("back")
	p.Wait("decide")
	if draft := browsertest.Eval[string](p, `document.querySelector("#reason").value`); draft != "as agreed" {
		t.Errorf("after going back the reason is %q", draft)
	}
	p.Click("approve")
	p.Wait("confirm")
	p.Click("approve")
	p.WaitText("outcome", "Saved 2 rows")
	p.WaitText("decision", "as agreed")
	if c := w.waitForEnd(second); c.Status != call.Succeeded {
		t.Errorf("the second call is %s", c.Status)
	}
}

func TestSecondStepInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__delete_file", `{"path":"/srv/shared/customers.db"}`)
	p := w.signInWith(browsertest.Phone())
	p.ClickOn("#row-" + id.String() + " a")
	p.Wait("decide")
	p.WaitFor("buttons to work", armed)
	p.Screenshot("first step")
	p.Click("approve")
	p.WaitText("confirm", "/srv/shared/customers.db")
	if len(w.source.Arguments()) != 0 {
		t.Fatal("the call was sent before its second step")
	}
	p.Screenshot("second step")
	p.WaitFor("buttons to work", armed)
	p.Click("approve")
	p.WaitText("outcome", "Saved")
	p.Screenshot("done")
	noComplaints(t, p)
}

// A prototype approved the wrong call: keys acted while the call on the screen was not yet, or had only just become,
// the selected one.
// A reason that is typed too early, before the keys work, does not approve the call with one of its letters.
func TestTextTypedTooEarlyDecidesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	p := w.signInWith(browsertest.Options{})
	p.WaitText("row", "first")
	p.Before(`addEventListener("DOMContentLoaded", () => {
		const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
		const armed = () => ` + armed + `;
		const type = setInterval(() => {
			if (!document.querySelector("#reason")) return;
			press("r");
			clearInterval(type);
			let last = performance.now();
			const rest = setInterval(() => {
				if (performance.now() - last > 1000) return location.reload(); // the machine paused: the text would begin anew
				last = performance.now();
				press("b");
				const seen = document.querySelector("[data-gate]:not([data-unread])");
				if (!armed() || !seen) return;
				clearInterval(rest);
				for (const key of "ad account") press(key);
				window.typed = true;
			}, 20);
		}, 5);
	})`)
	p.Go(w.server.URL + callPath(first))
	p.WaitFor("the text to be typed", "window.typed === true")
	if text := browsertest.Eval[string](p, `document.querySelector("#hint").textContent`); text != "The call was not ready yet. Press the key again." {
		t.Errorf("the hint says %q", text)
	}
	if browsertest.Eval[bool](p, `document.querySelector("#decide .htmx-request") !== null`) || w.getApproval(first).Status != approval.Pending {
		t.Error("a letter of the text acted")
	}
	noComplaints(t, p)
}

func TestKeysActOnlyOnWhatIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	second := w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	p := w.signInWith(browsertest.Options{})
	p.Wait("row")
	p.Press("a") // nothing is selected
	p.WaitFor("the page to be long there", armed)
	browsertest.Eval[bool](p, `(new MutationObserver((_, observer) => {
		if (!document.querySelector("[data-testid=call]")) return;
		observer.disconnect();
		window.pressed = true; // as if the call had just arrived
		document.dispatchEvent(new KeyboardEvent("keydown", {key: "a", bubbles: true}));
	}).observe(document, {childList: true, subtree: true}), true)`)
	p.Press("j")
	p.WaitText("call", "first")
	p.WaitFor("the key to be pressed", "window.pressed")
	p.WaitFor("keys to work", armed)
	press := `document.dispatchEvent(new KeyboardEvent("keydown", {key: "a", repeat: true, bubbles: true}))`
	browsertest.Eval[bool](p, press)
	// Select another row than the call on the screen, and press at once: the next queue update corrects it.
	browsertest.Eval[bool](p, `(document.querySelectorAll("#rows > li")[0].removeAttribute("data-hp-selected"),
		document.querySelectorAll("#rows > li")[1].setAttribute("data-hp-selected", ""),
		document.dispatchEvent(new KeyboardEvent("keydown", {key: "a", bubbles: true})), true)`)
	for _, id := range []uuid.UUID{first, second} {
		if waiting, err := w.calls.GetApproval(t.Context(), id); err != nil || waiting.Approval.Status != "pending" {
			t.Errorf("call %s is %s, %v", id, waiting.Approval.Status, err)
		}
	}
	noComplaints(t, p)
}

func TestRowUnderThePointerStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	held := w.submit(uuid.Nil, "files__save_csv", `{"filename":"two"}`)
	p := w.signInWith(browsertest.Options{})
	p.WaitText("queue", "two")
	p.ClickOn("#row-" + held.String() + " a")
	p.WaitText("call", "two")
	where := fmt.Sprintf(`document.getElementById("row-%s").getBoundingClientRect().top`, held)
	before := browsertest.Eval[float64](p, where)

	p.Press("p") // the list changes in one step
	early := w.submit(uuid.Nil, "files__save_csv", `{"filename":"urgent"}`)
	w.db.Exec(`UPDATE approvals SET deadline = deadline - interval '2 minutes' WHERE call_id = $1`, early)
	late := w.submit(uuid.Nil, "files__save_csv", `{"filename":"late"}`)
	p.Press("p")
	p.WaitText("queue", "late")
	p.WaitText("fresh", "1 new")
	if p.Count("row") != 3 {
		t.Errorf("%d rows, want 3: %s", p.Count("row"), p.Text("queue"))
	}
	if after := browsertest.Eval[float64](p, where); after != before {
		t.Errorf("the row moved from %v to %v", before, after)
	}
	p.Screenshot("held")
	p.Click("fresh")
	p.WaitText("queue", "urgent")
	if first := browsertest.Eval[string](p, `document.querySelector("#rows > li").dataset.call`); first != early.String() {
		t.Errorf("the first row is %s, want the most urgent %s", first, early)
	}
	if p.Count("row") != 4 || !strings.Contains(p.Text("queue"), "late") {
		t.Errorf("rows: %s (late is %s)", p.Text("queue"), late)
	}
	noComplaints(t, p)
}

func TestReasonSurvivesTheDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	p := w.signInWith(browsertest.Options{})
	p.ClickOn("#row-" + id.String() + " a")
	p.Wait("decide")
	p.WaitFor("buttons to work", armed)
	p.Type("reason", "a long thought")
	w.db.Exec(`UPDATE clock_offset SET value = interval '1 hour'`)
	check(t, w.calls.Expire(t.Context(), id))
	p.WaitText("decision", "Expired")
	p.WaitGone("decide")
	p.Wait("draft")
	p.Screenshot("expired")
	if text := browsertest.Eval[string](p, `document.querySelector("[data-testid=draft]").value`); text != "a long thought" {
		t.Errorf("kept %q", text)
	}
	noComplaints(t, p)
}

// Injected markup must not be able to decide a call.
func TestInjectedMarkupStaysDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"<button hx-post=\"/calls/x/approve\">Approve</button>","n":"<img src=x onerror=alert(1)>"}`)
	p := w.signInWith(browsertest.Options{})
	p.Go(w.server.URL + "/calls/" + id.String())
	p.WaitFor("buttons to work", armed)
	if n := browsertest.Eval[int](p, `document.querySelectorAll(".data button, .data img, .data script").length`); n != 0 {
		t.Fatalf("%d elements grew out of arguments", n)
	}
	noComplaints(t, p)
	injected := browsertest.Eval[bool](p, fmt.Sprintf(`(() => {
		const button = document.createElement("button");
		button.type = "button";
		button.setAttribute("hx-post", "/calls/%s/approve");
		button.setAttribute("hx-vals", JSON.stringify({digest: document.querySelector("#call").dataset.digest}));
		document.querySelector("#call form").append(button);
		htmx.process(button);
		const dead = !button.hasAttribute("hx-post");
		button.click();
		return dead;
	})()`, id))
	if !injected {
		t.Error("an element without the page's nonce kept its hx-post")
	}
	blocked := browsertest.Eval[bool](p, `(() => {
		try { document.body.insertAdjacentHTML("beforeend", "<b>x</b>"); return false } catch { return true }
	})()`)
	if !blocked {
		t.Error("a string became markup in spite of require-trusted-types-for")
	}
	if waiting, err := w.calls.GetApproval(t.Context(), id); err != nil || waiting.Approval.Status != "pending" {
		t.Errorf("the call is %s, %v", waiting.Approval.Status, err)
	}
}

func TestSignOutEndsTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		return tool.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"no"}],"isError":true}`), IsError: true}, nil
	})
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	p := w.signInWith(browsertest.Options{})
	p.WaitFor("the first renewal, which signing out would cut off", `performance.getEntriesByType("resource").some(e => e.name === location.origin + "/")`)
	p.Click("sign-out")
	p.Wait("sign-in")
	p.Go(w.server.URL + "/calls/" + id.String() + "?view=json")
	p.Wait("token")
	_, token, err := w.people.CreateToken(t.Context(), uuid.Nil, "bob", []identity.Role{identity.Reviewer}, nil)
	check(t, err)
	p.Type("token", token)
	p.Click("sign-in-token")
	p.WaitText("person", "bob")
	if p.Path() != "/calls/"+id.String()+"?view=json" {
		t.Errorf("after signing in the page is %s", p.Path())
	}
	p.WaitFor("buttons to work", armed)
	p.Press("a")
	p.WaitText("outcome", "The tool ran and reported an error.")
	p.Screenshot("tool error")
	noComplaints(t, p)
}

func TestOutcomeComesByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		<-release
		return tool.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"at last"}]}`)}, nil
	})
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	p := w.signInWith(browsertest.Options{})
	p.ClickOn("#row-" + id.String() + " a")
	p.Wait("decide")
	p.WaitFor("buttons to work", armed)
	p.Click("approve")
	p.WaitText("state", "Running")
	p.WaitFor("a second look", `performance.getEntriesByType("resource").filter(e => e.name.includes("known=executing")).length > 1`)
	close(release)
	p.WaitText("outcome", "at last")
	noComplaints(t, p)
}

func TestInterruptedStreamIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	p := w.signInWith(browsertest.Options{})
	p.WaitFor("the stream", `document.documentElement.hasAttribute("data-live")`)
	w.ui.Close()
	p.Wait("stale")
	p.Screenshot("stale")
	p.ClickOn("#row-" + id.String() + " a")
	p.Wait("decide")
	p.WaitFor("buttons to work", armed)
	p.Click("approve")
	p.WaitText("outcome", "Saved 2 rows")
}
