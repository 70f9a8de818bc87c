package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/text"
)

func TestSettingsSayWhoOneIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	you := w.signedIn("ana", identity.Reviewer).get("/settings").find("you").Text()
	for _, want := range []string{"ana", identity.LocalIssuer, "reviewer"} {
		if !strings.Contains(you, want) {
			t.Errorf("no %q in %q", want, you)
		}
	}
}

func TestThemeIsKeptByTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	shown := func() (string, string) {
		page := v.get("/settings")
		theme, _ := page.find("theme").Find("input[checked]").Attr("value")
		return page.doc.Find("html").AttrOr("data-theme", ""), theme
	}
	for _, tt := range []struct{ choose, want string }{{"dark", "dark"}, {"light", "light"}, {`"><script>`, ""}, {"dark", "dark"}, {"", ""}} {
		if a := v.post("/settings/theme", url.Values{"theme": {tt.choose}}); a.status != http.StatusSeeOther {
			t.Fatalf("choose %q: %d", tt.choose, a.status)
		}
		if html, form := shown(); html != tt.want || form != tt.want {
			t.Errorf("after choosing %q: the page has %q, the form %q", tt.choose, html, form)
		}
	}
}

// TestLanguage: the language is the reader's choice, otherwise that of the browser, also in the service worker and before the sign-in.
func TestLanguage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	expect := func(v *visitor, path, accepted, want string) {
		t.Helper()
		page := v.get(path, "Accept-Language", accepted)
		if got := page.doc.Find("html").AttrOr("lang", ""); got != want {
			t.Errorf("%s for %q: %q, want %q", path, accepted, got, want)
		}
		if worker := v.get("/sw.js", "Accept-Language", accepted).body; !strings.HasPrefix(worker, `const language = "`+want+`"`) {
			t.Errorf("service worker for %q: %.40s, want %q", accepted, worker, want)
		}
	}
	for accepted, want := range map[string]string{"": "en", "de-CH, en;q=0.8": "de", "fr, ja;q=0.5": "ja"} {
		expect(v, "/settings", accepted, want)
		expect(w.visitor(), "/sign-in", accepted, want)
		expect(w.visitor(), "/nothing", accepted, want)
	}
	for _, tt := range []struct{ choose, want, checked string }{{"ja", "ja", "ja"}, {"en", "en", "en"}, {"xx", "de", ""}, {"ja", "ja", "ja"}, {"", "de", ""}} {
		if a := v.post("/settings/language", url.Values{"language": {tt.choose}}); a.status != http.StatusSeeOther {
			t.Fatalf("choose %q: %d", tt.choose, a.status)
		}
		expect(v, "/settings", "de", tt.want)
		if checked := v.get("/settings").find("language").Find("input[checked]").AttrOr("value", "none"); checked != tt.checked {
			t.Errorf("after choosing %q: the form has %q", tt.choose, checked)
		}
	}
}

// TestQueueInTwoLanguages: shared rows are in the language of each reader.
func TestQueueInTwoLanguages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"a\u202eb.csv"}`)
	v := w.signedIn("ana", identity.Reviewer)
	for _, language := range []string{"en", "de", "ja"} {
		want := text.QueueHiddenCharacters().In(text.WithLanguage(t.Context(), language))
		if row := v.get("/", "Accept-Language", language).find("row").Text(); !strings.Contains(row, want) {
			t.Errorf("%s: no %q in %q", language, want, row)
		}
	}
}

func TestSettingsInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.signInWith(browsertest.Options{})
	background := func() string {
		return browsertest.Eval[string](p, `getComputedStyle(document.body).backgroundColor`)
	}
	p.Go(w.server.URL + "/settings")
	p.Wait("settings")
	light := background()
	p.ClickOn(`[name=theme][value=dark]`)
	p.Click("save-theme")
	p.WaitFor("the dark theme", `document.documentElement.dataset.theme === "dark"`)
	if dark := background(); dark == light {
		t.Errorf("both themes are %s", dark)
	}
	p.Screenshot("dark")

	ready(p)
	p.Click("keys-on")
	if kept := browsertest.Eval[string](p, `localStorage.getItem("holdpoint-keys")`); kept != "off" {
		t.Errorf("keys are %q", kept)
	}
	p.Go(w.server.URL + "/settings")
	p.WaitFor("the choice to be shown", `[...document.querySelectorAll(".keys-on")].length === 2 && [...document.querySelectorAll(".keys-on")].every(box => !box.checked)`)
	noComplaints(t, p)
}

func TestSessionsInTheSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there, other := w.signedIn("ana", identity.Reviewer), w.signedIn("ana", identity.Reviewer), w.signedIn("olga", identity.Operator)
	shown := func(v *visitor) *goquery.Selection { return v.get("/settings").find("session") }
	if n := shown(here).Length(); n != 2 {
		t.Fatalf("%d sessions are shown", n)
	}
	session := func(v *visitor, current bool) url.Values {
		t.Helper()
		form := url.Values{}
		shown(v).Each(func(_ int, s *goquery.Selection) {
			if (s.Find(".badge").Length() == 1) == current {
				form.Set("session", s.Find("input[name=session]").AttrOr("value", ""))
			}
		})
		return form
	}
	for name, form := range map[string]url.Values{"another person's": session(other, true), "nonsense": {"session": {"x"}}} {
		if a := here.post("/settings/end-session", form); a.status != http.StatusNotFound || a.find("notice").Length() != 1 {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	if other.get("/").status != http.StatusOK {
		t.Fatal("another person's session was ended")
	}
	if a := here.post("/settings/end-session", session(here, false)); a.status != http.StatusSeeOther {
		t.Errorf("ending the other: %d", a.status)
	}
	if there.get("/").status == http.StatusOK || here.get("/").status != http.StatusOK || shown(here).Length() != 1 {
		t.Error("the wrong session ended")
	}
	again := w.signedIn("ana", identity.Reviewer)
	if a := here.post("/settings/sign-out", nil); a.header.Get("Location") != "/sign-in" {
		t.Errorf("sign out everywhere: %d", a.status)
	}
	if here.get("/").status == http.StatusOK || again.get("/").status == http.StatusOK || other.get("/").status != http.StatusOK {
		t.Error("signing out everywhere does not end what it should")
	}
}

func TestBrowsersAreCalledWhatPeopleCallThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for agent, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                                  "Firefox on Linux",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1": "Safari on iPhone",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 Edg/138.0.0.0":           "Edge on Windows",
		"curl/8 \u202e<b>": "curl/8 U+202E<b>",
	} {
		v := w.visitor()
		form := v.get(w.createLink("ana", identity.Reviewer)).form("sign-in")
		v.post("/sign-in", form, "User-Agent", agent)
		session := v.get("/settings").find("session").First()
		if got := session.Find("b").First().Text(); strings.TrimSpace(got) != want {
			t.Errorf("%q is called %q", agent, got)
		}
	}
}
