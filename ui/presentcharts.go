package ui

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
)

func presentCharts(found *figures.Insights, links callLinks, names map[uuid.UUID]string) view.Charts {
	columns := insightColumns(found, links)
	waiting, deciding := make([]approval.Spread, len(columns)), make([]approval.Spread, len(columns))
	for i, s := range found.Series {
		waiting[i], deciding[i] = s.Approvals.Waiting, s.Approvals.Deciding
	}
	totals := &found.Approvals.Totals
	return view.Charts{
		Outcomes: outcomeChart(found, columns, links),
		Waiting: spreadChart(view.Chart{
			ID: "waiting", Title: "Waiting time",
			Note: "From when a call was parked to the end of its waiting: a decision, its deadline, or that it was cancelled. Each step of the scale is several times the one before.",
		}, columns, waiting, totals.Waiting, 0),
		Deciding: spreadChart(view.Chart{
			ID: "deciding", Title: "Decision time",
			Note: "Of what people decided: from when it came or, if that was later, from when the same person decided the one before. When somebody opened a call is not recorded: they took this long at most. Like calls that are decided in one go take as long as all of them.",
		}, columns, deciding, totals.Deciding, approval.Fast),
		Skills:   shareChart("skill", found.Approvals.Skills, found, links),
		Tools:    shareChart("tool", found.Approvals.Tools, found, links),
		Rules:    shareChart("rule", found.Approvals.Rules, found, links),
		Errors:   errorChart(found, links),
		Hours:    hourChart(found),
		Deciders: deciderTable(found, links, names),
	}
}

// insightColumns are the parts of the window, with labels as close as there is room for them.
func insightColumns(found *figures.Insights, links callLinks) []view.Column {
	columns := make([]view.Column, len(found.Series))
	for i, s := range found.Series {
		c := &columns[i]
		c.URL = links.with(s.From, s.To, nil)
		switch found.Window.Bucket {
		case figures.Hourly:
			c.Name = moment(s.From)
			if hour := s.From.Hour(); hour == 0 {
				c.Label = s.From.Format("2 Jan")
			} else if hour%(3*(1+len(columns)/25)) == 0 {
				c.Label = s.From.Format("15:04")
			}
		case figures.Daily:
			c.Name = s.From.Format("Mon 2 Jan 2006")
			if len(columns) <= 9 {
				c.Label = s.From.Format("Mon 2")
			} else if i%(1+len(columns)/7) == 0 {
				c.Label = s.From.Format("2 Jan")
			}
		case figures.Weekly:
			c.Name = s.From.Format("2 Jan") + " to " + s.To.Add(-1).Format("2 Jan 2006")
			if i%(1+len(columns)/9) == 0 {
				c.Label = s.From.Format("2 Jan")
			}
		}
	}
	return columns
}

// outcome is what became of calls, as the chart sums it up.
type outcome struct {
	look     view.Look
	name     string
	statuses []call.Status
}

func outcomes() []outcome {
	return []outcome{
		{view.LookDone, "Done", []call.Status{call.Succeeded}},
		{view.LookFailed, "Failed", []call.Status{call.Failed}},
		{view.LookUnknown, "Unknown", []call.Status{call.Unknown}},
		{view.LookRejected, "Rejected", []call.Status{call.Rejected}},
		{view.LookExpired, "Expired", []call.Status{call.Expired}},
		{view.LookCancelled, "Cancelled", []call.Status{call.Cancelled}},
		{view.LookRefused, "Refused at once", []call.Status{call.Denied, call.Invalid}},
		{view.LookOpen, "On their way", []call.Status{call.NeedsConnection, call.Parked, call.Approved, call.Executing}},
	}
}

func (o *outcome) count(counts figures.Counts) int {
	n := 0
	for _, s := range o.statuses {
		n += counts[s]
	}
	return n
}

func outcomeChart(found *figures.Insights, columns []view.Column, links callLinks) *view.StackChart {
	var shown []outcome
	var kinds []view.Kind
	var says []string
	table := view.DataTable{Caption: "Calls by outcome, numbers", Head: []string{"When"}}
	for _, o := range outcomes() {
		n := o.count(found.Calls.ByStatus)
		if n == 0 {
			continue
		}
		shown = append(shown, o)
		kinds = append(kinds, view.Kind{Look: o.look, Name: o.name, Count: view.Number(n), URL: links.of(o.statuses...)})
		says = append(says, view.Number(n)+" "+strings.ToLower(o.name))
		table.Head = append(table.Head, o.name)
	}
	counts, named := make([][]int, len(columns)), make([]view.Column, len(columns))
	for i, s := range found.Series {
		row := view.DataRow{Name: columns[i].Name, URL: columns[i].URL}
		var parts []string
		for k := range shown {
			n := shown[k].count(s.Calls)
			counts[i] = append(counts[i], n)
			row.Cells = append(row.Cells, view.Number(n))
			if n > 0 {
				parts = append(parts, view.Number(n)+" "+strings.ToLower(shown[k].name))
			}
		}
		table.Rows = append(table.Rows, row)
		named[i] = columns[i]
		named[i].Name += ": " + orDash(strings.Join(parts, ", "))
	}
	return view.NewStackChart(view.Chart{
		ID: "outcomes", Title: "Calls by outcome", Table: table, Says: counted(found.Calls.ByStatus.Total(), "call", "calls") + ": " + strings.Join(says, ", ") + ".",
	}, kinds, named, counts)
}

// spreadChart is nil when nothing took any time.
func spreadChart(c view.Chart, columns []view.Column, spreads []approval.Spread, total approval.Spread, fast time.Duration) *view.SpreadChart {
	if total.Count == 0 {
		return nil
	}
	c.Says = fmt.Sprintf("Of %s, half took at most %s, and nine tenths at most %s.", view.Number(total.Count), lengthWords(total.P50), lengthWords(total.P90))
	c.Table = view.DataTable{Caption: c.Title + ", numbers", Head: []string{"When", "How many", "Half at most", "Nine tenths at most"}}
	shown, named := make([]*view.Spread, len(columns)), make([]view.Column, len(columns))
	for i, s := range spreads {
		cells := []string{view.Number(s.Count), spreadWords(s, s.P50), spreadWords(s, s.P90)}
		c.Table.Rows = append(c.Table.Rows, view.DataRow{Name: columns[i].Name, URL: columns[i].URL, Cells: cells})
		named[i] = columns[i]
		if s.Count > 0 {
			shown[i] = &view.Spread{P50: s.P50, P90: s.P90}
			named[i].Name += ": half at most " + cells[1] + ", nine tenths at most " + cells[2] + ", of " + cells[0]
		}
	}
	return view.NewSpreadChart(c, named, shown, fast)
}

const (
	barsShown = 10
	rowsShown = 100
)

// shareChart is nil when nothing was asked for.
func shareChart(by string, shares []approval.Share, found *figures.Insights, links callLinks) *view.BarChart {
	if len(shares) == 0 {
		return nil
	}
	title, looks := "Share approved, by "+by, []view.Look{view.LookDone, view.LookRejected}
	chart := &view.BarChart{Chart: view.Chart{
		ID: by + "s", Title: title, Note: "Of what people decided.",
		Table: view.DataTable{
			Caption: title + ", numbers",
			Head:    []string{strings.ToUpper(by[:1]) + by[1:], "Asked", "Approved", "Rejected", "Expired", "Cancelled", "Waiting", "Share approved"},
		},
	}}
	if len(shares) > barsShown {
		chart.Note = fmt.Sprintf("Of what people decided: the %d that were asked for most, of %d.", barsShown, len(shares))
	}
	approved, rejected := 0, 0
	for i := range shares {
		s := &shares[i]
		approved, rejected = approved+s.Approved, rejected+s.Rejected
		name, address := shareName(s, found, links)
		decided := counted(s.Decisions(), "decision", "decisions")
		if i < barsShown {
			bar := view.Bar{Name: name, URL: address, Value: "none decided", Says: name + ": none decided", Parts: view.Parts(s.Decisions(), looks, s.Approved, s.Rejected)}
			if s.Decisions() > 0 {
				bar.Value = percentOf(s.Approved, s.Decisions()) + " of " + view.Number(s.Decisions())
				bar.Says = name + ": " + percentOf(s.Approved, s.Decisions()) + " of " + decided + " approved"
			}
			chart.Bars = append(chart.Bars, bar)
		}
		if i < rowsShown {
			row := view.DataRow{Name: name, URL: address}
			for _, n := range []int{s.Asked, s.Approved, s.Rejected, s.Expired, s.Cancelled, s.Pending} {
				row.Cells = append(row.Cells, view.Number(n))
			}
			row.Cells = append(row.Cells, orDash(shareOf(s.Approved, s.Decisions(), "")))
			chart.Table.Rows = append(chart.Table.Rows, row)
		}
	}
	chart.Kinds = []view.Kind{
		{Look: view.LookDone, Name: "Approved", Count: view.Number(approved)}, {Look: view.LookRejected, Name: "Rejected", Count: view.Number(rejected)},
	}
	return chart
}

// shareName is what requests have in common, and the address of their calls.
func shareName(s *approval.Share, found *figures.Insights, links callLinks) (name, address string) {
	if s.Rule != "" {
		words := ruleWords(s.Rule)
		return strings.ToUpper(words[:1]) + words[1:], ""
	}
	skill := found.SkillNames[s.SkillID]
	if skill == "" {
		skill = s.SkillID.String()
	}
	also := url.Values{"skill": {s.SkillID.String()}}
	if s.Tool == "" {
		return skill, links.with(links.window.From, links.window.To, also)
	}
	also.Set("tool", s.Tool)
	return skill + ": " + s.Tool, links.with(links.window.From, links.window.To, also)
}

// errorKind names a kind of failure by the side that broke.
func errorKind(kind tool.FailureKind) string {
	switch kind {
	case tool.ToolError:
		return "Tool error"
	case tool.JSONRPCError:
		return "JSON-RPC error"
	case tool.TransportFailure:
		return "Transport"
	case tool.ProtocolFailure:
		return "Protocol"
	case tool.SessionInvalid:
		return "Session invalid"
	}
	return string(kind)
}

// errorChart is nil when nothing went wrong.
func errorChart(found *figures.Insights, links callLinks) *view.BarChart {
	chart := &view.BarChart{Chart: view.Chart{
		ID: "errors", Title: "Errors by kind", Note: "By the side that broke: the tool, the server, the way there, its answer, its session; or nobody knows.",
		Table: view.DataTable{Caption: "Errors by kind, numbers", Head: []string{"Kind", "Calls", "Of errors"}},
	}}
	unknown := found.Calls.ByStatus[call.Unknown]
	all := found.Calls.ByStatus[call.Failed] + unknown
	if all == 0 {
		return nil
	}
	add := func(name, address string, look view.Look, n int) {
		chart.Bars = append(chart.Bars, view.Bar{
			Name: name, URL: address, Value: view.Number(n), Says: name + ": " + view.Number(n) + " of " + view.Number(all),
			Parts: view.Parts(all, []view.Look{look}, n),
		})
		chart.Table.Rows = append(chart.Table.Rows, view.DataRow{Name: name, URL: address, Cells: []string{view.Number(n), percentOf(n, all)}})
	}
	for _, kind := range figures.FailureKinds() {
		add(errorKind(kind), "", view.LookFailed, found.Calls.Failures[kind])
	}
	add("Outcome unknown", links.some(unknown, call.Unknown), view.LookUnknown, unknown)
	return chart
}

func weekdays() [7]string { return [7]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"} }

func hourChart(found *figures.Insights) *view.HeatChart {
	chart := view.Chart{
		ID: "hours", Title: "Busiest hours", Note: "Calls by weekday and hour of UTC.",
		Table: view.DataTable{Caption: "Busiest hours, numbers", Head: []string{"Hour"}},
	}
	days := weekdays()
	chart.Table.Head = append(chart.Table.Head, days[:]...)
	most, when := 0, ""
	for hour := range 24 {
		row := view.DataRow{Name: fmt.Sprintf("%02d:00", hour)}
		for day := range 7 {
			n := found.Calls.Hours[day][hour]
			row.Cells = append(row.Cells, view.Number(n))
			if n > most {
				most, when = n, days[day]+" "+row.Name
			}
		}
		chart.Table.Rows = append(chart.Table.Rows, row)
	}
	chart.Says = "Most at " + when + ": " + counted(most, "call", "calls") + "."
	return view.NewHeatChart(chart, days, found.Calls.Hours)
}

// deciderTable is nil for those who may not see names.
func deciderTable(found *figures.Insights, links callLinks, names map[uuid.UUID]string) *view.DataTable {
	if names == nil || len(found.Approvals.Deciders) == 0 {
		return nil
	}
	table := &view.DataTable{Caption: "Decisions in under 3 s, by person", Head: []string{"Person", "Decisions", "In under 3 s", "Share"}}
	for _, d := range found.Approvals.Deciders {
		table.Rows = append(table.Rows, view.DataRow{
			Name: personName(d.PersonID, names), URL: links.within("person", d.PersonID.String()),
			Cells: []string{view.Number(d.Decisions), view.Number(d.Fast), orDash(shareOf(d.Fast, d.Decisions, ""))},
		})
	}
	return table
}
