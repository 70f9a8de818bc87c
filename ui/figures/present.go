package figures

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// presentInsights fills in the figures. Names are those of the people who decided; nil: the reader may not see them.
func presentInsights(page *Insights, found *figures.Insights, asked *insightRange, names map[uuid.UUID]string) {
	w := found.Window
	page.Range = "Calls made from " + moment(w.From) + " to " + moment(w.To) + ", by the " + string(w.Bucket) + ". All times are UTC."
	page.Before = "Before: the same length of time from " + moment(w.BeforeFrom) + " to " + moment(w.BeforeTo) + "."
	if asked.name == "" {
		page.Filter.From, page.Filter.To = w.From.Format(time.DateOnly), w.To.Add(-1).Format(time.DateOnly)
	}
	if found.Calls.ByStatus.Total() == 0 && found.Approvals.Totals.Asked == 0 {
		page.Empty = true
		for _, preset := range insightRanges() {
			if preset.length > w.To.Sub(w.From) {
				page.Widen = &view.Tab{Word: text.Literal("The last " + preset.words), URL: asked.url(preset.name)}
				break
			}
		}
		return
	}
	links := callLinks{window: w, skill: asked.skill, agent: asked.agent}
	page.Tiles = presentTiles(found, links)
	page.Charts = presentCharts(found, links, names)
}

func moment(t time.Time) string { return t.UTC().Format("Mon 2 Jan 2006, 15:04") }

// callLinks are addresses of the history, for the calls behind a number.
type callLinks struct {
	window       figures.Window
	skill, agent string
}

// of returns the address of the window's calls that have some statuses, or any.
func (l callLinks) of(statuses ...call.Status) string {
	return l.with(l.window.From, l.window.To, url.Values{"status": listed(statuses)})
}

// some is empty when there are none.
func (l callLinks) some(n int, statuses ...call.Status) string {
	if n == 0 {
		return ""
	}
	return l.of(statuses...)
}

func (l callLinks) with(from, to time.Time, also url.Values) string {
	values := url.Values{
		"from": {from.Format(time.RFC3339)}, "to": {to.Format(time.RFC3339)}, "skill": {l.skill}, "agent": {l.agent},
	}
	maps.Copy(values, also)
	for key := range values {
		if values.Get(key) == "" {
			values.Del(key)
		}
	}
	return "/calls?" + values.Encode()
}

// within returns the address of a part of the window's calls.
func (l callLinks) within(key, value string) string {
	return l.with(l.window.From, l.window.To, url.Values{key: {value}})
}

func listed(statuses []call.Status) []string {
	list := make([]string, len(statuses))
	for i, s := range statuses {
		list[i] = string(s)
	}
	return list
}

func presentTiles(found *figures.Insights, links callLinks) []Tile {
	now, before := found.Calls.ByStatus, found.CallsBefore.ByStatus
	a, b := &found.Approvals.Totals, &found.ApprovalsBefore
	wrong, wrongBefore := now[call.Failed]+now[call.Unknown], before[call.Failed]+before[call.Unknown]
	return []Tile{
		{Name: "Calls", Value: view.Thousands(now.Total()), URL: links.of(), Change: changeOf(now.Total(), before.Total())},
		{
			Name: "Asked for approval", Value: view.Thousands(a.Asked), Detail: shareOf(a.Asked, now.Total(), "of calls"),
			Change: changeOf(a.Asked, b.Asked),
		},
		{
			Name: "Approved", Value: orDash(shareOf(a.Approved, a.Decisions(), "")), Detail: "of " + view.Plural(a.Decisions(), "decision", "decisions"),
			Change: shareBefore(b.Approved, b.Decisions()),
		},
		{
			Name: "Waiting", Value: spreadWords(a.Waiting, a.Waiting.P50), Detail: "half; nine in ten within " + spreadWords(a.Waiting, a.Waiting.P90),
			Change: spreadBefore(b.Waiting),
		},
		{
			Name: "Deciding", Value: spreadWords(a.Deciding, a.Deciding.P50), Detail: "half; nine in ten within " + spreadWords(a.Deciding, a.Deciding.P90),
			Change: spreadBefore(b.Deciding),
		},
		{
			Name: "Decided in under 3 s", Value: view.Thousands(a.Fast), Detail: shareOf(a.Fast, a.Decisions(), "of decisions"),
			Change: changeOf(a.Fast, b.Fast),
		},
		{
			Name: "Expired", Value: view.Thousands(a.Expired), URL: links.some(a.Expired, call.Expired), Detail: shareOf(a.Expired, a.Asked, "of what was asked"),
			Change: changeOf(a.Expired, b.Expired),
		},
		{
			Name: "Failed or unknown", Value: view.Thousands(wrong), URL: links.some(wrong, call.Failed, call.Unknown),
			Detail: shareOf(wrong, now.Total(), "of calls"), Change: changeOf(wrong, wrongBefore),
		},
	}
}

// shareOf writes a share; it is empty when there is nothing to have a share of.
func shareOf(part, whole int, of string) string {
	if whole == 0 {
		return ""
	}
	return strings.TrimSpace(percentOf(part, whole) + " " + of)
}

// percentOf rounds, but never to nothing or all.
func percentOf(part, whole int) string {
	hundredths := (200*part + whole) / (2 * whole)
	switch {
	case part > 0 && hundredths == 0:
		return "under 1 %"
	case part < whole && hundredths == 100:
		return "over 99 %"
	}
	return fmt.Sprintf("%d %%", hundredths)
}

func changeOf(now, before int) string {
	switch {
	case before == 0:
		return "none before"
	case now == before:
		return "as many before"
	case now >= 10*before:
		return view.Thousands(before) + " before"
	case now > before:
		return view.Thousands(before) + " before: +" + percentOf(now-before, before)
	}
	return view.Thousands(before) + " before: \u2212" + percentOf(before-now, before)
}

func shareBefore(part, whole int) string {
	if whole == 0 {
		return "none before"
	}
	return percentOf(part, whole) + " before"
}

func spreadBefore(s approval.Spread) string {
	if s.Count == 0 {
		return "none before"
	}
	return lengthWords(s.P50) + " and " + lengthWords(s.P90) + " before"
}

const none = "\u2013"

func orDash(text string) string {
	if text == "" {
		return none
	}
	return text
}

func spreadWords(s approval.Spread, length time.Duration) string {
	if s.Count == 0 {
		return none
	}
	return lengthWords(length)
}

// lengthWords is a length of time with two digits or units.
func lengthWords(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return present.FormatDuration(d.Round(time.Second)).In(context.TODO())
}

// literals wraps texts until they come from the catalog.
func literals(words ...string) []text.Message {
	list := make([]text.Message, len(words))
	for i, word := range words {
		list[i] = text.Literal(word)
	}
	return list
}
