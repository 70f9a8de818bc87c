package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// Pages show times, read days and count by day in the reader's time zone.
func TestPagesUseTheReadersZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn("rita", identity.Reviewer)
	w.makeFigures()
	v := w.signedIn("olga", identity.Operator, identity.Reviewer)
	const berlin = "holdpoint_zone=Europe/Berlin"
	cookies := func(zone string) []string {
		r := v.request(http.MethodGet, "/", "")
		all := []string{zone}
		for _, c := range v.client.Jar.Cookies(r.URL) {
			all = append(all, c.Name+"="+c.Value)
		}
		return []string{"Cookie", strings.Join(all, "; ")}
	}
	stranger := &visitor{w: w, client: &http.Client{Transport: v.client.Transport}}
	for _, test := range []struct{ zone, path, find, want string }{
		{"", "/calls?from=2026-03-02&to=2026-03-02", "log-row time", "2 Mar 2026, 10:20 UTC"},
		{berlin, "/calls?from=2026-03-02&to=2026-03-02", "log-row time", "2 Mar 2026, 11:20"},
		{"holdpoint_zone=Nowhere/Else", "/calls?from=2026-03-02&to=2026-03-02", "log-row time", "2 Mar 2026, 10:20 UTC"},
		{"holdpoint_zone=America/New_York", "/calls?from=2026-03-01&to=2026-03-01", "log-row time", "1 Mar 2026, 19:00"},
		{berlin, figuresWeek, "range", "Calls made from Mon 2 Mar 2026, 00:00 to Mon 9 Mar 2026, 00:00 (Europe/Berlin), by day"},
		{"", figuresWeek, "range", "Calls made from Mon 2 Mar 2026, 00:00 to Mon 9 Mar 2026, 00:00 (UTC), by day"},
	} {
		a := stranger.get(test.path, cookies(test.zone)...)
		found := a.find(strings.Fields(test.find)[0])
		if test.find == "log-row time" {
			found = found.Find("time")
		}
		if got := strings.TrimSpace(found.First().Text()); a.status != http.StatusOK || got != test.want {
			t.Errorf("%s in %q: %d %q, want %q", test.path, test.zone, a.status, got, test.want)
		}
	}
	form := stranger.get("/calls?from=2026-03-02", cookies(berlin)...)
	if value := form.doc.Find("input[name=from]").AttrOr("value", ""); value != "2026-03-02T00:00:00" {
		t.Errorf("the field has %q", value)
	}
	if link := form.find("export").First().AttrOr("href", ""); !strings.Contains(link, "from=2026-03-02T00%3A00%3A00%2B01%3A00") {
		t.Errorf("the export is %q", link)
	}
}

func TestPageLearnsTheZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := browsertest.New(t, browsertest.Options{})
	p.SetTimeZone("Asia/Kolkata")
	p.Go(w.server.URL + w.createLink("ana", identity.Reviewer, identity.Operator))
	p.Click("sign-in-link")
	p.Wait("queue")
	w.madeCall("2026-03-02T09:20:00Z", "files", "save_csv", "succeeded", "", "", w.agent.ID, 0, 0)
	p.Go(w.server.URL + "/calls?from=2026-03-02&to=2026-03-02")
	p.WaitText("log", "2 Mar 2026, 14:50")
	if title := browsertest.Eval[string](p, `document.querySelector("[data-testid=log-row] time").title`); title != "2 Mar 2026, 14:50:00" {
		t.Errorf("the exact time is %q", title)
	}
	p.Go(w.server.URL + "/audit")
	p.WaitText("audit", "just now")
	browsertest.Eval[bool](p, `(Object.assign(document.querySelector("[data-testid=audit-row] time"), {dateTime: new Date(Date.now() - 3 * 3600e3).toISOString()}), true)`)
	p.WaitText("audit", "3 h ago") // the script counts up
	noComplaints(t, p)
}
