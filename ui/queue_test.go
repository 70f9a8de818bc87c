package ui_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// rowOrder returns the argument "filename" or "path" of each row.
func rowOrder(page *answer) []string {
	var order []string
	for _, row := range page.find("row").EachIter() {
		order = append(order, strings.TrimSpace(row.Find(".val").First().Text()))
	}
	return order
}

func TestRowsAreDense(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 20 {
		w.submit(uuid.Nil, "files__save_csv", fmt.Sprintf(`{"filename":"/srv/shared/a-rather-long-folder/quarter-%d.csv","folder":"shared","rows":[1,2,3]}`, i))
	}
	w.submit(uuid.Nil, "files__delete_file", `{"path":"/srv/sha\u202ered/gone"}`)
	p := w.signInWith(browsertest.Options{Width: 1280, Height: 900})
	p.WaitFor("all rows", `document.querySelectorAll("[data-testid=row]").length === 21`)
	p.Screenshot("queue")
	heights := browsertest.Eval[[]float64](p, `[...new Set([...document.querySelectorAll("[data-testid=row]")].map((row) => row.getBoundingClientRect().height))]`)
	if !slices.Equal(heights, []float64{56}) {
		t.Errorf("rows are %v high, want 56", heights)
	}
	shown := browsertest.Eval[int](p, `[...document.querySelectorAll("[data-testid=row]")].filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length`)
	if shown < 12 {
		t.Errorf("%d rows on the screen, want at least 12", shown)
	}
	noBrokenWords(t, p)
	if found := browsertest.Eval[string](p, `getComputedStyle(document.querySelector("#rows > .row")).contentVisibility`); found != "auto" {
		t.Errorf("content-visibility of rows is %q: the browser draws those far below the screen too", found)
	}
	p.Become(browsertest.Phone())
	p.Screenshot("phone")
	heights = browsertest.Eval[[]float64](p, `[...new Set([...document.querySelectorAll("[data-testid=row]:not(:has(.badge.danger))")].map((row) => row.getBoundingClientRect().height))]`)
	if !slices.Equal(heights, []float64{56}) {
		t.Errorf("on the phone rows are %v high, want 56", heights)
	}
	if high := browsertest.Eval[float64](p, `document.querySelector("[data-testid=row]:has(.badge.danger)").getBoundingClientRect().height`); high > 80 {
		t.Errorf("on the phone the row with a warning is %v high, want at most one line more", high)
	}
	noBrokenWords(t, p)
}

// A key for the call on the screen says what to do while there is none.
func TestKeysWithoutACallSayWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.signInWith(browsertest.Options{})
	ready(p)
	hinted := func(text string) { // also if the hint has left again
		t.Helper()
		p.WaitFor("a hint", `document.querySelector("#hint").textContent.includes("`+text+`")`)
	}
	p.Press("a")
	hinted("No decisions are pending")
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	p.WaitFor("the row", `document.querySelectorAll("#rows > .row").length === 1`)
	for _, key := range []string{"a", "r", "e", "h", "m"} {
		p.WaitFor("no hint", `(document.querySelector("#hint").textContent = "") === ""`)
		p.Press(key)
		hinted("Open a call first")
	}
	p.WaitAnnounced("Open a call first")
	p.WaitFor("the hint on the screen", `((hint) => {
		if (hint.hidden) document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
		const { left, bottom, width } = hint.getBoundingClientRect();
		return bottom <= innerHeight && width > innerWidth / 2 && document.elementFromPoint(left + 30, bottom - 10) === hint;
	})(document.querySelector("#hint"))`)
	p.Screenshot("hint")
	p.Press("j")
	p.WaitFor("the hint to leave", `document.querySelector("#hint").hidden`)
	p.WaitText("arguments", "first")
	noComplaints(t, p)
}

// noBrokenWords fails the test if a word of a row is on two lines.
func noBrokenWords(t *testing.T, p *browsertest.Page) {
	t.Helper()
	broken := browsertest.Eval[[]string](p, `(() => {
		const broken = [];
		const walker = document.createTreeWalker(document.querySelector("#rows"), NodeFilter.SHOW_TEXT);
		while (walker.nextNode()) for (const word of walker.currentNode.data.matchAll(/\S+/g)) {
			const range = document.createRange();
			range.setStart(walker.currentNode, word.index);
			range.setEnd(walker.currentNode, word.index + word[0].length);
			const tops = [...range.getClientRects()].map((box) => box.top);
			if (Math.max(...tops) - Math.min(...tops) > 8) broken.push(word[0]);
		}
		return broken;
	})()`)
	if len(broken) > 0 {
		t.Errorf("broken words: %q", broken)
	}
}

func TestQueueIsOrdered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	w.submit(uuid.Nil, "files__delete_file", `{"path":"two"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"three"}`)
	w.submit(uuid.Nil, "files__delete_file", `{"path":"four"}`)
	v := w.signedIn("ana", identity.Reviewer)
	for query, want := range map[string]string{
		"":                      "one two three four",
		"?sort=risk":            "two four one three",
		"?sort=nonsense":        "one two three four",
		"?group=tool":           "two four one three",
		"?group=tool&sort=risk": "two four one three",
		"?mine=1":               "",
	} {
		if got := strings.Join(rowOrder(v.get("/"+query)), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	grouped := v.get("/?group=tool")
	if got := strings.Join(strings.Fields(grouped.find("group").Text()), " "); got != "files: delete_filefiles: save_csv" {
		t.Errorf("groups: %s", got)
	}
	form := grouped.find("queue-filter")
	if !strings.Contains(form.Find("noscript").Text(), "Filter") || form.Find("button").Length() != 0 { // noscript has text only
		t.Error("the button to apply the filter is not only for pages without scripts")
	}
	if live := grouped.find("queue").AttrOr("hx-get", ""); live != "/?group=tool" {
		t.Errorf("the live list is %s", live)
	}
}

func TestChoicesApplyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	w.submit(uuid.Nil, "files__delete_file", `{"path":"two"}`)
	p := w.signInWith(browsertest.Options{})
	p.WaitText("queue", "two")
	first := `document.querySelector("[data-testid=row] .val").textContent.trim()`
	choose := func(value string) {
		browsertest.Eval[bool](p, fmt.Sprintf(`(() => {
			const order = document.querySelector("#choose-sort");
			order.value = %q;
			return order.dispatchEvent(new Event("change", {bubbles: true}));
		})()`, value))
	}
	ready(p)
	choose("risk")
	p.WaitFor("the order by risk", first+` === "two"`)
	if p.Path() != "/?sort=risk" {
		t.Errorf("the page is %s", p.Path())
	}
	w.submit(uuid.Nil, "files__delete_file", `{"path":"three"}`) // an update keeps the order
	p.WaitText("queue", "three")
	if got := browsertest.Eval[string](p, first); got != "two" {
		t.Errorf("the first row is %s", got)
	}
	choose("")
	p.WaitFor("the order by deadline", first+` === "one"`)
	if p.Path() != "/" {
		t.Errorf("the page is %s", p.Path())
	}
	noComplaints(t, p)
}

func TestSavedViews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	v := w.signedIn("ana", identity.Reviewer)
	link := v.get("/?sort=risk&group=tool&after=x").find("views").AttrOr("href", "")
	if link != "/queue/views?group=tool&sort=risk" {
		t.Fatalf("the page of views is %s", link)
	}
	form := v.get(link).form("save-view")
	save := func(name string) *answer {
		form.Set("name", name)
		return v.post("/queue/views", form)
	}
	if a := save("By <risk>"); a.header.Get("Location") != "/?group=tool&sort=risk&done=view-saved" {
		t.Errorf("after saving: %d %s", a.status, a.header.Get("Location"))
	}
	if href := v.get("/").find("saved-views").Find("a").AttrOr("href", ""); href != "/?group=tool&sort=risk" {
		t.Errorf("the view opens %s", href)
	}
	for name, want := range map[string]string{
		" ":                      "Enter a name",
		strings.Repeat("é", 61):  "has 61 characters. Use at most 60.",
		"By <risk>":              "already have a view with this name",
		"x\x00":                  "cannot be stored",
		strings.Repeat("é", 600): "has 600 characters",
	} {
		if a := save(name); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.find("form-error").Text(), want) {
			t.Errorf("%q: %d %s", name, a.status, a.find("form-error").Text())
		}
	}
	for i := range 19 {
		if a := save(strconv.Itoa(i)); a.status != http.StatusSeeOther {
			t.Fatalf("view %d: %d", i, a.status)
		}
	}
	if a := save("one more"); !strings.Contains(a.find("form-error").Text(), "You have 20 saved views") {
		t.Errorf("a view too many: %d %s", a.status, a.find("form-error").Text())
	}
	if n := w.signedIn("ben", identity.Reviewer).get("/queue/views").find("view").Length(); n != 0 {
		t.Errorf("someone else sees %d views", n)
	}
	v.post("/queue/views/delete", url.Values{"name": {"By <risk>"}})
	if n := v.get("/queue/views").find("view").Length(); n != 19 {
		t.Errorf("%d views are left, want 19", n)
	}
}

// ready waits until scripts handle keys.
func ready(p *browsertest.Page) {
	p.WaitFor("scripts", `document.documentElement.hasAttribute("data-ready")`)
}

// selectedFile is the file of the selected row.
const selectedFile = `document.querySelector("#rows > [data-hp-selected] .val")?.textContent.trim()`

func TestNextCallOpensAfterADecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := map[string]uuid.UUID{}
	for _, name := range []string{"one", "two", "three", "four"} {
		ids[name] = w.submit(uuid.Nil, "files__save_csv", `{"filename":"`+name+`"}`)
	}
	p := w.signInWith(browsertest.Options{})
	p.WaitText("queue", "four")
	ready(p)
	p.Press("j")
	p.WaitText("call", "one")
	p.WaitFor("keys to work", armed)
	p.Press("a")
	p.WaitText("arguments", "two")
	p.WaitFor("keys to work", armed)
	if got := browsertest.Eval[string](p, selectedFile); got != "two" {
		t.Errorf("after the first decision %s is selected", got)
	}
	if c := w.waitForEnd(ids["one"]); c.Status != call.Succeeded {
		t.Errorf("the first call is %s", c.Status)
	}
	p.WaitFor("the decided row to leave", `document.querySelectorAll("#rows > li").length === 3`)

	// The update about the decision arrives before the response to the form.
	browsertest.Eval[bool](p, `(() => {
		const real = window.fetch;
		window.fetch = async (...args) => {
			const response = await real(...args);
			if (args[1]?.method === "POST" && String(args[0]).endsWith("/reject")) await new Promise((done) => { window.release = done; });
			return response;
		};
		return true;
	})()`)
	p.Press("r")
	p.Press("no")
	p.PressCtrlEnter()
	p.WaitFor("the response to be held back", `!!window.release`)
	p.WaitText("decision", "no")
	browsertest.Eval[bool](p, `(window.release(), true)`)
	p.WaitText("arguments", "three")
	p.WaitFor("keys to work", armed)

	// At the end of the list, the one before is next.
	p.Press("j")
	p.WaitText("arguments", "four")
	p.WaitFor("keys to work", armed)
	p.Press("a")
	p.WaitText("arguments", "three")
	p.WaitFor("keys to work", armed)

	// Nothing is next.
	p.Press("a")
	p.WaitText("outcome", "Saved 2 rows")
	noComplaints(t, p)
}

func TestNextCallStaysClosedIfChosen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"two"}`)
	v := w.signedIn("ana", identity.Reviewer)
	if _, on := v.get("/").find("queue").Attr("data-advance"); !on || v.get("/settings").form("queue-settings").Get("advance") != "1" {
		t.Error("the next call does not open by default")
	}
	v.post("/settings/queue", url.Values{})
	if v.get("/settings").form("queue-settings").Get("advance") != "" {
		t.Error("the choice is not kept")
	}
	p := w.signInWith(browsertest.Options{})
	p.WaitText("queue", "two")
	ready(p)
	p.Press("j")
	p.WaitText("arguments", "one")
	p.Press("j")
	p.WaitText("arguments", "two")
	p.WaitFor("keys to work", armed)
	p.Press("a")
	p.WaitText("outcome", "Saved 2 rows")
	p.Press("j") // the last one was decided
	p.WaitText("arguments", "one")
	noComplaints(t, p)
}

func TestNextCallWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	own := w.submit(w.personCalled("ana"), "files__save_csv", `{"filename":"own"}`)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	second := w.submit(uuid.Nil, "files__save_csv", `{"filename":"two"}`)
	if v.get(callPath(first)).find("next-call").Length() != 0 {
		t.Error("a pending call has a link to the next one")
	}
	v.post(callPath(first)+"/reject", v.get(callPath(first)).form("decide"))
	next := v.get(callPath(first)).find("next-call").AttrOr("href", "")
	if at := v.get(next).header.Get("Location"); at != callPath(second) {
		t.Errorf("%s leads to %s, want %s (own is %s)", next, at, callPath(second), own)
	}
	v.post(callPath(second)+"/reject", v.get(callPath(second)).form("decide"))
	if at := v.get(next).header.Get("Location"); at != "/" {
		t.Errorf("with nothing to decide it leads to %s", at)
	}
}

// The next call is the one after the decided call, in the order and the filter of the list that the reader opened last.
func TestNextCallFollowsTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	saves, deletions := make([]uuid.UUID, 2), make([]uuid.UUID, 2)
	for i := range 2 {
		saves[i] = w.submit(uuid.Nil, "files__save_csv", fmt.Sprintf(`{"filename":"%d"}`, i))
		deletions[i] = w.submit(uuid.Nil, "files__delete_file", fmt.Sprintf(`{"path":"/srv/shared/%d"}`, i))
	}
	follow := func(id uuid.UUID) string {
		next := v.get(callPath(id)).find("next-call").AttrOr("href", "")
		return v.get(next).header.Get("Location")
	}
	v.get("/?group=tool")
	v.post(callPath(saves[0])+"/reject", v.get(callPath(saves[0])).form("decide"))
	if at := follow(saves[0]); at != callPath(saves[1]) { // the oldest is a deletion
		t.Errorf("grouped by tool, the next one is %s, want %s", at, callPath(saves[1]))
	}
	v.post(callPath(saves[1])+"/reject", v.get(callPath(saves[1])).form("decide"))
	if at := follow(saves[1]); at != callPath(deletions[0]) { // from the beginning, since the last group is done
		t.Errorf("after the last group, the next one is %s, want %s", at, callPath(deletions[0]))
	}
	late := w.submit(uuid.Nil, "files__save_csv", `{"filename":"late"}`)
	v.get("/?sort=risk")
	v.post(callPath(deletions[0])+"/reject", v.get(callPath(deletions[0])).form("decide"))
	if at := follow(deletions[0]); at != callPath(deletions[1]) {
		t.Errorf("by risk, the next one is %s, want %s", at, callPath(deletions[1]))
	}
	v.post(callPath(late)+"/claim", nil)
	v.get("/?mine=1")
	if at := follow(deletions[0]); at != callPath(late) {
		t.Errorf("of claimed calls, the next one is %s, want %s", at, callPath(late))
	}
	v.post(callPath(late)+"/release", nil)
	if at := follow(deletions[0]); at != "/?mine=1" {
		t.Errorf("without claimed calls, it leads to %s", at)
	}
	v.get("/")
	if at := follow(deletions[0]); at != callPath(deletions[1]) {
		t.Errorf("by deadline, the next one is %s, want %s", at, callPath(deletions[1]))
	}
}

// The list that the reader chose last decides what comes next. A live update, perhaps of a tab in the background, is no choice.
func TestLiveUpdatesChooseNoList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	saved := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	deleted := w.submit(uuid.Nil, "files__delete_file", `{"path":"/srv/shared/1"}`)
	p := w.signInWith(browsertest.Options{})
	ready(p)
	update := func(query string) {
		browsertest.EvalAsync[bool](p, `fetch("/`+query+`", {headers: {"HX-Request": "true"}}).then((response) => response.ok)`)
	}
	next := func(want uuid.UUID, when string) {
		p.Go(w.server.URL + "/next")
		if got := p.Path(); got != callPath(want) {
			t.Errorf("%s, the next one is %s, want %s", when, got, callPath(want))
		}
	}
	update("?sort=risk")
	next(saved, "after an update")
	p.Go(w.server.URL + "/")
	ready(p)
	browsertest.Eval[bool](p, `(() => {
		const field = document.querySelector("#choose [name=sort]");
		field.value = "risk";
		document.addEventListener("htmx:after:swap", ({ detail }) => { window.chose ||= detail.ctx.request.action.includes("sort=risk"); });
		return field.dispatchEvent(new Event("change", {bubbles: true}));
	})()`)
	p.WaitFor("the chosen list", `window.chose`)
	update("")
	next(deleted, "by risk")
	p.Go(w.server.URL + "/?team=" + strings.Repeat("a", 2000)) // too long to keep
	next(saved, "without a list")
}

// Without JavaScript, a page of the list reloads itself. This chooses no list either.
func TestReloadsChooseNoList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	saved := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	deleted := w.submit(uuid.Nil, "files__delete_file", `{"path":"/srv/shared/1"}`)
	reload := func(a *answer) *answer {
		_, content, _ := strings.Cut(a.body, `http-equiv="refresh" content="`)
		content, _, _ = strings.Cut(content, `"`)
		_, url, found := strings.Cut(html.UnescapeString(content), "url=")
		if !found {
			t.Fatalf("the page reloads itself by %q", content)
		}
		return v.get(url)
	}
	next := func(want uuid.UUID, when string) {
		t.Helper()
		if got := v.get("/next").header.Get("Location"); got != callPath(want) {
			t.Errorf("%s, the next one is %s, want %s", when, got, callPath(want))
		}
	}
	behind := v.get("/")
	v.get("/?sort=risk")
	next(deleted, "by risk")
	behind = reload(behind)
	next(deleted, "after a reload of another tab")
	if rows := behind.find("row"); rows.Length() != 2 || rows.First().AttrOr("data-call", "") != saved.String() {
		t.Errorf("the other tab has %d rows", rows.Length())
	}
	if again := reload(reload(v.get("/?sort=risk"))); again.find("row").First().AttrOr("data-call", "") != deleted.String() {
		t.Error("a page loses its order when it reloads itself")
	}
	v.get("/")
	next(saved, "by deadline")
}

func TestPresenceReloadsNoList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"two"}`)
	p := browsertest.New(t, browsertest.Options{})
	// Without it, a slow machine would see the repeated report of the call on the screen.
	p.Before(`{ const real = setInterval; window.setInterval = (f, ms) => ms === 1000 ? 0 : real(f, ms); }`)
	p.Go(w.server.URL + w.createLink("ana", identity.Reviewer))
	p.Click("sign-in-link")
	p.WaitText("queue", "two")
	p.WaitFor("the first renewal", `performance.getEntriesByType("resource").some(e => e.name === location.origin + "/")`)
	p.WaitFor("no request", `!document.querySelector("#queue[hx-request], .htmx-request")`)
	p.RecordRequests()
	p.Press("j")
	p.WaitText("arguments", "one")
	ben := w.signedIn("ben", identity.Reviewer)
	ben.post(callPath(first)+"/seen", nil)
	p.WaitFor("the mark in the row", fmt.Sprintf(`document.querySelector("#row-%s [data-viewers]:not([hidden])")?.innerText.includes("ben")`, first))
	p.WaitFor("the mark of the call", `document.querySelector("#call [data-viewers]:not([hidden])")?.innerText.includes("ben")`)
	if names := browsertest.Eval[string](p, `document.querySelector("#call [data-viewers] span").textContent`); names != "ben" {
		t.Errorf("viewers: %q", names)
	}
	p.Press("j")
	p.WaitText("arguments", "two")
	p.WaitFor("keys to work", armed)
	var requests []string
	for _, r := range p.Requests() {
		if !strings.Contains(r, "/events") {
			requests = append(requests, r)
		}
	}
	if len(requests) != 2 {
		t.Errorf("two moves cost %d requests: %v", len(requests), requests)
	}
	if viewers := ben.get("/").find("viewers").Text(); !strings.Contains(viewers, "ana") {
		t.Errorf("ben sees %q", viewers)
	}
	noComplaints(t, p)
}
