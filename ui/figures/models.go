package figures

import (
	"github.com/holdpoint/holdpoint/ui/view"
)

// Insights is the page of figures.
type Insights struct {
	Filter  InsightFilter
	Range   string // in words; empty: there are no figures
	Before  string // the stretch that is compared with
	Tiles   []Tile
	Charts  Charts
	Tools   *ToolTable // nil: there is nothing to show
	Empty   bool
	Widen   *view.Tab // of an empty range: another one; nil: there is none
	Trouble *view.Notice
}

// InsightFilter is the form that selects what the figures are about.
type InsightFilter struct {
	Action         string // the page's path
	Ranges         []view.Tab
	From, To       string // days
	Skill, Agent   string
	Skills, Agents []string // to choose from
	Tools          bool     // it also selects a tool
	Tool, Sort     string
	Errors         []FieldError
}

// Wrong is what is wrong with a field; empty: nothing.
func (f *InsightFilter) Wrong(field string) string {
	for _, e := range f.Errors {
		if e.Field == field {
			return e.Text
		}
	}
	return ""
}

// FieldError says what is wrong with a field of a form.
type FieldError struct {
	Field, Text string
}

// Tile is a main number.
type Tile struct {
	Name   string
	Value  string
	URL    string // of the calls behind it; empty: there is no such page
	Detail string
	Change string // against the stretch before
}

// Charts are all charts of the page. Those of which there is nothing to show are nil.
type Charts struct {
	Outcomes *StackChart
	Waiting  *SpreadChart
	Deciding *SpreadChart
	Hours    *HeatChart
	Skills   *BarChart
	Tools    *BarChart
	Rules    *BarChart
	Errors   *BarChart
	Deciders *view.DataTable // nil: not for the reader
}

// Chart is what all charts have in common.
type Chart struct {
	ID    string
	Title string
	Says  string // what is to be seen, for those who do not see it
	Note  string // how the numbers come about; empty: nothing to say
	Table view.DataTable
}

// Look is how something is drawn in all charts: a colour and a pattern.
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

// Looks are all of them.
func Looks() []Look {
	return []Look{LookDone, LookFailed, LookUnknown, LookRejected, LookExpired, LookRefused, LookCancelled, LookOpen}
}

// Kind is an entry of a legend.
type Kind struct {
	Look  Look
	Name  string
	Count string
	URL   string
}
