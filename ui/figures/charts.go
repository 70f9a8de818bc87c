package figures

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

func presentCharts(found *figures.Insights, links callLinks, names map[uuid.UUID]string) Charts {
	columns := insightColumns(found, links)
	waiting, deciding := make([]approval.Spread, len(columns)), make([]approval.Spread, len(columns))
	for i, s := range found.Series {
		waiting[i], deciding[i] = s.Approvals.Waiting, s.Approvals.Deciding
	}
	totals := &found.Approvals.Totals
	return Charts{
		Outcomes: outcomeChart(found, columns, links),
		Waiting: presentSpread(Chart{
			ID: "waiting", Title: "Waiting time",
			Note: "From when a call was parked to the end of its waiting: a decision, its deadline, or that it was cancelled. Each step of the scale is several times the one before.",
		}, columns, waiting, totals.Waiting, 0),
		Deciding: presentSpread(Chart{
			ID: "deciding", Title: "Decision time",
			Note: "Of what people decided: from when it came or, if that was later, from when the same person decided the one before. When somebody opened a call is not recorded: they took this long at most. Like calls that are decided in one go take as long as all of them.",
		}, columns, deciding, totals.Deciding, approval.FastDecision),
		Skills:   shareChart("skill", found.Approvals.Skills, found, links),
		Tools:    shareChart("tool", found.Approvals.Tools, found, links),
		Rules:    shareChart("rule", found.Approvals.Rules, found, links),
		Errors:   errorChart(found, links),
		Hours:    hourChart(found),
		Deciders: deciderTable(found, links, names),
	}
}

// insightColumns are the parts of the window, with labels as close as there is room for them.
func insightColumns(found *figures.Insights, links callLinks) []Column {
	columns := make([]Column, len(found.Series))
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
	look     Look
	name     string
	statuses []call.Status
}

func outcomes() []outcome {
	return []outcome{
		{LookDone, "Done", []call.Status{call.Succeeded}},
		{LookFailed, "Failed", []call.Status{call.Failed}},
		{LookUnknown, "Unknown", []call.Status{call.Unknown}},
		{LookRejected, "Rejected", []call.Status{call.Rejected}},
		{LookExpired, "Expired", []call.Status{call.Expired}},
		{LookCancelled, "Cancelled", []call.Status{call.Cancelled}},
		{LookRefused, "Refused at once", []call.Status{call.Denied, call.Invalid}},
		{LookOpen, "On their way", []call.Status{call.NeedsConnection, call.Parked, call.Approved, call.Executing}},
	}
}

func (o *outcome) count(counts figures.Counts) int {
	n := 0
	for _, s := range o.statuses {
		n += counts[s]
	}
	return n
}

func outcomeChart(found *figures.Insights, columns []Column, links callLinks) *StackChart {
	var shown []outcome
	var kinds []Kind
	var says []string
	table := view.DataTable{Caption: text.Literal("Calls by outcome, numbers"), Head: literals("When")}
	for _, o := range outcomes() {
		n := o.count(found.Calls.ByStatus)
		if n == 0 {
			continue
		}
		shown = append(shown, o)
		kinds = append(kinds, Kind{Look: o.look, Name: o.name, Count: view.Thousands(n), URL: links.of(o.statuses...)})
		says = append(says, view.Thousands(n)+" "+strings.ToLower(o.name))
		table.Head = append(table.Head, text.Literal(o.name))
	}
	counts, named := make([][]int, len(columns)), make([]Column, len(columns))
	for i, s := range found.Series {
		row := view.DataRow{Name: text.Literal(columns[i].Name), URL: columns[i].URL}
		var parts []string
		for k := range shown {
			n := shown[k].count(s.Calls)
			counts[i] = append(counts[i], n)
			row.Cells = append(row.Cells, text.Number(n))
			if n > 0 {
				parts = append(parts, view.Thousands(n)+" "+strings.ToLower(shown[k].name))
			}
		}
		table.Rows = append(table.Rows, row)
		named[i] = columns[i]
		named[i].Name += ": " + orDash(strings.Join(parts, ", "))
	}
	return NewStackChart(Chart{
		ID: "outcomes", Title: "Calls by outcome", Table: table, Says: view.Plural(found.Calls.ByStatus.Total(), "call", "calls") + ": " + strings.Join(says, ", ") + ".",
	}, kinds, named, counts)
}

// presentSpread is nil when nothing took any time.
func presentSpread(c Chart, columns []Column, spreads []approval.Spread, total approval.Spread, fast time.Duration) *SpreadChart {
	if total.Count == 0 {
		return nil
	}
	c.Says = fmt.Sprintf("Of %s, half took at most %s, and nine tenths at most %s.", view.Thousands(total.Count), lengthWords(total.P50), lengthWords(total.P90))
	c.Table = view.DataTable{Caption: text.Literal(c.Title + ", numbers"), Head: literals("When", "How many", "Half at most", "Nine tenths at most")}
	shown, named := make([]*Spread, len(columns)), make([]Column, len(columns))
	for i, s := range spreads {
		cells := []string{view.Thousands(s.Count), spreadWords(s, s.P50), spreadWords(s, s.P90)}
		c.Table.Rows = append(c.Table.Rows, view.DataRow{Name: text.Literal(columns[i].Name), URL: columns[i].URL, Cells: literals(cells...)})
		named[i] = columns[i]
		if s.Count > 0 {
			shown[i] = &Spread{P50: s.P50, P90: s.P90}
			named[i].Name += ": half at most " + cells[1] + ", nine tenths at most " + cells[2] + ", of " + cells[0]
		}
	}
	return NewSpreadChart(c, named, shown, fast)
}

const (
	barsShown = 10
	rowsShown = 100
)

// shareChart is nil when nothing was asked for.
func shareChart(by string, shares []approval.Share, found *figures.Insights, links callLinks) *BarChart {
	if len(shares) == 0 {
		return nil
	}
	title, looks := "Share approved, by "+by, []Look{LookDone, LookRejected}
	chart := &BarChart{Chart: Chart{
		ID: by + "s", Title: title, Note: "Of what people decided.",
		Table: view.DataTable{
			Caption: text.Literal(title + ", numbers"),
			Head:    literals(strings.ToUpper(by[:1])+by[1:], "Asked", "Approved", "Rejected", "Expired", "Cancelled", "Waiting", "Share approved"),
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
		decided := view.Plural(s.Decisions(), "decision", "decisions")
		if i < barsShown {
			bar := Bar{Name: name, URL: address, Value: "none decided", Says: name + ": none decided", Parts: Parts(s.Decisions(), looks, s.Approved, s.Rejected)}
			if s.Decisions() > 0 {
				bar.Value = percentOf(s.Approved, s.Decisions()) + " of " + view.Thousands(s.Decisions())
				bar.Says = name + ": " + percentOf(s.Approved, s.Decisions()) + " of " + decided + " approved"
			}
			chart.Bars = append(chart.Bars, bar)
		}
		if i < rowsShown {
			row := view.DataRow{Name: text.Literal(name), URL: address}
			for _, n := range []int{s.Asked, s.Approved, s.Rejected, s.Expired, s.Cancelled, s.Pending} {
				row.Cells = append(row.Cells, text.Number(n))
			}
			row.Cells = append(row.Cells, text.Literal(orDash(shareOf(s.Approved, s.Decisions(), ""))))
			chart.Table.Rows = append(chart.Table.Rows, row)
		}
	}
	chart.Kinds = []Kind{
		{Look: LookDone, Name: "Approved", Count: view.Thousands(approved)}, {Look: LookRejected, Name: "Rejected", Count: view.Thousands(rejected)},
	}
	return chart
}

// shareName is what requests have in common, and the address of their calls.
func shareName(s *approval.Share, found *figures.Insights, links callLinks) (name, address string) {
	if s.Rule != "" {
		return present.DescribeRule(s.Rule).In(context.TODO()), ""
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
func errorChart(found *figures.Insights, links callLinks) *BarChart {
	chart := &BarChart{Chart: Chart{
		ID: "errors", Title: "Errors by kind", Note: "By the side that broke: the tool, the server, the way there, its answer, its session; or nobody knows.",
		Table: view.DataTable{Caption: text.Literal("Errors by kind, numbers"), Head: literals("Kind", "Calls", "Of errors")},
	}}
	unknown := found.Calls.ByStatus[call.Unknown]
	all := found.Calls.ByStatus[call.Failed] + unknown
	if all == 0 {
		return nil
	}
	add := func(name, address string, look Look, n int) {
		chart.Bars = append(chart.Bars, Bar{
			Name: name, URL: address, Value: view.Thousands(n), Says: name + ": " + view.Thousands(n) + " of " + view.Thousands(all),
			Parts: Parts(all, []Look{look}, n),
		})
		chart.Table.Rows = append(chart.Table.Rows, view.DataRow{Name: text.Literal(name), URL: address, Cells: literals(view.Thousands(n), percentOf(n, all))})
	}
	for _, kind := range figures.FailureKinds() {
		add(errorKind(kind), "", LookFailed, found.Calls.Failures[kind])
	}
	add("Outcome unknown", links.some(unknown, call.Unknown), LookUnknown, unknown)
	return chart
}

func weekdays() [7]string { return [7]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"} }

func hourChart(found *figures.Insights) *HeatChart {
	chart := Chart{
		ID: "hours", Title: "Busiest hours", Note: "Calls by weekday and hour of UTC.",
		Table: view.DataTable{Caption: text.Literal("Busiest hours, numbers"), Head: literals("Hour")},
	}
	days := weekdays()
	chart.Table.Head = append(chart.Table.Head, literals(days[:]...)...)
	most, when := 0, ""
	for hour := range 24 {
		at := fmt.Sprintf("%02d:00", hour)
		row := view.DataRow{Name: text.Literal(at)}
		for day := range 7 {
			n := found.Calls.Hours[day][hour]
			row.Cells = append(row.Cells, text.Number(n))
			if n > most {
				most, when = n, days[day]+" "+at
			}
		}
		chart.Table.Rows = append(chart.Table.Rows, row)
	}
	chart.Says = "Most at " + when + ": " + view.Plural(most, "call", "calls") + "."
	return NewHeatChart(chart, days, found.Calls.Hours)
}

// deciderTable is nil for those who may not see names.
func deciderTable(found *figures.Insights, links callLinks, names map[uuid.UUID]string) *view.DataTable {
	if names == nil || len(found.Approvals.Deciders) == 0 {
		return nil
	}
	table := &view.DataTable{Caption: text.Literal("Decisions in under 3 s, by person"), Head: literals("Person", "Decisions", "In under 3 s", "Share")}
	for _, d := range found.Approvals.Deciders {
		table.Rows = append(table.Rows, view.DataRow{
			Name: text.Literal(present.PersonName(d.PersonID, names)), URL: links.within("person", d.PersonID.String()),
			Cells: literals(view.Thousands(d.Decisions), view.Thousands(d.Fast), orDash(shareOf(d.Fast, d.Decisions, ""))),
		})
	}
	return table
}
