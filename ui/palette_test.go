package ui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// listHits returns the results of a search as "kind name" by their address.
func (v *visitor) listHits(typed string) map[string]string {
	v.w.t.Helper()
	a := v.get("/search?q=" + url.QueryEscape(typed))
	if a.status != http.StatusOK {
		v.w.t.Fatalf("search for %q: %d", typed, a.status)
	}
	found := map[string]string{}
	for _, hit := range a.find("hit").EachIter() {
		found[hit.AttrOr("href", "")] = strings.Join(strings.Fields(hit.Text()), " ")
	}
	return found
}

func TestPaletteFinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a.csv"}`)
	w.someone("Zelda Fitz")
	olga, rita := w.signedIn("olga", identity.Operator), w.signedIn("rita", identity.Reviewer)
	digits := strings.ReplaceAll(id.String(), "-", "")
	for _, typed := range []string{id.String(), strings.ToUpper(id.String()), digits, "…" + digits[26:], digits[24:]} {
		if got := rita.listHits(typed)[callPath(id)]; !strings.HasPrefix(got, "Call files: save_csv") {
			t.Errorf("%q finds %q", typed, got)
		}
	}
	if got := rita.listHits(digits[27:]); got[callPath(id)] != "" {
		t.Errorf("5 digits find %v", got)
	}
	if !strings.Contains(rita.get("/search?q="+uuid.NewString()).text(), "among the newest calls") {
		t.Error("an unknown id is not explained")
	}
	agents := "/agents/" + w.agent.ID.String()
	skill, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	skills := skill.ID.String()
	for _, tt := range []struct{ typed, path, want string }{
		{"SAVE", "/skills/" + skills + "/tools?tool=save_csv", "Tool save_csv files"},
		{"file", "/skills/" + skills, "Skill files"},
		{"bill", agents, "Agent billing"},
		{"insi", "/insights", "Page Insights"},
		{"next", "/", "Action Open the next call"},
	} {
		if got := rita.listHits(tt.typed)[tt.path]; got != tt.want {
			t.Errorf("%s finds %q, want %q", tt.typed, got, tt.want)
		}
	}
	zelda := "/members/" + w.personCalled("Zelda Fitz").String()
	if got := olga.listHits("zelda")[zelda]; got != "Person Zelda Fitz" {
		t.Errorf("operators find %q", got)
	}
	if got := rita.listHits("zelda"); len(got) != 0 {
		t.Errorf("reviewers find %v", got)
	}
	if rita.listHits("")["/members"] != "" || olga.listHits("")["/members"] == "" {
		t.Error("the page of members is for operators")
	}
	if got := rita.listHits("%"); len(got) != 0 {
		t.Errorf("%% finds %v", got)
	}
}

// Tools of deleted skills and tools that are no longer offered are not found, and no kind fills the list.
func TestPaletteIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{}`) // lists the tools
	w.db.Exec(`INSERT INTO skill_tools (skill_id, name, current_pin)
		SELECT skill_id, 'zz_' || n, current_pin FROM (SELECT skill_id, current_pin FROM skill_tools LIMIT 1) one, generate_series(1, 30) n`)
	rita := w.signedIn("rita", identity.Reviewer)
	if got := len(rita.listHits("zz_")); got != 8 {
		t.Errorf("%d tools found", got)
	}
	w.db.Exec(`UPDATE skill_tools SET removed_at = now() WHERE name LIKE 'zz%' AND name <> 'zz_7'`)
	if got := len(rita.listHits("zz_")); got != 1 {
		t.Errorf("%d offered tools found", got)
	}
	// The end of an id is compared with the newest 1,000 calls only.
	end := strings.ReplaceAll(id.String(), "-", "")[24:]
	w.db.Exec(`INSERT INTO calls SELECT (jsonb_populate_record(c, jsonb_build_object('id', overlay(gen_random_uuid()::text PLACING 'ffffffff-ffff' FROM 1)))).*
		FROM calls c, generate_series(1, 1000) WHERE c.id = $1`, id)
	if got := rita.listHits(end); got[callPath(id)] != "" {
		t.Error("the end of an id finds an old call")
	}
	if got := rita.listHits(id.String()); got[callPath(id)] == "" {
		t.Error("an id does not find an old call")
	}
}

func TestPaletteInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a.csv"}`)
	p := w.signInWith(browsertest.Options{})
	p.WaitFor("the page", `document.documentElement.hasAttribute("data-ready")`)
	p.PressCtrlK()
	p.Wait("hit")
	p.Type("palette-text", "save_c")
	p.WaitAnnounced("2 results") // of two skills
	p.Screenshot("palette")
	p.WaitFor("the results", `document.querySelector("#palette").dataset.q === "save_c"`)
	p.Press("\r")
	p.WaitFor("the tool", `location.pathname.endsWith("/tools")`)
	p.WaitFor("the page", `document.documentElement.hasAttribute("data-ready")`)
	p.Press("/") // no search field there
	p.Wait("palette")
	p.Type("palette-text", id.String())
	p.WaitFor("the call", `document.querySelector("#palette").dataset.q === "`+id.String()+`"`)
	p.Press(kb.ArrowDown)
	p.WaitFor("focus on the call", `document.activeElement.getAttribute("href") === "`+callPath(id)+`"`)
	p.Press("\r")
	p.WaitFor("buttons to work", armed)

	// Actions: copy the id, which selects nothing here, and switch the theme.
	browsertest.Eval[bool](p, "(navigator.clipboard.writeText = async (text) => { window.copied = text; }, true)")
	p.PressCtrlK()
	p.Type("palette-text", "Copy the id")
	p.WaitFor("the action", `document.querySelector("#palette").dataset.q === "Copy the id"`)
	p.Press("\r")
	p.WaitAnnounced("Copied")
	p.PressCtrlK()
	p.Type("palette-text", "Switch between")
	p.WaitFor("the action", `document.querySelector("#palette").dataset.q === "Switch between"`)
	p.Press("\r")
	p.WaitFor("dark", `document.documentElement.dataset.theme === "dark"`)
	noComplaints(t, p)
}

func TestCopyButtons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a.csv"}`)
	p := w.signInWith(browsertest.Options{})
	p.Before(`navigator.clipboard.writeText = async (text) => { if (window.denied) throw Error("denied"); window.copied = text; }`)
	p.Go(w.server.URL + callPath(id))
	p.WaitFor("the page", `document.documentElement.hasAttribute("data-ready")`)
	p.ClickOn(".crumbs .copy")
	p.WaitAnnounced("Copied")
	if got := browsertest.Eval[string](p, "window.copied"); got != id.String() {
		t.Errorf("copied %q", got)
	}
	browsertest.Eval[bool](p, "window.denied = true")
	p.ClickOn(".crumbs .copy")
	p.WaitAnnounced("Selected")
	if got := browsertest.Eval[string](p, "String(getSelection())"); strings.TrimSpace(got) != id.String() {
		t.Errorf("selected %q", got)
	}
	if p.Count("copy") < 2 {
		t.Error("the digest cannot be copied")
	}
	p.Become(browsertest.Options{NoScript: true})
	p.Go(w.server.URL + callPath(id))
	p.Wait("decide")
	p.WaitGone("copy")
}

// Each outcome is announced, and the focus goes on.
func TestOutcomesAreAnnounced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	second := w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	p := w.signInWith(browsertest.Options{})
	w.setQueue(false, false)
	p.Go(w.server.URL + callPath(first))
	p.WaitFor("buttons to work", armed)
	p.Click("extend")
	p.WaitAnnounced("The deadline was moved.")
	p.WaitFor("buttons to work", armed)
	p.Click("reject")
	p.WaitAnnounced("Rejected")
	p.WaitFor("focus on the next call", `document.activeElement.dataset.testid === "next-call"`)

	p.Go(w.server.URL + callPath(second))
	p.WaitFor("buttons to work", armed)
	w.signedIn("jonas", identity.Reviewer).decide(second, "reject", "no")
	p.WaitAnnounced("jonas")

	p.Go(w.server.URL + "/")
	p.Wait("empty")
	p.WaitFor("live updates", `document.documentElement.hasAttribute("data-live")`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"third"}`)
	p.WaitAnnounced("1 decision is pending")

	p.Go(w.server.URL + "/settings")
	p.Click("save-theme")
	p.WaitAnnounced("Theme saved")
	p.WaitFor("the address without the notice", `location.search === ""`)
	p.WaitFor("focus on the notice", `document.activeElement.classList.contains("notice")`)
	noComplaints(t, p)
}

// The outcomes of keys are announced too. The focus goes on, although no button had it.
func TestOutcomesOfKeysAreAnnounced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	second := w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	p := w.signInWith(browsertest.Options{})
	w.setQueue(false, false)
	p.Go(w.server.URL + callPath(first))
	p.WaitFor("keys to work", armed)
	p.Press("m")
	p.WaitAnnounced("ana is on it")
	p.WaitFor("keys to work", armed)
	p.Press("m")
	p.WaitAnnounced("Released. No one is working on the call.")
	w.signedIn("ben", identity.Reviewer).post(callPath(first)+"/claim", nil)
	p.WaitAnnounced("ben is on it")
	p.WaitFor("keys to work", armed)
	browsertest.Eval[bool](p, `(document.activeElement.blur(), true)`)
	p.Press("a")
	p.WaitAnnounced("Approved by ana")
	p.WaitFor("focus on the next call", `document.activeElement.dataset.testid === "next-call"`)

	// The deadline passes while the reviewer types.
	p.Go(w.server.URL + callPath(second))
	p.WaitFor("keys to work", armed)
	p.Press("r")
	p.Press("wrong folder")
	w.db.MoveClock("2 hours")
	p.WaitAnnounced("Expired")
	p.Wait("draft")
	p.WaitFor("focus in the call", `document.activeElement.closest("#call")`)
	noComplaints(t, p)
}

// htmx drops a key on a button whose last response is on its way. So an update that would keep the button waits for the response.
func TestUpdateWaitsForResponse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	p := w.signInWith(browsertest.Options{})
	p.Before(`window.held = {};
		window.ended = 0;
		const send = window.fetch;
		const hold = (name) => new Promise((release) => { window.held[name] = release; });
		window.fetch = async (address, options) => {
			if (/claim$/.test(address) && !window.held.form) {
				await hold("form");
				throw TypeError("no network");
			}
			const isHeld = window.holding && /known=/.test(address);
			const response = await send(address, options);
			if (isHeld) await hold("update");
			return response;
		};
		document.addEventListener("htmx:finally:request", ({ detail }) => { if (/known=/.test(detail.ctx.request.action)) window.ended++; });`)
	p.Go(w.server.URL + callPath(id))
	p.WaitFor("keys to work", armed)
	p.WaitFor("the first update", "window.ended > 0")
	browsertest.Eval[bool](p, "window.holding = true")
	w.signedIn("ben", identity.Reviewer).post(callPath(id)+"/claim", nil)
	p.WaitFor("an update", "window.held.update")
	p.Press("m")
	p.WaitFor("the form", "window.held.form")
	browsertest.Eval[bool](p, "(window.holding = false, window.ended = 0, window.held.update(), true)")
	p.WaitFor("the end of the update", "window.ended > 0")
	if browsertest.Eval[bool](p, `document.querySelector("[data-testid=holder]") !== null`) {
		t.Error("the update does not wait")
	}
	browsertest.Eval[bool](p, "(window.held.form(), true)")
	p.WaitAnnounced("ben is on it")
	p.WaitFor("keys to work", armed)
	p.Press("m")
	p.WaitAnnounced("ana is on it")
}

// In the queue, another call may be on the screen by the time of an outcome.
func TestOutcomesInTheQueueAreAnnounced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	p := w.signInWith(browsertest.Options{})
	w.setQueue(true, true)
	ready(p)
	p.Press("p")
	p.WaitAnnounced("Live updates paused.")
	p.Press("p")
	p.WaitAnnounced("Live updates resumed.")
	p.Press("j")
	p.WaitText("arguments", "first")
	p.WaitFor("keys to work", armed)
	stopClock(p)
	p.Press("a")
	w.keepUndoOpen(first)
	p.WaitAnnounced("Approved by ana")
	p.WaitText("arguments", "second")
	p.WaitFor("focus on the next call", `document.activeElement.closest("#rows > [data-hp-selected]")?.textContent.includes("second")`)
	p.WaitText("undo-last", "save_csv")
	p.Press("u")
	p.WaitAnnounced("The approval was taken back.")
	p.WaitText("arguments", "first")
	p.WaitFor("its row to be selected", selectedFile+` === "first"`)
	noComplaints(t, p)
}

// An undo that comes too late is announced, although its call is no longer on the screen: after the page's count of the seconds, and before it if
// the server knows better.
func TestTooLateToUndoIsAnnounced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	second := w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"third"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"fourth"}`)
	p := w.approveFirst(first)
	w.db.MoveClock("1 minute")
	p.WaitFor("the end of the time to undo", `document.querySelector("#undo").hidden`)
	p.Press("u")
	p.WaitAnnounced("Too late to undo")

	p.WaitFor("keys to work", armed)
	p.Press("a")
	w.keepUndoOpen(second)
	p.WaitText("arguments", "third")
	p.WaitText("undo-last", "save_csv")
	// Another call is opened before the response.
	held, err := w.db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := held.Exec(t.Context(), `UPDATE approvals SET undo_until = decided_at - interval '2 hours' WHERE call_id = $1`, second); err != nil {
		t.Fatal(err)
	}
	p.Press("uj")
	p.WaitText("arguments", "fourth")
	p.WaitFor("keys to work", armed)
	p.Press("rbecause")
	p.WaitFor("the reason", `document.activeElement.id === "reason" && document.activeElement.value === "because"`)
	if err := held.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.WaitAnnounced("The call may have been sent already.")
	p.WaitText("hint", "The call may have been sent already.")
	p.Press(" of")
	if got := p.Text("arguments"); !strings.Contains(got, "fourth") {
		t.Errorf("the screen shows %s", got)
	}
	if !browsertest.Eval[bool](p, `document.activeElement.id === "reason" && document.activeElement.value === "because of"`) {
		t.Error("the reason was not kept")
	}
}

// A notice comes from a fixed list.
func TestNoticesAfterForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator)
	if got := v.get("/settings?done=session-ended").find("notice").Text(); !strings.Contains(got, "Session ended") {
		t.Errorf("the notice is %q", got)
	}
	if v.get("/settings?done=<b>pwned").find("notice").Text() != v.get("/settings").find("notice").Text() {
		t.Error("an unknown key is shown")
	}
	if a := v.post("/settings/theme", url.Values{"theme": {"dark"}}); a.header.Get("Location") != "/settings?done=theme-saved" {
		t.Errorf("leads to %s", a.header.Get("Location"))
	}
}

func TestManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.visitor()
	a := v.get(v.get("/sign-in").doc.Find("link[rel=manifest]").AttrOr("href", "/"))
	var m struct {
		Name     string
		StartURL string `json:"start_url"`
		Icons    []struct{ Src, Sizes, Type, Purpose string }
	}
	check(t, json.Unmarshal([]byte(a.body), &m))
	if m.Name != "Holdpoint" || m.StartURL != "/" || len(m.Icons) != 2 || a.header.Get("Content-Type") != "application/manifest+json" {
		t.Errorf("%+v %s", m, a.header.Get("Content-Type"))
	}
	for _, icon := range m.Icons {
		picture, err := png.DecodeConfig(strings.NewReader(v.get(icon.Src).body))
		if err != nil || fmt.Sprintf("%dx%d", picture.Width, picture.Height) != icon.Sizes || icon.Purpose != "any maskable" {
			t.Errorf("%+v: %v %v", icon, picture, err)
		}
	}
	// iOS pushes only to the installed app.
	p := w.signInWith(browsertest.Options{})
	p.Go(w.server.URL + "/settings")
	p.WaitFor("the choice", `!document.querySelector("#notify").disabled`)
	p.WaitGone("notify-ios")
	p.Before(`Object.defineProperty(navigator, "userAgent", {value: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)"})`)
	p.Go(w.server.URL + "/settings")
	p.Wait("notify-ios")
}

// The bar of a phone is low, and its targets are large. The reason is asked for when it is needed.
func TestBarOfThePhone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first","rows":[1,2,3]}`)
	other := w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	p := w.signInWith(browsertest.Phone())
	w.setQueue(false, false)
	p.Go(w.server.URL + callPath(id))
	p.WaitFor("buttons to work", armed)
	p.WaitFor("the text of the read gate", `document.querySelector(".approve small").textContent !== ""`)
	p.Screenshot("bar")
	if high := browsertest.Eval[float64](p, `document.querySelector(".actions").getBoundingClientRect().height`); high > 120 {
		t.Errorf("the bar is %v px high", high)
	}
	small := browsertest.Eval[[]string](p, `[...document.querySelectorAll(".actions button, .menu, #call button, .crumbs button")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 44).map((e) => e.outerHTML.slice(0, 90))`)
	if len(small) > 0 {
		t.Errorf("small targets: %q", small)
	}
	p.WaitGone("reason")
	p.Tap("reject")
	p.Wait("reason")
	p.WaitFor("focus on the reason", `document.activeElement.id === "reason"`)
	p.Press("wrong folder")
	p.Tap("reject")
	if c := w.waitForEnd(id); c.Status != call.Rejected || c.Message != "wrong folder" {
		t.Errorf("%s, %q", c.Status, c.Message)
	}
	p.WaitAnnounced("Rejected")
	p.Wait("next-call")

	o := browsertest.Phone()
	o.NoScript = true
	p.Become(o)
	p.Go(w.server.URL + callPath(other))
	p.Wait("reason")
}

// With forced colors and at 200 % zoom, nothing of a call is cut, and its actions are there.
func TestForcedColorsAndZoom(t *testing.T) {
	t.Parallel()
	source := axe(t)
	w := newWorld(t)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"/srv/shared/a-rather-long-folder/quarter.csv","rows":["\u202ehidden",2,3]}`)
	p := w.signInWith(browsertest.Options{})
	for name, o := range map[string]browsertest.Options{
		"forced": {Forced: true}, "forced dark": {Forced: true, Dark: true}, "zoom": {Width: 640, Height: 400, Zoom: 2},
	} {
		p.Become(o)
		p.Go(w.server.URL + callPath(id))
		p.WaitFor("buttons to work", armed)
		p.Screenshot(name)
		if browsertest.Eval[bool](p, `matchMedia("(forced-colors: active)").matches`) != o.Forced {
			t.Errorf("%s: colors are not forced", name)
		}
		if wide := browsertest.Eval[float64](p, "document.scrollingElement.scrollWidth - innerWidth"); wide > 0 {
			t.Errorf("%s: %v px wider than the window", name, wide)
		}
		cut := browsertest.Eval[[]string](p, `[...document.querySelectorAll("#call *")].filter((e) => e.checkVisibility() && !e.closest(".sr, [tabindex='0']") && getComputedStyle(e).overflowX === "hidden" && e.scrollWidth > e.clientWidth + 1).map((e) => e.outerHTML.slice(0, 90))`)
		if len(cut) > 0 {
			t.Errorf("%s: cut: %q", name, cut)
		}
		for _, button := range []string{"reject", "approve", "edit-open", "extend"} {
			if !browsertest.Eval[bool](p, `(box => box.left >= 0 && box.right <= innerWidth && box.top >= 0 && box.bottom <= innerHeight)(document.querySelector("[data-testid=`+button+`]").getBoundingClientRect())`) {
				t.Errorf("%s: %s is outside the window", name, button)
			}
		}
		browsertest.Eval[bool](p, source+"; true")
		for _, b := range barriers(p, false) {
			if o.Forced && b.Rule == "color-contrast" {
				continue // the colors are the reader's, and axe does not know them
			}
			t.Errorf("%s: %s (%s)\n\t%s", name, b.Help, b.Rule, strings.Join(b.Where, "\n\t"))
		}
	}
}

// With forced colors, the selected row, the chips and the figures can be told from the page.
func TestForcedColorsOfLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn("rita", identity.Reviewer) // who decided in the figures
	w.makeFigures()
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"\u202efirst"}`)
	w.submit(uuid.Nil, "files__delete_file", `{"path":"/srv/shared/second"}`)
	p := w.signInWith(browsertest.Options{})
	for name, o := range map[string]browsertest.Options{"forced": {Forced: true}, "forced dark": {Forced: true, Dark: true}} {
		p.Become(o)
		p.Go(w.server.URL)
		ready(p)
		p.Press("j")
		p.WaitFor("keys to work", armed+` && document.querySelector("#call[data-call]")`)
		p.Screenshot(name + " queue")
		if browsertest.Eval[string](p, `getComputedStyle(document.querySelector("#rows > [data-hp-selected]")).outlineStyle`) != "solid" {
			t.Errorf("%s: the selected row has no outline", name)
		}
		p.Go(w.server.URL + figuresWeek)
		p.Screenshot(name + " insights")
		p.Become(browsertest.Options{Forced: true, Dark: o.Dark, Height: 3600, Width: 1280})
		p.Go(w.server.URL + figuresWeek)
		p.Screenshot(name + " insights whole")
	}
}
