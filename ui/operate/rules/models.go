package rules

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// List is the list of rules.
type List struct {
	Rows    []Row
	MayEdit bool
}

// Row is one rule in the list.
type Row struct {
	Name   string
	URL    string
	Scope  text.Message
	When   string       // on one line; empty: no condition
	Badges []view.Badge // its effect first
	At     time.Time    // of its last change
	By     string       // who made it; empty: unknown
}

// Rule is one rule with its versions.
type Rule struct {
	Name        string
	URL         string
	Notice      *view.Notice
	Badges      []view.Badge
	When        *hostile.Value // nil: no condition
	Deleted     bool
	MayEdit     bool
	Facts       []view.Fact
	Misfits     []Misfit
	MoreMisfits int       // that are left out
	Versions    []Version // the newest first
}

// Misfit is a tool that the condition of a rule does not fit.
type Misfit struct {
	Tool    text.Message
	Problem string
}

// Version is one version of a rule.
type Version struct {
	Revision string
	At       time.Time
	By       string       // empty: unknown
	Event    text.Message // zero: it was changed
	Diff     *hostile.Diff
	Restore  string // URL of the form with it; empty: none
}

// Checked is the result of a check of a condition.
type Checked struct {
	Problems []text.Message
	Verdict  text.Message // zero: there are problems
	Title    text.Message // of the fields
	Fields   []Field
	Open     bool // the fields are few
}

// Field is a value that a condition can read.
type Field struct {
	Path  string
	Type  string
	Tools text.Message // that have it
}
