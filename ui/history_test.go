package ui_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call/history"
)

// someone returns the id of a person, who is created if new.
func (w *world) someone(name string) uuid.UUID {
	w.t.Helper()
	_, token, err := w.people.CreateToken(w.t.Context(), uuid.Nil, name, []identity.Role{identity.Reviewer}, nil)
	check(w.t, err)
	access, err := w.people.Authenticate(w.t.Context(), token)
	check(w.t, err)
	return access.Person.ID
}

// decide decides a call on its page.
func (v *visitor) decide(id uuid.UUID, verdict, reason string) {
	v.w.t.Helper()
	form := v.get(callPath(id)).form("decide")
	form.Set("reason", reason)
	if a := v.post(callPath(id)+"/"+verdict, form); a.status != http.StatusSeeOther {
		v.w.t.Fatalf("%s: %d: %s", verdict, a.status, a.text())
	}
}

// waited matches the wait of a call before its decision.
var waited = regexp.MustCompile(`in less than 1 s|after \d+ `)

func TestHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator, identity.Reviewer)
	if empty := v.get("/calls"); !strings.Contains(empty.find("empty").Text(), "No calls yet.") || empty.find("clear-all").Length() != 0 {
		t.Error("an empty history does not say so")
	}
	for range 51 {
		w.submit(uuid.Nil, "files__save_csv", fmt.Sprintf(`{"filename":%q}`, uuid.New()))
	}
	echoed := w.submit(uuid.Nil, "open__echo", `{"message":"hello\u00e9 <b>there</b>"}`)
	w.waitForEnd(echoed)
	first := v.get("/calls")
	row := first.find("log-row").First()
	if first.find("log-row").Length() != 50 || !strings.Contains(row.Text(), "open: echo") || !strings.Contains(row.Text(), "<b>there</b>") {
		t.Errorf("%d rows, first %s", first.find("log-row").Length(), row.Text())
	}
	second := v.get(first.find("older").AttrOr("href", ""))
	if second.find("log-row").Length() != 2 || second.find("older").Length() != 0 {
		t.Errorf("second page: %d rows", second.find("log-row").Length())
	}
	rejected := w.submit(w.someone("paula"), "files__save_csv", `{"filename":"secret\u202e"}`)
	v.decide(rejected, "reject", "not this one")
	for query, want := range map[string]int{
		"status=succeeded": 1, "status=succeeded&status=rejected": 2, "text=HELLO%C3%89": 1, "text=%5Cu00e9": 1, "agent=billing&skill=open": 1,
		"tool=echo": 1, "person=paula": 1, "person=olga": 1, "person=" + w.someone("paula").String(): 1, "skill=files&status=rejected": 1,
		"from=2020-01-01&to=2020-01-02": 0, "text=nowhere": 0, "from=2020-01-01T00%3A00&tool=echo": 1,
	} {
		if a := v.get("/calls?" + query); a.status != http.StatusOK || a.find("log-row").Length() != want {
			t.Errorf("%s: %d, %d rows, want %d", query, a.status, a.find("log-row").Length(), want)
		}
	}
	hers := v.get("/calls?person=paula&status=rejected&text=secret").find("log-row")
	if text := strings.Join(strings.Fields(hers.Text()), " "); !strings.Contains(text, "Rejected") || !strings.Contains(text, "paula") ||
		!strings.Contains(text, "olga") || !strings.Contains(text, "U+202E") || !waited.MatchString(text) {
		t.Errorf("the row says %s", text)
	}
}

// The form keeps the criteria and shows errors beside their fields.
func TestHistoryForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator)
	evil := `"><script>alert(1)</script>%_\'`
	a := v.get("/calls?" + url.Values{"text": {evil}, "status": {"failed", "unknown"}, "from": {"2026-01-31"}}.Encode())
	if a.status != http.StatusOK || a.doc.Find(`input[name=text]`).AttrOr("value", "") != evil || a.doc.Find("script:not([src])").Length() != 0 {
		t.Errorf("%d: the text is %q", a.status, a.doc.Find(`input[name=text]`).AttrOr("value", ""))
	}
	var checked []string
	a.doc.Find("input[name=status][checked]").Each(func(_ int, s *goquery.Selection) { checked = append(checked, s.AttrOr("value", "")) })
	if strings.Join(checked, " ") != "failed unknown" && strings.Join(checked, " ") != "unknown failed" {
		t.Errorf("checked: %v", checked)
	}
	if from := a.doc.Find("input[name=from]").AttrOr("value", ""); from != "2026-01-31T00:00:00" {
		t.Errorf("from is %q", from)
	}
	if _, open := a.doc.Find("form.search details").Attr("open"); !open || a.find("clear-all").AttrOr("href", "") != "/calls" {
		t.Error("the criteria are folded, or there is no way back")
	}
	for query, field := range map[string]string{
		"agent=nobody": "agent", "from=yesterday": "from", "person=nobody": "person", "skill=a%00": "skill", "text=" + strings.Repeat("x", 300): "text",
		"conversation=x": "conversation",
	} {
		bad := v.get("/calls?" + query)
		wrong := bad.doc.Find("input[name=" + field + "]")
		if bad.status != http.StatusUnprocessableEntity || wrong.AttrOr("aria-invalid", "") != "true" ||
			bad.doc.Find("#"+wrong.AttrOr("aria-describedby", "none")).Length() != 1 || bad.find("export").Length() != 0 {
			t.Errorf("%s: %d: %s", query, bad.status, bad.find("field-error").Text())
		}
	}
	for _, query := range []string{"status=odd", "before=odd"} {
		if bad := v.get("/calls?" + query); bad.status != http.StatusUnprocessableEntity || bad.find("search-problem").Length() != 1 {
			t.Errorf("%s: %d", query, bad.status)
		}
	}
	rita := w.signedIn("rita", identity.Reviewer)
	if rita.get("/calls").doc.Find("datalist#known-person").Length() != 0 || v.get("/calls").doc.Find("datalist#known-person").Length() != 1 {
		t.Error("who there is, is for operators")
	}
}

// A search that stops early says so and can be continued.
func TestHistoryStopsAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator)
	found := w.submit(uuid.Nil, "open__echo", `{"x":"needle"}`)
	w.waitForEnd(found)
	w.db.Exec(`INSERT INTO calls (id, agent_id, skill_id, skill_revision, gated, status, tool, exposed_name, pin, arguments)
		SELECT ('ffffffff-ffff-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, agent_id, skill_id, 1, false, 'succeeded', tool, exposed_name, pin, '{}'
		FROM calls, generate_series(1, $1::bigint) AS n`, history.MaxTextSearched+1000)
	a := v.get("/calls?text=needle")
	if a.find("log-row").Length() != 0 || !strings.Contains(a.find("empty").Text(), "so far") || !strings.Contains(a.find("searched").Text(), "Searched back to") {
		t.Fatalf("the page says %s", a.find("log").Text())
	}
	for range 5 {
		next, more := a.find("go-on").Attr("href")
		if !more {
			break
		}
		a = v.get(next)
	}
	if a.find("log-row").Length() != 1 || a.doc.Find("input[name=text]").AttrOr("value", "") != "needle" {
		t.Errorf("%d rows in the end", a.find("log-row").Length())
	}
}

func TestExportFromTheDashboard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator, identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"=1+1\u00e9","n":9007199254740993}`)
	v.decide(id, "reject", "@no")
	w.waitForEnd(w.submit(uuid.Nil, "open__echo", `{}`))
	page := v.get("/calls?status=rejected")
	links := map[string]string{}
	page.find("export").Each(func(_ int, s *goquery.Selection) { links[s.Text()] = s.AttrOr("href", "") })

	lines := v.get(links["JSON Lines"])
	var one struct {
		ID       uuid.UUID
		Decision struct{ By, Note string }
	}
	check(t, json.Unmarshal([]byte(lines.body), &one))
	if one.ID != id || one.Decision.By != "olga" || one.Decision.Note != "@no" || !strings.Contains(lines.body, `"arguments":{"filename":"=1+1\u00e9","n":9007199254740993},`) {
		t.Errorf("got %s", lines.body)
	}
	table := v.get(links["CSV"])
	rows, err := csv.NewReader(strings.NewReader(table.body)).ReadAll()
	check(t, err)
	if len(rows) != 2 || rows[1][0] != id.String() || !strings.Contains(table.body, ",'@no,") {
		t.Errorf("got %s", table.body)
	}
	if table.header.Get("Content-Disposition") != `attachment; filename="calls.csv"` || table.header.Get("X-Content-Type-Options") != "nosniff" ||
		table.header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers: %v", table.header)
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Action: "calls.exported"})
	check(t, err)
	if len(events) != 2 || !strings.Contains(string(events[0].Raw), `"rejected"`) || events[0].Actor.Kind != audit.KindPerson {
		t.Errorf("audit: %+v", events)
	}
	for _, path := range []string{"/calls/export", "/calls/export?format=xls", "/calls/export?format=csv&agent=nobody", "/audit/export?actor=nobody"} {
		if bad := v.get(path); bad.status != http.StatusUnprocessableEntity || !strings.Contains(bad.text(), "must") {
			t.Errorf("%s: %d: %s", path, bad.status, bad.text())
		}
	}
}

// A failing download breaks off, so that the browser reports it.
func TestBrokenDownloadIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator)
	w.waitForEnd(w.submit(uuid.Nil, "open__echo", `{}`))
	w.db.Exec(`INSERT INTO calls (id, agent_id, skill_id, skill_revision, gated, status, tool, exposed_name, pin, arguments)
		SELECT ('00000000-ffff-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, agent_id, skill_id, 1, false, 'succeeded', tool, exposed_name, pin,
			convert_to('{"x":"' || repeat('x', 1000) || '"}', 'UTF8')
		FROM calls, generate_series(1, 30000) AS n`)
	response, err := v.client.Do(v.request(http.MethodGet, "/calls/export?format=csv", ""))
	check(t, err)
	defer response.Body.Close()
	_, err = io.ReadFull(response.Body, make([]byte, 1000))
	check(t, err)
	w.db.Exec(`ALTER TABLE calls RENAME TO gone`)
	defer w.db.Exec(`ALTER TABLE gone RENAME TO calls`)
	if n, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Errorf("%d bytes, and no complaint", n)
	}
}

func TestAuditPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator, identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	v.decide(id, "reject", "no \u202e<b>")
	a := v.get("/audit?subject=" + id.String())
	newest := a.find("audit-row").First()
	if !strings.Contains(newest.Text(), "approval.rejected") || !strings.Contains(newest.Text(), "olga") ||
		newest.Find(`a[href="/calls/`+id.String()+`"]`).Length() != 1 || !strings.Contains(newest.Text(), "files: save_csv") {
		t.Errorf("the newest is %s", newest.Text())
	}
	w.db.Exec(`INSERT INTO audit_events (subject_id, actor_kind, action, data) VALUES ($1, 'system', 'skill.updated', '{"x":"<img src=x>\u202e","n":9007199254740993}')`,
		w.agent.ID)
	odd := v.get("/audit?action=skill.updated&actor=system").find("audit-row").First()
	if odd.Find("img").Length() != 0 || !strings.Contains(odd.Text(), "U+202E") || !strings.Contains(odd.Text(), "9007199254740993") {
		t.Errorf("data: %s", odd.Text())
	}
	for query, want := range map[string]bool{
		"actor=olga": true, "actor=billing": true, "action=call": true, "action=call.parked": true, "action=nothing": false, "to=2020-01-01": false,
		"actor=billing&action=approval": false,
	} {
		if rows := v.get("/audit?" + query).find("audit-row").Length(); rows > 0 != want {
			t.Errorf("%s: %d rows", query, rows)
		}
	}
	for _, query := range []string{"actor=nobody", "subject=x", "from=x"} {
		if bad := v.get("/audit?" + query); bad.status != http.StatusUnprocessableEntity || bad.find("field-error").Length() != 1 {
			t.Errorf("%s: %d", query, bad.status)
		}
	}
	all := v.get("/audit")
	count := all.find("audit-row").Length()
	for next, more := all.find("older").Attr("href"); more; next, more = all.find("older").Attr("href") {
		all = v.get(next)
		count += all.find("audit-row").Length()
	}
	export := v.get(v.get("/audit").find("export").AttrOr("href", ""))
	if lines := strings.Count(export.body, "\n"); lines != count+1 || !strings.Contains(export.body, `"action":"audit.exported"`) {
		t.Errorf("%d lines exported, %d rows shown", lines, count)
	}
}

// Somebody who knows only "Who approved the deletion last Tuesday" finds it in three steps: the day, a part of a word, Enter.
func TestWhoApprovedTheDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.signInWith(browsertest.Options{})
	w.signedIn("jonas", identity.Reviewer)
	jonas := w.personCalled("jonas")
	zone, err := time.LoadLocation(browsertest.Eval[string](p, `Intl.DateTimeFormat().resolvedOptions().timeZone`))
	check(t, err)
	year, month, day := w.now().In(zone).Date()
	tuesday := time.Date(year, month, day-1, 12, 0, 0, 0, zone)
	for tuesday.Weekday() != time.Tuesday {
		tuesday = tuesday.AddDate(0, 0, -1)
	}
	at := func(days, hours int) string {
		return tuesday.AddDate(0, 0, days).Add(time.Duration(hours) * time.Hour).Format(time.RFC3339)
	}
	w.madeCall(at(0, 2), "files", "delete_file", "succeeded", "", "approved", jonas, 0, 20)
	w.madeCall(at(0, 3), "files", "save_csv", "succeeded", "", "approved", w.personCalled("ana"), 0, 20)
	w.madeCall(at(-1, 2), "files", "delete_file", "succeeded", "", "approved", w.personCalled("ana"), 0, 20)
	w.madeCall(at(-7, 2), "files", "delete_file", "rejected", "", "rejected", w.personCalled("ana"), 0, 20)

	p.Go(w.server.URL + "/calls")
	p.Wait("log")
	p.ClickOn(`.search a[href*="` + url.QueryEscape(tuesday.Format("2006-01-02")+"T00:00:00") + `"]:nth-last-child(-n+7)`)
	p.WaitFor("the day", `document.querySelectorAll("[data-testid=log-row]").length === 2`)
	p.ClickOn("[name=text]")
	p.Press("delet\r")
	p.WaitFor("the row", `document.querySelectorAll("[data-testid=log-row]").length === 1`)
	if row := p.Text("log-row"); !strings.Contains(row, "files: delete_file") || !strings.Contains(row, "by jonas") {
		t.Errorf("found %q", row)
	}
	p.Screenshot("found")
	noComplaints(t, p)
}

// A text in the search field finds names of all kinds, but no hidden values.
func TestHistoryFindsNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("olga", identity.Operator, identity.Reviewer)
	w.waitForEnd(w.submit(uuid.Nil, "open__echo", `{"message":"plain","password":"hunter2"}`))
	rejected := w.submit(w.someone("paula"), "files__delete_file", `{"path":"/srv/x"}`)
	v.decide(rejected, "reject", "no")
	for query, want := range map[string]int{
		"text=OPE": 1, "text=dele": 1, "text=paul": 1, "text=olg": 1, "text=billing": 2, "text=passwor": 1, "text=hunter": 1, "text=plain": 1,
		"decision=rejected": 1, "decision=approved": 0, "risk=destructive": 1, "risk=destructive&risk=standard": 2, "risk=high": 0,
	} {
		if a := v.get("/calls?" + query); a.status != http.StatusOK || a.find("log-row").Length() != want {
			t.Errorf("%s: %d, %d rows, want %d", query, a.status, a.find("log-row").Length(), want)
		}
	}
}

// The audit log names rules, also deleted ones.
func TestAuditNamesRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("jonas", identity.Operator)
	by := audit.Person(w.personCalled("jonas"))
	_, err := w.agents.SetRule(t.Context(), by, rule.Spec{Name: "small-payments", Effect: rule.Park}, nil)
	check(t, err)
	check(t, w.agents.DeleteRule(t.Context(), by, "small-payments"))
	for action, want := range map[string]string{"rule.created": "jonas created rule small-payments", "rule.deleted": "jonas deleted rule small-payments"} {
		sentence := v.get("/audit?action=" + action).find("audit-row").Find("[data-testid=event]")
		if got := strings.Join(strings.Fields(sentence.Text()), " "); got != want {
			t.Errorf("the sentence is %q, want %q", got, want)
		}
		if link := sentence.Find("a").Last().AttrOr("href", ""); link != "/rules/named/small-payments" {
			t.Errorf("the rule's link is %q", link)
		}
	}
}

// An event is a sentence with links, and 20 events fit on a screen.
func TestAuditReadsAsSentences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("jonas", identity.Operator, identity.Reviewer)
	id := w.submit(uuid.Nil, "files__delete_file", `{"path":"/srv/shared/x"}`)
	v.decide(id, "reject", "no")
	row := v.get("/audit?action=approval.rejected").find("audit-row")
	if got := strings.Join(strings.Fields(row.Find("[data-testid=event]").Text()), " "); got != "jonas rejected files: delete_file (billing)" {
		t.Errorf("the sentence is %q", got)
	}
	if links := row.Find("[data-testid=event] a"); links.Length() != 2 || !strings.HasPrefix(links.First().AttrOr("href", ""), "/members/") ||
		links.Last().AttrOr("href", "") != "/calls/"+id.String() {
		t.Errorf("the links are %q and %q", links.First().AttrOr("href", ""), links.Last().AttrOr("href", ""))
	}
	if details := row.Find("details"); details.Length() != 1 || details.Is("[open]") || !strings.Contains(details.Text(), "approval.rejected") ||
		details.Find(`a[href="/audit?subject=`+id.String()+`"]`).Length() != 1 {
		t.Errorf("the details are %s", details.Text())
	}
	w.db.Exec(`INSERT INTO audit_events (subject_id, actor_id, actor_kind, action, data)
		SELECT $1, $2, 'person', 'approval.approved', '{"note":"a note that is not short"}' FROM generate_series(1, 40)`, id, w.personCalled("jonas"))
	p := w.signInWith(browsertest.Options{Width: 1280, Height: 900})
	p.Go(w.server.URL + "/audit")
	p.Wait("audit")
	if n := browsertest.Eval[int](p, `[...document.querySelectorAll("[data-testid=audit-row]")].filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length`); n < 20 {
		t.Errorf("%d events fit on the screen", n)
	}
	p.Screenshot("audit")
	noComplaints(t, p)
}
