package figures

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// toolLinesShown is how many tools the page lists; the API lists more.
const toolLinesShown = 100

// presentToolInsights fills in the figures by tool.
func presentToolInsights(page *ToolInsights, found *figures.ToolInsights, asked *insightRange) {
	w := found.Window
	page.Range = "Calls made from " + moment(w.From) + " to " + moment(w.To) + ". All times are UTC."
	if asked.name == "" {
		page.Filter.From, page.Filter.To = w.From.Format(time.DateOnly), w.To.Add(-1).Format(time.DateOnly)
	}
	if page.Empty = len(found.Tools) == 0; page.Empty {
		return
	}
	page.Tools = presentTools(found, asked, toolLinesShown)
	for _, sort := range [][2]string{
		{"", "Most calls"}, {"errors", "Most errors"}, {"p50", "Slowest half"}, {"p95", "Slowest"}, {"bytes", "Most bytes"}, {"last", "Last used"}, {"name", "By name"},
	} {
		page.Tools.Sorts = append(page.Tools.Sorts, view.Tab{
			Word: text.Literal(sort[1]), URL: asked.ofTools(url.Values{"sort": {sort[0]}}), Current: sort[0] == asked.sort || sort[0] == "" && asked.sort == "calls",
		})
	}
	page.Steps, page.HTTP, page.Errors = stepChart(found.Steps), httpChart(found.HTTPStatuses), errorTable(found, asked)
}

func presentTools(found *figures.ToolInsights, asked *insightRange, most int) *ToolTable {
	table := &ToolTable{Head: literals("Calls", "Errors", "Half at most (p50)", "p95", "Sent", "Received", "Last call")}
	looks, totals := make([]Look, 0, 8), make([]int, len(outcomes()))
	for _, o := range outcomes() {
		looks = append(looks, o.look)
	}
	for i := range found.Tools {
		f := &found.Tools[i]
		numbers, says := make([]int, len(totals)), []string{}
		for k, o := range outcomes() {
			numbers[k] = o.count(f.Calls)
			if totals[k] += numbers[k]; numbers[k] > 0 {
				says = append(says, view.Thousands(numbers[k])+" "+strings.ToLower(o.name))
			}
		}
		if i >= most {
			continue
		}
		wrong, sent := f.Errors()
		name := skillAndTool(found, f.SkillID, f.Tool)
		table.Rows = append(table.Rows, ToolLine{
			DataRow: view.DataRow{
				Name: text.Literal(name), URL: asked.ofTools(url.Values{"skill": {f.SkillID.String()}, "tool": {f.Tool}}),
				Cells: literals(
					view.Thousands(f.Calls.Total()), orDash(shareOf(wrong, sent, "")), timeWords(f.Latency, f.Latency.P50), timeWords(f.Latency, f.Latency.P95),
					sizeWords(f, f.Sent), sizeWords(f, f.Received), f.Last.UTC().Format("2 Jan 2006, 15:04"),
				),
			},
			Parts: Parts(f.Calls.Total(), looks, numbers...), Says: strings.Join(says, ", "),
		})
	}
	for k, o := range outcomes() {
		if totals[k] > 0 {
			table.Kinds = append(table.Kinds, Kind{Look: o.look, Name: o.name, Count: view.Thousands(totals[k])})
		}
	}
	table.Note = "Errors are the calls that failed, or of which nobody knows, of those that were sent. Times are what the server took, to within a sixteenth."
	if found.Total > len(table.Rows) {
		table.Note += " These are " + view.Thousands(len(table.Rows)) + " of " + view.Plural(found.Total, "tool", "tools") + "."
	}
	return table
}

func skillAndTool(found *figures.ToolInsights, skill uuid.UUID, tool string) string {
	return cmp.Or(found.SkillNames[skill], skill.String()) + ": " + tool
}

func timeWords(t figures.Latency, length time.Duration) string {
	if t.Count == 0 {
		return none
	}
	return present.FormatShortDuration(length).In(context.TODO())
}

func sizeWords(f *figures.ToolFigures, n int64) string {
	if f.Exchanged == 0 {
		return none
	}
	return present.FormatSize(n).In(context.TODO())
}

// stepChart is nil when nothing was measured.
func stepChart(steps []figures.StepFigures) *BarChart {
	if len(steps) == 0 {
		return nil
	}
	chart := &BarChart{Chart: Chart{
		ID: "steps", Title: "Time by step", Note: "What half of the calls took at most, and 95 in a hundred, to within a sixteenth; bars are as long as the slowest step.",
		Table: view.DataTable{Caption: text.Literal("Time by step, numbers"), Head: literals("Step", "Calls", "p50", "p95", "p99")},
	}}
	slowest := time.Duration(0)
	for _, s := range steps {
		slowest = max(slowest, s.Latency.P95)
	}
	for _, s := range steps {
		name, p50, p95 := present.NameStep(s.Step).In(context.TODO()), timeWords(s.Latency, s.Latency.P50), timeWords(s.Latency, s.Latency.P95)
		chart.Bars = append(chart.Bars, Bar{
			Name: name, Value: p50 + ", " + p95, Says: name + ": half at most " + p50 + ", 95 in a hundred at most " + p95,
			Parts: Parts(int(slowest), []Look{LookDone, LookExpired}, int(s.Latency.P50), int(s.Latency.P95-s.Latency.P50)),
		})
		chart.Table.Rows = append(chart.Table.Rows, view.DataRow{Name: text.Literal(name), Cells: literals(view.Thousands(s.Latency.Count), p50, p95, timeWords(s.Latency, s.Latency.P99))})
	}
	chart.Kinds = []Kind{{Look: LookDone, Name: "Half"}, {Look: LookExpired, Name: "95 in a hundred"}}
	return chart
}

// httpChart is nil when no call was one of an HTTP API.
func httpChart(statuses []figures.StatusFigures) *BarChart {
	if len(statuses) == 0 {
		return nil
	}
	chart := &BarChart{Chart: Chart{
		ID: "http", Title: "HTTP statuses", Note: "Of the answers of HTTP APIs.",
		Table: view.DataTable{Caption: text.Literal("HTTP statuses, numbers"), Head: literals("Status", "Calls", "Share")},
	}}
	all := 0
	for _, s := range statuses {
		all += s.Calls
	}
	for _, s := range statuses {
		name, look := present.HTTPStatusWords(s.HTTPStatus), LookDone
		if s.HTTPStatus >= 400 {
			look = LookFailed
		}
		if len(chart.Bars) < barsShown {
			chart.Bars = append(chart.Bars, Bar{
				Name: name, Value: view.Thousands(s.Calls), Says: name + ": " + view.Thousands(s.Calls) + " of " + view.Thousands(all),
				Parts: Parts(all, []Look{look}, s.Calls),
			})
		}
		chart.Table.Rows = append(chart.Table.Rows, view.DataRow{Name: text.Literal(name), Cells: literals(view.Thousands(s.Calls), percentOf(s.Calls, all))})
	}
	return chart
}

// errorTable is nil when nothing went wrong.
func errorTable(found *figures.ToolInsights, asked *insightRange) *view.DataTable {
	if len(found.Errors) == 0 {
		return nil
	}
	table := &view.DataTable{Caption: text.Literal("Top errors"), Head: literals("What went wrong", "Tool", "Status", "Code", "HTTP status", "Calls", "Last")}
	for i := range found.Errors {
		e := &found.Errors[i]
		status := none
		if e.HTTPStatus > 0 {
			status = strconv.Itoa(e.HTTPStatus)
		}
		links := callLinks{window: found.Window, skill: e.SkillID.String(), agent: asked.agent}
		table.Rows = append(table.Rows, view.DataRow{
			Name: text.Literal(cmp.Or(e.Line, e.Code, string(e.Status))),
			URL:  links.with(found.Window.From, found.Window.To, url.Values{"status": {string(e.Status)}, "tool": {e.Tool}}),
			Cells: literals(
				present.Printable(skillAndTool(found, e.SkillID, e.Tool)), string(e.Status), orDash(e.Code), status, view.Thousands(e.Calls),
				e.Last.UTC().Format("2 Jan 2006, 15:04"),
			),
		})
	}
	return table
}
