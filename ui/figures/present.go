package figures

import (
	"maps"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// presentInsights fills in the figures. names are those of the deciders, or nil if the reader may not see them.
func presentInsights(page *Insights, found *figures.Insights, asked *insightRange, names map[uuid.UUID]string) {
	w := found.Window
	describe := map[figures.BucketLength]func(from, to text.Message, zone string) text.Message{
		figures.Hourly: text.InsightHourly, figures.Daily: text.InsightDaily, figures.Weekly: text.InsightWeekly,
	}[w.Bucket]
	page.Range, page.Before = describe(formatTime(w.From), formatTime(w.To), w.Zone()), text.InsightCompared(formatTime(w.BeforeFrom), formatTime(w.BeforeTo))
	if asked.name == "" {
		page.Filter.From, page.Filter.To = w.From.Format(time.DateOnly), w.To.Add(-1).Format(time.DateOnly)
	}
	if found.Calls.ByStatus.Total() == 0 && found.Approvals.Totals.Asked == 0 {
		page.Empty = true
		for _, preset := range listPresets() {
			if time.Duration(preset.days)*24*time.Hour > w.To.Sub(w.From) {
				page.Widen = &view.Tab{Word: preset.label, URL: asked.makeURL(preset.name)}
				break
			}
		}
		return
	}
	links := callLinks{window: w, skill: asked.skill, agent: asked.agent}
	page.Tiles = presentTiles(found, links)
	page.Charts = presentCharts(found, links, names)
}

func formatTime(t time.Time) text.Message { return text.Time(t, text.FormatWeekdayMinute()) }

// callLinks makes addresses of the history, for the calls of a number.
type callLinks struct {
	window       figures.Window
	skill, agent string
}

// linkCalls returns the address of the window's calls that match more criteria.
func (l callLinks) linkCalls(more url.Values) string {
	return l.linkPart(l.window.From, l.window.To, more)
}

// linkStatuses returns the address of n calls in some statuses, or "" if n is zero.
func (l callLinks) linkStatuses(n int, statuses ...call.Status) string {
	if n == 0 {
		return ""
	}
	more := url.Values{}
	for _, s := range statuses {
		more.Add("status", string(s))
	}
	return l.linkCalls(more)
}

// linkPart returns the address of the calls in a part of the window.
func (l callLinks) linkPart(from, to time.Time, more url.Values) string {
	values := url.Values{
		"from": {from.Format(time.RFC3339)}, "to": {to.Format(time.RFC3339)}, "skill": {l.skill}, "agent": {l.agent},
	}
	maps.Copy(values, more)
	maps.DeleteFunc(values, func(key string, _ []string) bool { return values.Get(key) == "" })
	return "/calls?" + values.Encode()
}

func presentTiles(found *figures.Insights, links callLinks) []Tile {
	now, before := found.Calls.ByStatus, found.CallsBefore.ByStatus
	a, b := &found.Approvals.Totals, &found.ApprovalsBefore
	wrong, wrongBefore := now[call.Failed]+now[call.Unknown], before[call.Failed]+before[call.Unknown]
	return []Tile{
		{Name: text.InsightCalls(), Value: text.Number(now.Total()), URL: links.linkCalls(nil), Change: compareCounts(now.Total(), before.Total())},
		{
			Name: text.InsightRequests(), Value: text.Number(a.Asked), Detail: describeShare(a.Asked, now.Total(), text.InsightOfCalls),
			Change: compareCounts(a.Asked, b.Asked),
		},
		{
			Name: text.InsightApproved(), Value: formatShare(a.Approved, a.Decisions()), Detail: text.InsightOfDecisionCount(a.Decisions()),
			Change: describeShareBefore(b.Approved, b.Decisions()),
		},
		presentSpreadTile(text.InsightWaitingTime(), a.Waiting, b.Waiting),
		presentSpreadTile(text.InsightDecisionTime(), a.Deciding, b.Deciding),
		{
			Name: text.InsightFast(), Value: text.Number(a.Fast), Detail: describeShare(a.Fast, a.Decisions(), text.InsightOfDecisions),
			Change: compareCounts(a.Fast, b.Fast),
		},
		{
			Name: text.InsightExpired(), Value: text.Number(a.Expired), URL: links.linkStatuses(a.Expired, call.Expired),
			Detail: describeShare(a.Expired, a.Asked, text.InsightOfRequests), Change: compareCounts(a.Expired, b.Expired),
		},
		{
			Name: text.InsightFailedOrUnknown(), Value: text.Number(wrong), URL: links.linkStatuses(wrong, call.Failed, call.Unknown),
			Detail: describeShare(wrong, now.Total(), text.InsightOfCalls), Change: compareCounts(wrong, wrongBefore),
		},
	}
}

func presentSpreadTile(name text.Message, now, before approval.Spread) Tile {
	tile := Tile{Name: name, Value: formatSpread(now, now.P50), Change: text.InsightBeforeNone()}
	if now.Count > 0 {
		tile.Detail = text.InsightSpread(formatLength(now.P90))
	}
	if before.Count > 0 {
		tile.Change = text.InsightBeforeSpread(formatLength(before.P50), formatLength(before.P90))
	}
	return tile
}

// describeShare returns a share in words, or no text if whole is zero.
func describeShare(part, whole int, describe func(share text.Message) text.Message) text.Message {
	if whole == 0 {
		return text.Message{}
	}
	return describe(formatPercentage(part, whole))
}

// formatShare returns a percentage, or a dash if whole is zero.
func formatShare(part, whole int) text.Message {
	if whole == 0 {
		return text.Literal(dash)
	}
	return formatPercentage(part, whole)
}

// formatPercentage rounds a share, but never to 0 or 100 %.
func formatPercentage(part, whole int) text.Message {
	percent := (200*part + whole) / (2 * whole)
	switch {
	case part > 0 && percent == 0:
		return text.InsightPercentTiny()
	case part < whole && percent == 100:
		return text.InsightPercentHuge()
	}
	return text.InsightPercent(percent)
}

// compareCounts compares a count with that of the period before.
func compareCounts(now, before int) text.Message {
	switch {
	case before == 0, now >= 10*before:
		return text.InsightBefore(text.Number(before))
	case now == before:
		return text.InsightBeforeSame()
	case now > before:
		return text.InsightBeforeUp(before, formatPercentage(now-before, before))
	}
	return text.InsightBeforeDown(before, formatPercentage(before-now, before))
}

func describeShareBefore(part, whole int) text.Message {
	if whole == 0 {
		return text.InsightBeforeNone()
	}
	return text.InsightBefore(formatPercentage(part, whole))
}

const dash = "\u2013" // no data

func formatSpread(s approval.Spread, length time.Duration) text.Message {
	if s.Count == 0 {
		return text.Literal(dash)
	}
	return formatLength(length)
}

// formatLength returns a duration with two significant digits or units.
func formatLength(d time.Duration) text.Message {
	if d < 10*time.Second {
		return text.MeasureShortSeconds(text.Decimal(d.Seconds(), 1))
	}
	return present.FormatDuration(d.Round(time.Second))
}
