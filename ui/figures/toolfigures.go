package figures

import (
	"cmp"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// toolLinesShown bounds how many tools the page lists; the API lists more.
const toolLinesShown = 100

// presentToolInsights fills in the figures by tool.
func presentToolInsights(page *ToolInsights, found *figures.ToolInsights, asked *insightRange) {
	w := found.Window
	page.Range = text.InsightMade(formatTime(w.From), formatTime(w.To), w.Zone())
	if asked.name == "" {
		page.Filter.From, page.Filter.To = w.From.Format(time.DateOnly), w.To.Add(-1).Format(time.DateOnly)
	}
	if page.Empty = len(found.Tools) == 0; page.Empty {
		return
	}
	page.Tools = presentTools(found, asked, toolLinesShown)
	for _, order := range []struct {
		name  string
		label text.Message
	}{
		{"", text.InsightSortCalls()},
		{"errors", text.InsightSortErrors()},
		{"p50", text.InsightSortMedian()},
		{"p95", text.InsightSortP95()},
		{"bytes", text.InsightSortBytes()},
		{"last", text.InsightSortLast()},
		{"name", text.InsightSortName()},
	} {
		page.Tools.Sorts = append(page.Tools.Sorts, view.Tab{
			Word: order.label, URL: asked.makeToolsURL(url.Values{"sort": {order.name}}), Current: order.name == asked.sort || order.name == "" && asked.sort == "calls",
		})
	}
	page.Steps, page.HTTP, page.Errors = presentSteps(found.Steps), presentStatuses(found.HTTPStatuses), presentErrors(found, asked)
}

func presentTools(found *figures.ToolInsights, asked *insightRange, most int) *ToolTable {
	table := &ToolTable{
		Note: text.InsightToolNote(),
		Head: []text.Message{
			text.InsightCalls(), text.InsightErrors(), text.InsightMedian(), text.InsightP95(), text.InsightSent(), text.InsightReceived(), text.InsightLastCall(),
		},
	}
	if shown := min(most, len(found.Tools)); found.Total > shown {
		table.Note = text.Join(" ", table.Note, text.InsightToolsShown(shown, found.Total))
	}
	totals := figures.Counts{}
	for i := range found.Tools {
		f := &found.Tools[i]
		for status, n := range f.Calls {
			totals[status] += n
		}
		if i < most {
			table.Rows = append(table.Rows, makeToolLine(found, f, asked))
		}
	}
	for _, o := range listOutcomes() {
		if n := o.countCalls(totals); n > 0 {
			table.Kinds = append(table.Kinds, Kind{Look: o.look, Name: o.name, Count: text.Number(n)})
		}
	}
	return table
}

func makeToolLine(found *figures.ToolInsights, f *figures.ToolFigures, asked *insightRange) ToolLine {
	var looks []Look
	var numbers []int
	for _, o := range listOutcomes() {
		looks, numbers = append(looks, o.look), append(numbers, o.countCalls(f.Calls))
	}
	wrong, sent := f.Errors()
	return ToolLine{
		DataRow: view.DataRow{
			Name: nameTool(found.SkillNames, f.SkillID, f.Tool), URL: asked.makeToolsURL(url.Values{"skill": {f.SkillID.String()}, "tool": {f.Tool}}),
			Cells: []text.Message{
				text.Number(f.Calls.Total()), formatShare(wrong, sent), formatLatency(f.Latency, f.Latency.P50), formatLatency(f.Latency, f.Latency.P95),
				formatSize(f, f.Sent), formatSize(f, f.Received), text.Time(f.Last.In(found.Window.From.Location()), text.FormatMinute()),
			},
		},
		Parts: LayOutParts(f.Calls.Total(), looks, numbers...), Meaning: describeOutcomes(f.Calls),
	}
}

func nameSkill(names map[uuid.UUID]string, skill uuid.UUID) string {
	return cmp.Or(names[skill], skill.String())
}

func nameTool(names map[uuid.UUID]string, skill uuid.UUID, tool string) text.Message {
	return text.Literal(nameSkill(names, skill) + ": " + tool)
}

func formatLatency(l figures.Latency, length time.Duration) text.Message {
	if l.Count == 0 {
		return text.Literal(dash)
	}
	return present.FormatShortDuration(length)
}

func formatSize(f *figures.ToolFigures, n int64) text.Message {
	if f.Exchanged == 0 {
		return text.Literal(dash)
	}
	return present.FormatSize(n)
}

// presentSteps returns nil if nothing was measured.
func presentSteps(steps []figures.StepFigures) *BarChart {
	if len(steps) == 0 {
		return nil
	}
	chart := &BarChart{
		Chart: Chart{ID: "steps", Title: text.InsightStepTitle(), Note: text.InsightStepNote()},
		Kinds: []Kind{{Look: LookDone, Name: text.InsightMedian()}, {Look: LookExpired, Name: text.InsightPercentile95()}},
	}
	chart.Table = view.DataTable{
		Caption: text.InsightNumbersOf(chart.Title),
		Head:    []text.Message{text.InsightStep(), text.InsightCalls(), text.InsightP50(), text.InsightP95(), text.InsightP99()},
	}
	slowest := time.Duration(0)
	for _, s := range steps {
		slowest = max(slowest, s.Latency.P95)
	}
	for _, s := range steps {
		l := s.Latency
		name, p50, p95 := present.NameStep(s.Step), formatLatency(l, l.P50), formatLatency(l, l.P95)
		chart.Bars = append(chart.Bars, Bar{
			Name: name, Value: text.Join(", ", p50, p95), Meaning: text.InsightStepMeaning(name, p50, p95),
			Parts: LayOutParts(int(slowest), []Look{LookDone, LookExpired}, int(l.P50), int(l.P95-l.P50)),
		})
		chart.Table.Rows = append(chart.Table.Rows, view.DataRow{Name: name, Cells: []text.Message{text.Number(l.Count), p50, p95, formatLatency(l, l.P99)}})
	}
	return chart
}

// presentStatuses returns nil if there are no calls of HTTP APIs.
func presentStatuses(statuses []figures.StatusFigures) *BarChart {
	if len(statuses) == 0 {
		return nil
	}
	chart := &BarChart{Chart: Chart{ID: "http", Title: text.InsightHTTPTitle(), Note: text.InsightHTTPNote()}}
	chart.Table = makeShareTable(chart.Title, text.InsightStatus())
	all := 0
	for _, s := range statuses {
		all += s.Calls
	}
	for _, s := range statuses {
		look := LookDone
		if s.HTTPStatus >= 400 {
			look = LookFailed
		}
		chart.addShare(text.Literal(present.HTTPStatusWords(s.HTTPStatus)), "", look, s.Calls, all)
	}
	return chart
}

// presentErrors returns nil if there are no errors.
func presentErrors(found *figures.ToolInsights, asked *insightRange) *view.DataTable {
	if len(found.Errors) == 0 {
		return nil
	}
	table := &view.DataTable{Caption: text.InsightTopErrors(), Head: []text.Message{
		text.InsightMessage(), text.InsightTool(), text.InsightStatus(), text.InsightCode(), text.InsightHTTPStatus(), text.InsightCalls(), text.InsightLastCall(),
	}}
	for i := range found.Errors {
		e := &found.Errors[i]
		status := dash
		if e.HTTPStatus > 0 {
			status = strconv.Itoa(e.HTTPStatus)
		}
		links := callLinks{window: found.Window, skill: e.SkillID.String(), agent: asked.agent}
		table.Rows = append(table.Rows, view.DataRow{
			Name: text.Literal(cmp.Or(e.Line, e.Code, string(e.Status))),
			URL:  links.linkCalls(url.Values{"status": {string(e.Status)}, "tool": {e.Tool}}),
			Cells: []text.Message{
				text.Literal(view.Printable(nameSkill(found.SkillNames, e.SkillID) + ": " + e.Tool)), present.StatusBadge(e.Status).Word,
				text.Literal(cmp.Or(e.Code, dash)), text.Literal(status), text.Number(e.Calls), text.Time(e.Last.In(found.Window.From.Location()), text.FormatMinute()),
			},
		})
	}
	return table
}
