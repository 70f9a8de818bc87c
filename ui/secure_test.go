package ui_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

var contentPolicy = regexp.MustCompile(`^default-src 'none'; script-src 'self' 'nonce-[A-Z2-7]{26}'; style-src 'self'; img-src 'self'; ` +
	`connect-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; ` +
	`require-trusted-types-for 'script'; trusted-types htmx holdpoint$`)

func TestEveryPageIsGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, perUser())
	skillPath := "/skills/" + skill.ID.String()
	leave := v.post(skillPath+"/connect", nil)
	connection, _, _ := strings.Cut(v.get(as.allowAccess(t, v.begin(skill, nil))).header.Get("Location"), "?")
	seen := map[string]bool{}
	for _, a := range []*answer{
		v.get("/"), v.get("/", "HX-Request", "true"), v.get("/calls"), v.get(callPath(id)), v.get(callPath(id), "HX-Request", "true"),
		v.get("/skills"), v.get(skillPath), v.get("/connections"), v.get(connection), v.post(connection+"/disconnect", nil), leave,
		v.get("/calls/x"), w.visitor().get("/sign-in"), w.visitor().get("/"), v.post(callPath(id)+"/approve", url.Values{"digest": {"x"}}),
	} {
		csp := a.header.Get("Content-Security-Policy")
		if !contentPolicy.MatchString(csp) || seen[csp] {
			t.Errorf("policy %q (seen before: %v)", csp, seen[csp])
		}
		seen[csp] = true
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := a.header.Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		nonce := regexp.MustCompile(`'nonce-([^']+)'`).FindStringSubmatch(csp)[1]
		a.doc.Find("[hx-nonce]").Each(func(_ int, s *goquery.Selection) {
			if got := s.AttrOr("hx-nonce", ""); got != nonce {
				t.Errorf("an element has the nonce %q, the policy %q", got, nonce)
			}
		})
		if inline := a.doc.Find("script:not([src]), style, [style], [onclick], [onload]").Length(); inline != 0 {
			t.Errorf("%d inline scripts or styles", inline)
		}
		if strings.Contains(a.body, "@Text(") || strings.Contains(a.body, "@Clock(") {
			t.Error("a template shows its own code")
		}
	}
}

func TestPartsOfPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	for path, part := range map[string]string{"/": "queue", callPath(id): "call"} {
		a := v.get(path, "HX-Request", "true")
		if a.find(part).Length() != 1 || strings.Contains(a.body, "<html") {
			t.Errorf("%s: %s", path, a.body)
		}
		out := w.visitor().get(path, "HX-Request", "true", "HX-Current-URL", w.server.URL+"/calls?x=1")
		if out.status != http.StatusUnauthorized || out.header.Get("HX-Redirect") != "/sign-in?next=%2Fcalls%3Fx%3D1" {
			t.Errorf("%s signed out: %d to %q", path, out.status, out.header.Get("HX-Redirect"))
		}
	}
}

func TestUnchangedCallIsNotSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	state := v.get(callPath(id)).find("call").AttrOr("data-state", "")
	known := callPath(id) + "?view=json&known=" + url.QueryEscape(state)
	if a := v.get(known, "HX-Request", "true"); a.status != http.StatusNoContent {
		t.Errorf("unchanged: %d", a.status)
	}
	if a := v.get(known); a.status != http.StatusOK {
		t.Errorf("the whole page: %d", a.status)
	}
	w.approve(v, id)
	w.waitForEnd(id)
	if a := v.get(known, "HX-Request", "true"); a.status != http.StatusOK || a.find("outcome").Length() != 1 {
		t.Errorf("changed: %d", a.status)
	}
}

func TestPagesAreCompressed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	a := v.get("/calls", "Accept-Encoding", "gzip")
	if a.header.Get("Content-Encoding") != "gzip" || !strings.HasPrefix(a.body, "\x1f\x8b") {
		t.Errorf("encoding %q", a.header.Get("Content-Encoding"))
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.visitor()
	page := v.get("/sign-in")
	urls := map[string]bool{}
	for _, attribute := range []string{"src", "href", "data-quiet", "data-waiting"} {
		page.doc.Find("script, link, img").Each(func(_ int, s *goquery.Selection) {
			if u := s.AttrOr(attribute, ""); strings.HasPrefix(u, "/a/") { // the manifest has a fixed address
				urls[u] = true
			}
		})
	}
	if len(urls) != 7 {
		t.Errorf("assets: %v", urls)
	}
	for u := range urls {
		a := v.get(u)
		if a.status != http.StatusOK || a.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || len(a.body) == 0 {
			t.Errorf("%s: %d %q", u, a.status, a.header.Get("Cache-Control"))
		}
	}
	for _, u := range []string{"/a/", "/a/0000000000000000/holdpoint.js", "/a/../ui.go", "/a/vendor/LICENSE-htmx.txt"} {
		if a := v.get(u); a.status == http.StatusOK {
			t.Errorf("%s: %d", u, a.status)
		}
	}
}

func TestOtherSitesCannotAct(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	form := v.get(callPath(id)).form("decide").Encode()
	skill := w.registerGuarded(newAuthServer(t), perUser())
	for _, path := range []string{"/skills/" + skill.ID.String() + "/connect", callPath(id) + "/approve", callPath(id) + "/reject", "/sign-out", "/sign-in"} {
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
			r := v.request(http.MethodPost, path, form, append(header, "Content-Type", "application/x-www-form-urlencoded")...)
			if a := v.do(r); a.status != http.StatusForbidden || !contentPolicy.MatchString(a.header.Get("Content-Security-Policy")) {
				t.Errorf("%s with %v: %d", path, header, a.status)
			}
		}
	}
	if a := w.getApproval(id); a.Status != "pending" {
		t.Errorf("the approval is %s", a.Status)
	}
	if v.get("/").status != http.StatusOK {
		t.Error("another site signed the reviewer out")
	}
}
