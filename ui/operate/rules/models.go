package rules

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/present"
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
	Says   text.Message // the condition in words; zero: there is none
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
	Says        text.Message   // the condition in words
	Shadow      *Shadow        // nil: it is not in shadow mode
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

// Shadow is what a rule in shadow mode would have done, beside what people decided.
type Shadow struct {
	Since       time.Time
	Bounded     bool // older calls are left out
	Matched     int
	Failed      int
	Rows        []ShadowRow
	Rejected    []RuledCall // that it would have allowed
	AllRejected int
}

// ShadowRow has the calls with which a rule would have done the same.
type ShadowRow struct {
	Action text.Message
	Counts []text.Message // as the columns of the table
}

// RuledCall is a call in a list of calls that a rule matches.
type RuledCall struct {
	URL   string
	Call  string // its tool and skill
	Agent string
	At    time.Time

	// Of a replay.
	Was, WouldBe, Decision text.Message
	Failure                string
}

// Replay is the judgement of a rule on recorded calls.
type Replay struct {
	Judged   int
	Since    *time.Time // nil: none was judged
	Complete bool
	Matched  int
	Failed   int
	Differ   int
	Rejected int
	Calls    []RuledCall // that reviewers rejected first
}

// Checked is the result of a check of a condition.
type Checked struct {
	Problems  []text.Message
	Verdict   text.Message // zero: there are problems
	Says      text.Message // the condition in words; zero: there are problems
	Title     text.Message // of the fields
	Fields    []Field
	Open      bool // the fields are few
	Functions []present.FunctionHelp
}

// Field is a value that a condition can read.
type Field struct {
	Path   string
	Type   string
	Values []string     // that it can have, as a condition writes them; nil: any
	Tools  text.Message // that have it
}
