package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
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

	p.Click("keys-on")
	if kept := browsertest.Eval[string](p, `localStorage.getItem("holdpoint-keys")`); kept != "off" {
		t.Errorf("keys are %q", kept)
	}
	p.Go(w.server.URL + "/settings")
	p.WaitFor("the choice to be shown", `[...document.querySelectorAll(".keys-on")].length === 2 && [...document.querySelectorAll(".keys-on")].every(box => !box.checked)`)
	noComplaints(t, p)
}
