package figures

import (
	"slices"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Insights is the page of figures.
type Insights struct {
	Filter  InsightFilter
	Range   text.Message // empty: there are no figures
	Before  text.Message // the period before, for comparison
	Tiles   []Tile
	Charts  Charts
	Tools   *ToolTable // nil: no tools
	Empty   bool
	Widen   *view.Tab // a longer range, if this one is empty; nil: none
	Trouble *view.Notice
}

// InsightFilter is the form that selects calls.
type InsightFilter struct {
	Action         string // the page's path
	Ranges         []view.Tab
	From, To       string // days
	Skill, Agent   string
	Skills, Agents []string // suggested names
	Tools          bool     // the form also selects a tool
	Tool, Sort     string
	Errors         []fault.Field
}

// IsInvalid reports whether a field is invalid.
func (f *InsightFilter) IsInvalid(field string) bool {
	return slices.ContainsFunc(f.Errors, func(e fault.Field) bool { return e.Name == field })
}

// Tile is a main number.
type Tile struct {
	Name   text.Message
	Value  text.Message
	URL    string // of its calls; empty: no page lists them
	Detail text.Message
	Change text.Message // since the period before
}

// Charts are the charts of the page; a chart without data is nil.
type Charts struct {
	Outcomes *StackChart
	Waiting  *SpreadChart
	Deciding *SpreadChart
	Hours    *HeatChart
	Skills   *BarChart
	Tools    *BarChart
	Rules    *BarChart
	Errors   *BarChart
	Deciders *view.DataTable // nil: no data, or the reader may not see it

	Unusual          *view.DataTable // decisions about unusual values
	UnusualReviewers *view.DataTable
}

// Chart holds the common parts of all charts.
type Chart struct {
	ID      string
	Title   text.Message
	Meaning text.Message // describes the picture to people who do not see it
	Note    text.Message // explains the numbers; may be empty
	Table   view.DataTable
}

// Look is a color and a pattern, the same in all charts.
type Look string

// The looks.
const (
	LookDone      Look = "done"
	LookFailed    Look = "failed"
	LookUnknown   Look = "unknown"
	LookRejected  Look = "rejected"
	LookExpired   Look = "expired"
	LookRefused   Look = "refused"
	LookCancelled Look = "cancelled"
	LookOpen      Look = "open"
)

// ListLooks returns all looks.
func ListLooks() []Look {
	return []Look{LookDone, LookFailed, LookUnknown, LookRejected, LookExpired, LookRefused, LookCancelled, LookOpen}
}

// Kind is an entry of a legend.
type Kind struct {
	Look  Look
	Name  text.Message
	Count text.Message
	URL   string
}
