package ui_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// A value is common if all calls have it with equal bytes, anywhere in the arguments.
func TestSideBySideSharesOnlyWhatAllHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a","all":1,"two":2,"swap":"x","paws":"y"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"all":1,"filename":"b","two":2,"swap":"y","paws":"x"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"c","swap":"x","paws":"y","all":1}`)
	page := v.get(callPath(first) + "/like")
	names := func(within string) string {
		return strings.Join(strings.Fields(page.doc.Find(within+" dt bdi").Text()), " ")
	}
	if got := names(".part:not(form)"); got != "all" {
		t.Errorf("all have %q", got)
	}
	table := page.find("matrix")
	if got := cells(table.Find("thead th")); got != "Call | filename | two | swap | paws | Decision" {
		t.Errorf("columns: %s", got)
	}
	var rows []string
	table.Find("tbody tr").Each(func(_ int, row *goquery.Selection) {
		rows = append(rows, cells(row.Find("[data-testid=cell] > :not(small)")))
	})
	if want := []string{`a | 2 | x | y`, `b | 2 | y | x`, `c | not given | x | y`}; !slices.Equal(rows, want) {
		t.Errorf("rows: %q", rows)
	}
}

// An amount has the currency that all calls have in common.
func TestSideBySideKnowsCommonCurrencies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a","amount":"1284.50","currency":"GBP"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"a","amount":"99.50","currency":"GBP"}`)
	page := v.get(callPath(first) + "/like")
	if got := page.find("cell").Text(); !strings.Contains(got, "GBP 1,284.50") || !strings.Contains(got, "GBP 99.50") {
		t.Errorf("the amounts: %s", got)
	}
}

// A cell has all values of its argument, also nested ones.
func TestSideBySideShowsNestedValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a","to":{"x/y":"one","z":["two"]}}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"b","to":{}}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"c"}`)
	page := v.get(callPath(first) + "/like")
	if got := cells(page.find("matrix").Find("thead th")); got != "Call | filename | to | Decision" {
		t.Errorf("columns: %s", got)
	}
	if got := cells(page.find("cell").Eq(1).Find("dt bdi, .value")); !strings.Contains(got, "one") || !strings.Contains(got, "two") {
		t.Errorf("nested values: %s", got)
	}
	if got := page.find("cell").Length(); got != 6 {
		t.Errorf("%d cells", got)
	}
}

// A call with a red warning is approved on its own page only, wherever the warning comes from.
func TestSideBySideApprovesNoRedWarning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	const usual = `{"filename":"https://pay.amazon.com/bill"}`
	w.sendApproved("files__save_csv", usual, usual, usual)
	plain := w.submit(uuid.Nil, "files__save_csv", `{"filename":"https://pay.amazon.com/bill"}`)
	red := map[string]uuid.UUID{
		"the look of a usual value": w.submit(uuid.Nil, "files__save_csv", `{"filename":"https://pay.arnazon.com/bill"}`),
		"a dangerous form":          w.submit(uuid.Nil, "files__save_csv", `{"filename":"https://pay.amazon.com@203.0.113.9/bill"}`),
		"a hidden character":        w.submit(uuid.Nil, "files__save_csv", `{"filename":"a\u202eb"}`),
	}
	page := v.get(callPath(plain) + "/like")
	if page.find("alike-row").Length() != 4 || page.find("verdict-approve").Length() != 1 || page.find("verdict-reject").Length() != 4 {
		t.Fatalf("offered: %s", page.text())
	}
	row := func(id uuid.UUID) *goquery.Selection {
		return page.find("alike-row").FilterFunction(func(_ int, row *goquery.Selection) bool {
			return row.Find(`input[name="call"]`).AttrOr("value", "") == id.String()
		})
	}
	if row(plain).Find("[data-testid=own-page], .odd").Length() != 0 {
		t.Errorf("a usual call: %s", row(plain).Text())
	}
	for name, id := range red {
		if row(id).Find("td.odd, .notice.danger").Length() == 0 || row(id).Find(`[data-testid=own-page] a[href="`+callPath(id)+`"]`).Length() != 1 {
			t.Errorf("%s: %s", name, row(id).Text())
		}
		form := page.form("like-form")
		form["call"] = []string{id.String()}
		form.Set("verdict."+id.String(), "approve")
		a := v.post(callPath(plain)+"/like", form)
		if a.status != http.StatusConflict || !strings.Contains(a.text(), "on its own page") || w.getApproval(id).Status != approval.Pending {
			t.Errorf("%s: approved side by side: %d", name, a.status)
		}
	}
	form := page.form("like-form")
	form["call"] = []string{plain.String(), red["a dangerous form"].String()}
	form.Set("verdict."+plain.String(), "approve")
	form.Set("verdict."+red["a dangerous form"].String(), "reject")
	if a := v.post(callPath(plain)+"/like", form); a.status != http.StatusOK || !strings.Contains(a.text(), "1 approved, 1 rejected") {
		t.Errorf("the others: %d: %s", a.status, a.find("notice").Text())
	}
}

// Unusual values are marked in their cells.
func TestSideBySideMarksUnusualValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	w.offer(`{"name":"pay","inputSchema":{"type":"object","properties":{"to":{"type":"string"},"amount":{"type":"number"}}}}`)
	w.sendApproved("gallery__pay", `{"to":"a","amount":5}`, `{"to":"a","amount":6}`, `{"to":"a","amount":7}`)
	usual := w.submit(uuid.Nil, "gallery__pay", `{"to":"a","amount":6}`)
	w.submit(uuid.Nil, "gallery__pay", `{"to":"a","amount":5000}`)
	page := v.get(callPath(usual) + "/like")
	if got := page.doc.Find("td.odd"); got.Length() != 1 || !strings.Contains(got.Text(), "5000") || !strings.Contains(got.Text(), "Higher than usual") {
		t.Errorf("marked: %q", got.Text())
	}
	if page.find("verdict-approve").Length() != 2 {
		t.Error("an unusual value alone does not need its own page")
	}
}

// A form decides at most as many calls as a page shows.
func TestSideBySideDecidesNoMoreThanAPageShows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	var ids []uuid.UUID
	for i := range 52 {
		ids = append(ids, w.submit(uuid.Nil, "files__save_csv", fmt.Sprintf(`{"filename":"%d"}`, i)))
	}
	page := v.get(callPath(ids[0]) + "/like")
	form := page.form("like-form")
	form["call"] = nil
	for _, id := range ids {
		form.Add("call", id.String())
		form.Set("verdict."+id.String(), "reject")
		form.Set("digest."+id.String(), w.getApproval(id).Digest.String())
	}
	a := v.post(callPath(ids[51])+"/like", form)
	if a.status != http.StatusConflict || !strings.Contains(a.text(), "At most 50 calls") || !strings.Contains(a.text(), "0 approved, 50 rejected") {
		t.Errorf("%d: %s", a.status, a.find("notice").Text())
	}
	if w.getApproval(ids[51]).Status != approval.Pending {
		t.Error("the last one was decided")
	}
}

// Secrets follow the accepted definition of the tool.
func TestSideBySideHidesByTheAcceptedDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.offer(`{"name":"note","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"word":{"type":"string"}}}}`)
	v := w.signedIn("ana", identity.Reviewer)
	before := w.submit(uuid.Nil, "gallery__note", `{"text":"first","word":"quetzal"}`)
	w.source.Lock()
	w.source.Tools[0] = `{"name":"note","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"word":{"type":"string","writeOnly":true}}}}`
	w.source.Unlock()
	w.discovery.ListChanged(w.skillOf(before))
	after := w.submit(uuid.Nil, "gallery__note", `{"text":"second","word":"quetzal"}`)
	other := w.submit(uuid.Nil, "gallery__note", `{"text":"third","word":"yggdrasil"}`)
	for _, id := range []uuid.UUID{before, after, other} {
		page := v.get(callPath(id) + "/like")
		if n := page.find("alike-row").Length(); n != 3 {
			t.Fatalf("%d side by side: %s", n, page.text())
		}
		// The server has offered another definition. It must not hide values by that.
		if text := page.text(); !strings.Contains(text, "yggdrasil") || strings.Count(text, "quetzal") != 2 || page.find("hidden").Length() != 0 {
			t.Errorf("seen from %s: %s", id, text)
		}
	}
}

func (w *world) skillOf(id uuid.UUID) uuid.UUID {
	w.t.Helper()
	waiting, err := w.calls.GetApproval(w.t.Context(), id)
	check(w.t, err)
	return waiting.Call.SkillID
}
