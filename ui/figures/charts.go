package figures

import (
	"net/url"
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
	columns := makeColumns(found, links)
	waiting, deciding := make([]approval.Spread, len(columns)), make([]approval.Spread, len(columns))
	for i, s := range found.Series {
		waiting[i], deciding[i] = s.Approvals.Waiting, s.Approvals.Deciding
	}
	totals := &found.Approvals.Totals
	return Charts{
		Outcomes: presentOutcomes(found, columns, links),
		Waiting:  presentSpread(Chart{ID: "waiting", Title: text.InsightWaitingTime(), Note: text.InsightWaitingNote()}, columns, waiting, totals.Waiting, 0),
		Deciding: presentSpread(Chart{ID: "deciding", Title: text.InsightDecisionTime(), Note: text.InsightDecisionNote()},
			columns, deciding, totals.Deciding, approval.FastDecision),
		Skills:   presentRates(Chart{ID: "skills", Title: text.InsightRateBySkill()}, text.InsightSkill(), found.Approvals.Skills, found, links),
		Tools:    presentRates(Chart{ID: "tools", Title: text.InsightRateByTool()}, text.InsightTool(), found.Approvals.Tools, found, links),
		Rules:    presentRates(Chart{ID: "rules", Title: text.InsightRateByRule()}, text.InsightRule(), found.Approvals.Rules, found, links),
		Errors:   presentErrorKinds(found, links),
		Hours:    presentHours(found),
		Deciders: presentDeciders(found, links, names),

		Unusual:          presentUnusual(&found.Approvals.Unusual),
		UnusualReviewers: presentUnusualReviewers(&found.Approvals.Unusual, links, names),
	}
}

// makeColumns returns the buckets of the window. As many have labels as there is room for.
func makeColumns(found *figures.Insights, links callLinks) []Column {
	columns := make([]Column, len(found.Series))
	for i, s := range found.Series {
		c := &columns[i]
		c.URL = links.linkPart(s.From, s.To, nil)
		switch found.Window.Bucket {
		case figures.Hourly:
			c.Name = formatTime(s.From)
			if hour := s.From.Hour(); hour == 0 {
				c.Label = text.Time(s.From, text.FormatDayMonth())
			} else if hour%(3*(1+len(columns)/25)) == 0 {
				c.Label = text.Time(s.From, text.FormatTimeOfDay())
			}
		case figures.Daily:
			c.Name = text.Time(s.From, text.FormatWeekdayDate())
			if len(columns) <= 9 {
				c.Label = text.Time(s.From, text.FormatWeekdayDay())
			} else if i%(1+len(columns)/7) == 0 {
				c.Label = text.Time(s.From, text.FormatDayMonth())
			}
		case figures.Weekly:
			c.Name = text.InsightDays(text.Time(s.From, text.FormatDayMonth()), text.Time(s.To.Add(-1), text.FormatDate()))
			if i%(1+len(columns)/9) == 0 {
				c.Label = text.Time(s.From, text.FormatDayMonth())
			}
		}
	}
	return columns
}

// outcome is a group of statuses that the charts show as one.
type outcome struct {
	look        Look
	name        text.Message
	formatCount func(int) text.Message
	statuses    []call.Status
}

func listOutcomes() []outcome {
	return []outcome{
		{LookDone, text.CallStatusDone(), text.InsightCountDone, []call.Status{call.Succeeded}},
		{LookFailed, text.CallStatusFailed(), text.InsightCountFailed, []call.Status{call.Failed}},
		{LookUnknown, text.InsightUnknown(), text.InsightCountUnknown, []call.Status{call.Unknown}},
		{LookRejected, text.CallStatusRejected(), text.InsightCountRejected, []call.Status{call.Rejected}},
		{LookExpired, text.CallStatusExpired(), text.InsightCountExpired, []call.Status{call.Expired}},
		{LookCancelled, text.CallStatusCancelled(), text.InsightCountCancelled, []call.Status{call.Cancelled}},
		{LookRefused, text.InsightNotAdmitted(), text.InsightCountNotAdmitted, []call.Status{call.Denied, call.Invalid}},
		{LookOpen, text.InsightInProgress(), text.InsightCountInProgress, []call.Status{call.NeedsConnection, call.Parked, call.Approved, call.Executing}},
	}
}

func (o *outcome) countCalls(counts figures.Counts) int {
	n := 0
	for _, s := range o.statuses {
		n += counts[s]
	}
	return n
}

// describeOutcomes lists the counts of outcomes, or returns a dash if there are no calls.
func describeOutcomes(counts figures.Counts) text.Message {
	var parts []text.Message
	for _, o := range listOutcomes() {
		if n := o.countCalls(counts); n > 0 {
			parts = append(parts, o.formatCount(n))
		}
	}
	if parts == nil {
		return text.Literal(dash)
	}
	return text.Join(", ", parts...)
}

func presentOutcomes(found *figures.Insights, columns []Column, links callLinks) *StackChart {
	chart := Chart{
		ID: "outcomes", Title: text.InsightOutcomeTitle(),
		Meaning: text.InsightOutcomeMeaning(found.Calls.ByStatus.Total(), describeOutcomes(found.Calls.ByStatus)),
	}
	chart.Table = view.DataTable{Caption: text.InsightNumbersOf(chart.Title), Head: []text.Message{text.InsightPeriod()}}
	var shown []outcome
	var kinds []Kind
	for _, o := range listOutcomes() {
		n := o.countCalls(found.Calls.ByStatus)
		if n == 0 {
			continue
		}
		shown = append(shown, o)
		kinds = append(kinds, Kind{Look: o.look, Name: o.name, Count: text.Number(n), URL: links.linkStatuses(n, o.statuses...)})
		chart.Table.Head = append(chart.Table.Head, o.name)
	}
	counts, named := make([][]int, len(columns)), make([]Column, len(columns))
	for i, s := range found.Series {
		row := view.DataRow{Name: columns[i].Name, URL: columns[i].URL}
		for k := range shown {
			n := shown[k].countCalls(s.Calls)
			counts[i] = append(counts[i], n)
			row.Cells = append(row.Cells, text.Number(n))
		}
		chart.Table.Rows = append(chart.Table.Rows, row)
		named[i] = columns[i]
		named[i].Name = text.InsightColumnMeaning(columns[i].Name, describeOutcomes(s.Calls))
	}
	return NewStackChart(chart, kinds, named, counts)
}

// presentSpread returns nil if nothing was measured.
func presentSpread(c Chart, columns []Column, spreads []approval.Spread, total approval.Spread, fast time.Duration) *SpreadChart {
	if total.Count == 0 {
		return nil
	}
	c.Meaning = text.InsightSpreadMeaning(total.Count, formatLength(total.P50), formatLength(total.P90))
	c.Table = view.DataTable{
		Caption: text.InsightNumbersOf(c.Title),
		Head:    []text.Message{text.InsightPeriod(), text.InsightCount(), text.InsightMedian(), text.InsightWithin90()},
	}
	shown, named := make([]*Spread, len(columns)), make([]Column, len(columns))
	for i, s := range spreads {
		p50, p90 := formatSpread(s, s.P50), formatSpread(s, s.P90)
		c.Table.Rows = append(c.Table.Rows, view.DataRow{
			Name: columns[i].Name, URL: columns[i].URL, Cells: []text.Message{text.Number(s.Count), p50, p90},
		})
		named[i] = columns[i]
		if s.Count > 0 {
			shown[i] = &Spread{P50: s.P50, P90: s.P90}
			named[i].Name = text.InsightSpreadColumn(columns[i].Name, p50, p90, s.Count)
		}
	}
	return NewSpreadChart(c, named, shown, fast)
}

const (
	barsShown = 10
	rowsShown = 100
)

// presentRates returns a chart of approval rates, or nil if there are no requests.
func presentRates(c Chart, by text.Message, shares []approval.Share, found *figures.Insights, links callLinks) *BarChart {
	if len(shares) == 0 {
		return nil
	}
	chart := &BarChart{Chart: c}
	chart.Note = text.InsightRateNote()
	if len(shares) > barsShown {
		chart.Note = text.InsightRateNoteFirst(barsShown, len(shares))
	}
	chart.Table = view.DataTable{Caption: text.InsightNumbersOf(c.Title), Head: []text.Message{
		by, text.InsightRequestsHead(), text.InsightApproved(), text.InsightRejected(), text.InsightExpired(), text.InsightCancelled(),
		text.InsightPending(), text.InsightRate(),
	}}
	approved, rejected := 0, 0
	for i := range shares {
		s := &shares[i]
		approved, rejected = approved+s.Approved, rejected+s.Rejected
		name, address := nameShare(s, found, links)
		if i < barsShown {
			chart.Bars = append(chart.Bars, makeRateBar(s, name, address))
		}
		if i < rowsShown {
			row := view.DataRow{Name: name, URL: address}
			for _, n := range []int{s.Asked, s.Approved, s.Rejected, s.Expired, s.Cancelled, s.Pending} {
				row.Cells = append(row.Cells, text.Number(n))
			}
			row.Cells = append(row.Cells, formatShare(s.Approved, s.Decisions()))
			chart.Table.Rows = append(chart.Table.Rows, row)
		}
	}
	chart.Kinds = []Kind{
		{Look: LookDone, Name: text.InsightApproved(), Count: text.Number(approved)}, {Look: LookRejected, Name: text.InsightRejected(), Count: text.Number(rejected)},
	}
	return chart
}

func makeRateBar(s *approval.Share, name text.Message, address string) Bar {
	bar := Bar{Name: name, URL: address, Value: text.InsightNoDecisions()}
	bar.Meaning = text.InsightColumnMeaning(name, bar.Value)
	if n := s.Decisions(); n > 0 {
		share := formatPercentage(s.Approved, n)
		bar.Value, bar.Meaning = text.InsightRateOf(share, n), text.InsightRateMeaning(name, share, n)
		bar.Parts = LayOutParts(n, []Look{LookDone, LookRejected}, s.Approved, s.Rejected)
	}
	return bar
}

// nameShare returns the rule, skill or tool of a share, and the address of its calls.
func nameShare(s *approval.Share, found *figures.Insights, links callLinks) (name text.Message, address string) {
	if s.Rule != "" {
		return present.DescribeRule(s.Rule), ""
	}
	more := url.Values{"skill": {s.SkillID.String()}}
	if s.Tool == "" {
		return text.Literal(nameSkill(found.SkillNames, s.SkillID)), links.linkCalls(more)
	}
	more.Set("tool", s.Tool)
	return nameTool(found.SkillNames, s.SkillID, s.Tool), links.linkCalls(more)
}

func nameErrorKind(kind tool.FailureKind) text.Message {
	switch kind {
	case tool.ToolError:
		return text.InsightToolError()
	case tool.JSONRPCError:
		return text.InsightJSONRPCError()
	case tool.TransportFailure:
		return text.InsightTransportError()
	case tool.ProtocolFailure:
		return text.InsightProtocolError()
	case tool.SessionInvalid:
		return text.InsightSessionError()
	}
	return text.Literal(string(kind))
}

// presentErrorKinds returns nil if there are no errors.
func presentErrorKinds(found *figures.Insights, links callLinks) *BarChart {
	unknown := found.Calls.ByStatus[call.Unknown]
	all := found.Calls.ByStatus[call.Failed] + unknown
	if all == 0 {
		return nil
	}
	chart := &BarChart{Chart: Chart{ID: "errors", Title: text.InsightErrorTitle(), Note: text.InsightErrorNote()}}
	chart.Table = makeShareTable(chart.Title, text.InsightErrorKind())
	for _, kind := range figures.FailureKinds() {
		chart.addShare(nameErrorKind(kind), "", LookFailed, found.Calls.Failures[kind], all)
	}
	chart.addShare(text.CallStatusUnknown(), links.linkStatuses(unknown, call.Unknown), LookUnknown, unknown, all)
	return chart
}

// makeShareTable returns an empty table of calls and shares by something.
func makeShareTable(title, by text.Message) view.DataTable {
	return view.DataTable{Caption: text.InsightNumbersOf(title), Head: []text.Message{by, text.InsightCalls(), text.InsightShare()}}
}

// addShare adds n of all calls to the table and, if there is room, as a bar.
func (c *BarChart) addShare(name text.Message, address string, look Look, n, all int) {
	if len(c.Bars) < barsShown {
		c.Bars = append(c.Bars, Bar{
			Name: name, URL: address, Value: text.Number(n), Meaning: text.InsightPartMeaning(name, n, all), Parts: LayOutParts(all, []Look{look}, n),
		})
	}
	c.Table.Rows = append(c.Table.Rows, view.DataRow{Name: name, URL: address, Cells: []text.Message{text.Number(n), formatPercentage(n, all)}})
}

func listWeekdays() [7]text.Message {
	return [7]text.Message{
		text.InsightMonday(), text.InsightTuesday(), text.InsightWednesday(), text.InsightThursday(), text.InsightFriday(), text.InsightSaturday(), text.InsightSunday(),
	}
}

func presentHours(found *figures.Insights) *HeatChart {
	chart := Chart{ID: "hours", Title: text.InsightHourTitle(), Note: text.InsightHourNote(found.Window.Zone())}
	days := listWeekdays()
	chart.Table = view.DataTable{Caption: text.InsightNumbersOf(chart.Title), Head: append([]text.Message{text.InsightHour()}, days[:]...)}
	most := 0
	for hour := range 24 {
		row := view.DataRow{Name: text.Literal(formatHour(hour))}
		for day := range 7 {
			n := found.Calls.Hours[day][hour]
			row.Cells = append(row.Cells, text.Number(n))
			if n > most {
				most, chart.Meaning = n, text.InsightHourMeaning(days[day], formatHour(hour), n)
			}
		}
		chart.Table.Rows = append(chart.Table.Rows, row)
	}
	return NewHeatChart(chart, days, found.Calls.Hours)
}

// presentDeciders returns nil for readers who may not see names.
func presentDeciders(found *figures.Insights, links callLinks, names map[uuid.UUID]string) *view.DataTable {
	if names == nil || len(found.Approvals.Deciders) == 0 {
		return nil
	}
	table := &view.DataTable{
		Caption: text.InsightDeciderTitle(),
		Head:    []text.Message{text.InsightPerson(), text.InsightDecisions(), text.InsightFastHead(), text.InsightShare()},
	}
	for _, d := range found.Approvals.Deciders {
		table.Rows = append(table.Rows, view.DataRow{
			Name: text.Literal(present.PersonName(d.PersonID, names)), URL: links.linkCalls(url.Values{"person": {d.PersonID.String()}}),
			Cells: []text.Message{text.Number(d.Decisions), text.Number(d.Fast), formatShare(d.Fast, d.Decisions)},
		})
	}
	return table
}

// presentUnusual presents the decisions about unusual values by their time on screen. It returns nil if there are none.
func presentUnusual(u *approval.Unusual) *view.DataTable {
	table := &view.DataTable{
		Caption: text.InsightUnusualTitle(), Head: []text.Message{text.InsightOnScreen(), text.InsightApproved(), text.InsightRejected()},
	}
	bounds, found := approval.UnusualBounds(), false
	for i, b := range u.Bands {
		found = found || b.Approved+b.Rejected > 0
		var name text.Message
		switch {
		case i == 0:
			name = text.InsightUnder(int(bounds[0].Seconds()))
		case i == len(bounds):
			name = text.InsightAtLeast(int(bounds[i-1].Seconds()))
		default:
			name = text.InsightBetween(int(bounds[i-1].Seconds()), int(bounds[i].Seconds()))
		}
		table.Rows = append(table.Rows, view.DataRow{Name: name, Cells: []text.Message{text.Number(b.Approved), text.Number(b.Rejected)}})
	}
	if !found {
		return nil
	}
	return table
}

// presentUnusualReviewers returns nil for readers who may not see names.
func presentUnusualReviewers(u *approval.Unusual, links callLinks, names map[uuid.UUID]string) *view.DataTable {
	if names == nil || len(u.Reviewers) == 0 {
		return nil
	}
	table := &view.DataTable{
		Caption: text.InsightUnusualReviewers(),
		Head: []text.Message{
			text.InsightPerson(), text.InsightDecisions(), text.InsightMedian(), text.InsightUnder(int(approval.UnusualBounds()[0].Seconds())),
		},
	}
	for _, r := range u.Reviewers {
		table.Rows = append(table.Rows, view.DataRow{
			Name: text.Literal(present.PersonName(r.PersonID, names)), URL: links.linkCalls(url.Values{"person": {r.PersonID.String()}}),
			Cells: []text.Message{text.Number(r.Decisions), formatLength(r.Median), formatShare(r.Hasty, r.Decisions)},
		})
	}
	return table
}
