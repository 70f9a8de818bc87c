package ui_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestToolInsightsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	replies := 0
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		replies++
		e := tool.Exchange{Status: 200, Sent: 1000, Received: 2000, Steps: []tool.Step{{Name: "call", Took: 15 * time.Millisecond}}}
		if replies == 2 {
			e.Status = 404
			return tool.Result{Raw: json.RawMessage(`{"isError":true,"content":[{"type":"text","text":"no <b>row</b> 12"}]}`), IsError: true, Exchange: e}, nil
		}
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`), Exchange: e}, nil
	})
	for _, name := range []string{"x", "y"} {
		id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"`+name+`"}`)
		form := v.get(callPath(id)).form("decide")
		form.Set("reason", "")
		v.post(callPath(id)+"/approve", form)
		w.waitForEnd(id)
	}
	first := v.get("/insights")
	row := first.find("tools").Find("tbody tr")
	if row.Length() != 1 || !strings.Contains(row.Text(), "files: save_csv") || row.Find("title").Text() != "1 done, 1 failed" {
		t.Fatalf("the page of all figures says of tools: %q", row.Text())
	}
	page := v.get(row.Find("a").AttrOr("href", ""))
	if page.status != http.StatusOK || page.find("tools").Find("tbody tr").Length() != 1 {
		t.Fatalf("the tool's page: %d %s", page.status, page.text())
	}
	var cells []string
	for _, td := range page.find("tools").Find("tbody td").EachIter() {
		cells = append(cells, td.Text())
	}
	if got := strings.Join(cells[1:7], " | "); got != "2 | 50 % | 15 ms | 15 ms | 2 kB | 4 kB" {
		t.Errorf("the tool: %s", got)
	}
	if rows := page.numbers("chart-steps"); len(rows) != 4 || !strings.HasPrefix(rows[2], "Call | 2 | 15 ms | 15 ms") {
		t.Errorf("steps: %q", rows)
	}
	if rows := page.numbers("chart-http"); len(rows) != 3 || rows[2] != "404 Not Found | 1 | 50 %" {
		t.Errorf("HTTP statuses: %q", rows)
	}
	errs := page.find("top-errors")
	if text := errs.Find("tbody tr").Text(); !strings.HasPrefix(strings.TrimSpace(text), "no …") || !strings.Contains(text, "tool_error") || !strings.Contains(text, "404") {
		t.Errorf("errors: %q", text)
	}
	if none := v.get("/insights/tools?tool=nothing"); none.find("empty").Length() != 1 {
		t.Errorf("of a tool that was never called: %s", none.text())
	}
	if wrong := v.get("/insights/tools?sort=most"); wrong.status != http.StatusUnprocessableEntity || !strings.Contains(wrong.find("errors").Text(), "sort: must be one of") {
		t.Errorf("another order: %d %s", wrong.status, wrong.text())
	}
}
