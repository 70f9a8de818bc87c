package ui_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// madeCall stores a call made at a given time. An empty outcome means no approval. takenUp and ended are seconds after
// the call.
func (w *world) madeCall(at, skill, toolName, status, failure, outcome string, by uuid.UUID, takenUp, ended int) {
	w.t.Helper()
	found, err := w.agents.SkillByName(w.t.Context(), skill)
	check(w.t, err)
	suffix := uuid.NewString()
	definition, err := tool.ParseDefinition(json.RawMessage(echoTool))
	check(w.t, err)
	pin := definition.Pin()
	w.db.Exec(`INSERT INTO tool_definitions (pin, definition) VALUES ($1, $2) ON CONFLICT DO NOTHING`, pin[:], echoTool)
	w.db.Exec(`INSERT INTO calls (id, agent_id, skill_id, skill_revision, created_at, gated, status, tool, exposed_name, pin, arguments, failure)
		SELECT (lpad(to_hex((extract(epoch FROM $1::timestamptz - (SELECT value FROM clock_offset)) * 1000)::bigint), 12, '0') || '7' || substr($2, 1, 3) || '8' || substr($2, 20, 3)
			|| substr($2, 25, 12))::uuid, $3, $4, 1, $1, $5 <> '', $6, $7, 'x__' || $7, $9, '{}', nullif($8, '')`,
		at, suffix, w.agent.ID, found.ID, outcome, status, toolName, failure, pin[:])
	if outcome == "" {
		return
	}
	var decider *uuid.UUID
	if by != uuid.Nil {
		decider = &by
	}
	w.db.Exec(`INSERT INTO approvals (call_id, digest, created_at, deadline, decided_at, decided_by, taken_up_at, status, rule, agent_id, skill_id, tool)
		SELECT id, sha256('x'), created_at, created_at + interval '300 s', created_at + $3 * interval '1 s', $4,
			CASE WHEN $4::uuid IS NOT NULL THEN created_at + $5 * interval '1 s' END, $2, 'gated', agent_id, skill_id, tool
		FROM calls WHERE id::text LIKE '%' || substr($1, 25, 12)`, suffix, outcome, ended, decider, takenUp)
}

const trickyTool = "pay\u202ement<b>"

// makeFigures fills Monday, March 2, and Wednesday, March 4, 2026.
func (w *world) makeFigures() {
	w.t.Helper()
	rita := w.personCalled("rita")
	none := uuid.Nil
	w.madeCall("2026-02-24T09:00:00Z", "open", "echo", "succeeded", "", "", none, 0, 0) // the previous week
	w.madeCall("2026-03-02T00:00:00Z", "open", "echo", "succeeded", "", "", none, 0, 0)
	w.madeCall("2026-03-02T09:10:00Z", "open", "echo", "failed", "transport", "", none, 0, 0)
	w.madeCall("2026-03-02T09:20:00Z", "files", trickyTool, "succeeded", "", "approved", rita, 0, 20)
	w.madeCall("2026-03-02T09:20:10Z", "files", trickyTool, "rejected", "", "rejected", rita, 10, 12)
	w.madeCall("2026-03-02T10:20:00Z", "files", "save_csv", "unknown", "", "approved", rita, 0, 40)
	w.madeCall("2026-03-04T10:00:00Z", "files", "save_csv", "expired", "", "expired", none, 0, 300)
	w.madeCall("2026-03-04T10:00:00Z", "open", "echo", "denied", "", "", none, 0, 0)
}

const figuresWeek = "/insights?from=2026-03-02&to=2026-03-08"

// cells returns the texts of a selection.
func cells(s *goquery.Selection) string {
	var words []string
	s.Each(func(_ int, cell *goquery.Selection) {
		words = append(words, strings.Join(strings.Fields(cell.Text()), " "))
	})
	return strings.Join(words, " | ")
}

// tileTexts returns the texts of the tiles' parts.
func tileTexts(tiles *goquery.Selection) string {
	var words []string
	tiles.Each(func(_ int, tile *goquery.Selection) {
		text := strings.ReplaceAll(cells(tile.Find("dt, b, span, small")), " | ", " ")
		words = append(words, strings.Join(strings.Fields(text), " "))
	})
	return strings.Join(words, " | ")
}

// numbers returns the rows of a chart's table.
func (a *answer) numbers(chart string) []string {
	a.t.Helper()
	var rows []string
	a.find(chart).Find("[data-testid=numbers] tr").Each(func(_ int, row *goquery.Selection) {
		rows = append(rows, cells(row.Find("th, td")))
	})
	if len(rows) == 0 {
		a.t.Fatalf("no numbers of %s (status %d): %s", chart, a.status, a.text())
	}
	return rows
}

// Decisions about unusual values are shown by time on screen, and by person for operators.
func TestInsightsOfUnusualValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operator, reviewer := w.signedIn("rita", identity.Operator), w.signedIn("ana", identity.Reviewer)
	w.makeFigures()
	if page := operator.get(figuresWeek); page.find("unusual").Length()+page.find("unusual-reviewers").Length() != 0 {
		t.Errorf("nothing was measured: %s", page.find("unusual").Text())
	}
	w.db.Exec(`UPDATE approvals SET seen_rows = 1, seen_of = 1, seen_unusual = 1, second_step = false,
		seen_ms = CASE status WHEN 'approved' THEN 1500 ELSE 12000 END WHERE decided_by IS NOT NULL`)
	page := operator.get(figuresWeek)
	want := []string{"On screen | Approved | Rejected", "Under 2 s | 2 | 0", "2 to 10 s | 0 | 0", "10 to 60 s | 0 | 1", "60 s or more | 0 | 0"}
	if got := page.numbers("unusual"); !slices.Equal(got, want) {
		t.Errorf("by time: %q", got)
	}
	if got := page.numbers("unusual-reviewers"); !slices.Equal(got, []string{"Person | Decisions | Median | Under 2 s", "rita | 3 | 1.5 s | 67 %"}) {
		t.Errorf("by person: %q", got)
	}
	if page := reviewer.get(figuresWeek); page.find("unusual").Length() != 1 || page.find("unusual-reviewers").Length() != 0 {
		t.Errorf("a reviewer sees: %s", page.text())
	}
}

func TestInsightsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operator := w.signedIn("rita", identity.Operator)
	w.makeFigures()
	page := operator.get(figuresWeek)
	if page.status != http.StatusOK {
		t.Fatalf("status %d: %s", page.status, page.text())
	}
	const tiles = "Calls 7 Before: 1 (+600 %) | Approval requests 4 57 % of calls Before: 0 | Approved 67 % of 3 decisions No earlier data | " +
		"Waiting time 20 s median, 90 % within 5 min 0 s No earlier data | Decision time 20 s median, 90 % within 40 s No earlier data | " +
		"Decided in under 3 s 1 33 % of decisions Before: 0 | Expired 1 25 % of requests Before: 0 | " +
		"Failed or unknown 2 29 % of calls Before: 0"
	if got := tileTexts(page.find("tile")); got != tiles {
		t.Errorf("tiles:\n%s\nwant\n%s", got, tiles)
	}
	for chart, want := range map[string]string{
		"chart-outcomes": `Period | Done | Failed | Unknown | Rejected | Expired | Denied or invalid
			Mon 2 Mar 2026 | 2 | 1 | 1 | 1 | 0 | 0
			Tue 3 Mar 2026 | 0 | 0 | 0 | 0 | 0 | 0
			Wed 4 Mar 2026 | 0 | 0 | 0 | 0 | 1 | 1
			Thu 5 Mar 2026 | 0 | 0 | 0 | 0 | 0 | 0
			Fri 6 Mar 2026 | 0 | 0 | 0 | 0 | 0 | 0
			Sat 7 Mar 2026 | 0 | 0 | 0 | 0 | 0 | 0
			Sun 8 Mar 2026 | 0 | 0 | 0 | 0 | 0 | 0`,
		"chart-waiting": `Period | Count | Median | 90 % within
			Mon 2 Mar 2026 | 3 | 20 s | 40 s
			Tue 3 Mar 2026 | 0 | – | –
			Wed 4 Mar 2026 | 1 | 5 min 0 s | 5 min 0 s`,
		"chart-deciding": `Period | Count | Median | 90 % within
			Mon 2 Mar 2026 | 3 | 20 s | 40 s`,
		"chart-tools": `Tool | Requests | Approved | Rejected | Expired | Cancelled | Pending | Approval rate
			files: payU+202Ement<b> | 2 | 1 | 1 | 0 | 0 | 0 | 50 %
			files: save_csv | 2 | 1 | 0 | 1 | 0 | 0 | 100 %`,
		"chart-skills": `Skill | Requests | Approved | Rejected | Expired | Cancelled | Pending | Approval rate
			files | 4 | 2 | 1 | 1 | 0 | 0 | 67 %`,
		"chart-rules": `Rule | Requests | Approved | Rejected | Expired | Cancelled | Pending | Approval rate
			Calls of this skill need an approval | 4 | 2 | 1 | 1 | 0 | 0 | 67 %`,
		"chart-errors": `Kind | Calls | Share
			Tool error | 0 | 0 %
			JSON-RPC error | 0 | 0 %
			Transport error | 1 | 50 %
			Protocol error | 0 | 0 %
			Invalid session | 0 | 0 %
			Outcome unknown | 1 | 50 %`,
		"deciders": `Person | Decisions | Under 3 s | Share
			rita | 3 | 1 | 33 %`,
	} {
		got := page.numbers(chart)
		for i, line := range strings.Split(want, "\n") {
			if line = strings.TrimLeft(line, "\t"); i >= len(got) || got[i] != line {
				t.Errorf("%s, row %d:\n%q, want\n%q", chart, i, got[min(i, len(got)-1)], line)
			}
		}
	}
	hours := page.numbers("chart-hours")
	if len(hours) != 25 || hours[10] != "09:00 | 3 | 0 | 0 | 0 | 0 | 0 | 0" || hours[11] != "10:00 | 1 | 0 | 2 | 0 | 0 | 0 | 0" {
		t.Errorf("hours: %q", hours)
	}
}

// The charts match the numbers.
func TestInsightPictures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operator := w.signedIn("rita", identity.Operator)
	w.makeFigures()
	page := operator.get(figuresWeek)
	height := func(s *goquery.Selection) float64 {
		h, err := strconv.ParseFloat(s.AttrOr("height", ""), 64)
		check(t, err)
		return h
	}
	monday := page.find("chart-outcomes").Find("svg[role=img] > g").First()
	if got := monday.Find("title").Text(); got != "Mon 2 Mar 2026: 2 done, 1 failed, 1 unknown, 1 rejected" {
		t.Errorf("Monday's column is called %q", got)
	}
	parts := monday.Find("rect")
	if parts.Length() != 4 || parts.Eq(0).AttrOr("fill", "") != "url(#look-done)" || height(parts.Eq(0)) != 2*height(parts.Eq(1)) {
		t.Errorf("Monday's column: %s", cells(parts))
	}
	if dots := page.find("chart-waiting").Find("svg[role=img] > g svg").Length(); dots != 4 {
		t.Errorf("%d dots for two days with two values each", dots)
	}
	if lines := page.find("chart-waiting").Find("line.p50, line.p90").Length(); lines != 0 {
		t.Errorf("%d lines between days that are not neighbours", lines)
	}
	bar := page.find("chart-tools").Find("svg[role=img]").First()
	if got := bar.Find("rect[fill]"); got.Length() != 2 || got.Eq(0).AttrOr("width", "") != "50.00%" || got.Eq(1).AttrOr("x", "") != "50.00%" {
		t.Errorf("bar of a tool that is approved every other time: %d parts", got.Length())
	}
	if peak := page.find("chart-hours").Find("g.peak"); peak.Length() != 1 || peak.Find("title").Text() != "Mon 09:00: 3" {
		t.Errorf("busiest hour: %q", peak.Find("title").Text())
	}
	page.doc.Find("main svg").Not("svg svg").Each(func(_ int, s *goquery.Selection) {
		if s.AttrOr("aria-hidden", "") == "true" {
			return
		}
		name := page.doc.Find("#" + s.AttrOr("aria-labelledby", "nothing"))
		if s.AttrOr("role", "") != "img" || name.Length() != 1 || name.Text() == "" {
			t.Errorf("a picture without a name: %q", s.AttrOr("aria-labelledby", ""))
		}
	})
	seen := map[string]bool{}
	page.doc.Find("[id]").Each(func(_ int, s *goquery.Selection) {
		if id := s.AttrOr("id", ""); seen[id] {
			t.Errorf("two elements are called %s", id)
		} else {
			seen[id] = true
		}
	})
	if page.doc.Find("[style]").Length() > 0 || strings.Contains(page.body, trickyTool) || page.doc.Find("main b:contains('ment')").Length() > 0 {
		t.Error("styles, or text from outside, among the markup")
	}
}

func TestInsightLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reviewer := w.signedIn("rob", identity.Reviewer)
	operator := w.signedIn("rita", identity.Operator)
	w.makeFigures()
	page := operator.get(figuresWeek + "&skill=files&agent=billing")
	for link, want := range map[string]string{
		page.find("chart-outcomes").Find("a:contains('Unknown')").AttrOr("href", ""): "status=unknown",
		page.find("tile").Find("a").Last().AttrOr("href", ""):                        "status=failed&status=unknown",
		page.find("chart-outcomes").Find("td ~ td, th a").First().AttrOr("href", ""): "to=2026-03-03T00%3A00%3A00Z",
		page.find("chart-tools").Find("th a").Last().AttrOr("href", ""):              "tool=save_csv",
		page.find("deciders").Find("a").AttrOr("href", ""):                           "person=" + w.personCalled("rita").String(),
	} {
		address, query, _ := strings.Cut(link, "?")
		values, err := url.ParseQuery(query)
		check(t, err)
		if address != "/calls" || !strings.Contains(query, want) || values.Get("from") != "2026-03-02T00:00:00Z" || values.Get("agent") != "billing" || values.Get("skill") == "" {
			t.Errorf("the link to %s is %s", want, link)
		}
		if a := operator.get(link); a.status != http.StatusOK {
			t.Errorf("%s: status %d: %s", link, a.status, a.text())
		}
	}
	if tabs := page.doc.Find("main nav a"); tabs.Length() != 4 || tabs.First().AttrOr("href", "") != "/insights?agent=billing&range=24h&skill=files" {
		t.Errorf("tabs: %s", tabs.First().AttrOr("href", ""))
	}
	// Reviewers do not see each other's figures.
	page = reviewer.get(figuresWeek)
	if page.find("deciders").Length() != 0 || strings.Contains(page.doc.Find("main").Text(), "rita") || page.find("tile").Length() != 8 {
		t.Errorf("a reviewer sees %s", page.doc.Find("main").Text())
	}
}

func TestInsightStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reviewer := w.signedIn("rob", identity.Reviewer)
	empty := reviewer.get("/insights?range=nonsense&skill=files")
	if empty.status != http.StatusOK || !strings.Contains(empty.find("empty").Text(), "No calls in this range") {
		t.Fatalf("status %d: %s", empty.status, empty.text())
	}
	if tab := empty.doc.Find("main nav [aria-current]"); tab.Text() != "7 days" {
		t.Errorf("the range is %q", tab.Text())
	}
	if link := empty.find("empty").Find("a").AttrOr("href", ""); link != "/insights?range=30d&skill=files" {
		t.Errorf("the way on is %s", link)
	}
	if empty.find("tile").Length()+empty.doc.Find("main svg[role=img]").Length() != 0 {
		t.Error("charts of nothing")
	}
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"a"}`)
	for _, name := range []string{"24h", "7d", "30d", "90d"} {
		page := reviewer.get("/insights?range=" + name)
		if got := tileTexts(page.find("tile").First()); page.status != http.StatusOK || got != "Calls 1 Before: 0" {
			t.Errorf("%s: status %d: %q", name, page.status, got)
		}
	}
	wrong := reviewer.get("/insights?from=2026-03-08&to=2026-03-02&skill=nothing&agent=%22%3E%3Cb%3E")
	if wrong.status != http.StatusUnprocessableEntity || wrong.find("tile").Length() != 0 {
		t.Fatalf("status %d: %s", wrong.status, wrong.text())
	}
	for _, name := range []string{"skill", "agent"} {
		field := wrong.doc.Find("input[name=" + name + "]")
		why := wrong.doc.Find("#" + field.AttrOr("aria-describedby", "nothing"))
		if field.AttrOr("aria-invalid", "") != "true" || !strings.HasPrefix(why.Text(), name+": must be a known name") {
			t.Errorf("%s: %q", name, why.Text())
		}
	}
	if kept := wrong.form("filter"); kept.Get("from") != "2026-03-08" || kept.Get("skill") != "nothing" || kept.Get("agent") != `"><b>` {
		t.Errorf("the form is %v", kept)
	}
	wrong = reviewer.get("/insights?from=2026-03-08&to=2026-03-02")
	if wrong.status != http.StatusUnprocessableEntity || !strings.Contains(wrong.find("errors").Text(), "to: must be a time after 2026-03-08T00:00:00Z") {
		t.Errorf("status %d: %s", wrong.status, wrong.find("errors").Text())
	}
}

// Slow queries of figures are cancelled, so that calls do not wait for them.
func TestInsightsGiveUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reviewer := w.signedIn("rob", identity.Reviewer)
	tx, err := w.db.Pool().Begin(t.Context())
	check(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE call_counts`)
	check(t, err)
	page := reviewer.get("/insights?skill=files")
	check(t, tx.Rollback(t.Context()))
	if page.status != http.StatusServiceUnavailable || !strings.Contains(page.find("notice").Text(), "Choose a shorter range") {
		t.Fatalf("status %d: %s", page.status, page.text())
	}
	if page.form("filter").Get("skill") != "files" {
		t.Error("the form was not kept")
	}
	if page := reviewer.get("/insights"); page.status != http.StatusOK {
		t.Errorf("afterwards: status %d", page.status)
	}
}

func TestInsightsInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn("rita", identity.Operator)
	w.makeFigures()
	for name, options := range map[string]browsertest.Options{"desktop": {}, "phone": browsertest.Phone()} {
		p := w.signInWith(options)
		p.Go(w.server.URL + figuresWeek)
		p.Wait("chart-hours")
		noComplaints(t, p)
		if browsertest.Eval[bool](p, `document.documentElement.scrollWidth > innerWidth`) {
			t.Errorf("%s: the page is wider than the window", name)
		}
		// Text keeps its size and stays within its chart.
		small := browsertest.Eval[int](p, `[...document.querySelectorAll("main svg text")].filter(t => t.getBoundingClientRect().height < 11).length`)
		outside := browsertest.Eval[int](p, `[...document.querySelectorAll("main svg text")].filter(t => {
			const inner = t.getBoundingClientRect(), outer = t.ownerSVGElement.getBoundingClientRect()
			return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1
		}).length`)
		if small > 0 || outside > 0 {
			t.Errorf("%s: %d texts too small, %d cut off", name, small, outside)
		}
		p.ClickOn("[data-testid=chart-outcomes] summary")
		p.WaitText("chart-outcomes", "Wed 4 Mar 2026")
	}
}
