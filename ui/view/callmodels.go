package view

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Record is what was decided about a tool's calls in 30 days.
type Record struct {
	Approved, Edited, Rejected, Expired int
}

// none reports whether nothing was.
func (r Record) none() bool { return r.Approved+r.Rejected+r.Expired == 0 }

// Since compares a waiting call with the last approved one like it.
type Since struct {
	URL       string
	Decision  Decision
	Agent     string // of the call that was approved
	SameAgent bool
	SameTool  bool // the tool's definition is the same
	Diff      hostile.Diff
}

// Edited are arguments that are to be sent instead of those that a call was made with.
type Edited struct {
	Arguments   string // goes with the decision
	Fingerprint string // of them
	Diff        hostile.Diff
	Second      bool // another reviewer has to approve them
	Original    bool // they are the agent's, and discard the edit that waits
}

// Changed is what a reviewer changed of the agent's arguments.
type Changed struct {
	By    string     // empty: the one who decided
	Who   *Who       // of By
	At    *time.Time // nil: likewise
	Own   bool       // the reader changed it
	Waits bool       // another reviewer has to approve it
	Diff  hostile.Diff
}

// Editing is the editor on a call's arguments.
type Editing struct {
	Form     bool // there is a form for them
	Fields   []EditField
	JSON     string // of the other editor
	Problems []Problem
}

// Problem is what is wrong with something that was sent. Where is from outside.
type Problem struct {
	Where string
	Text  string
}

// EditField is one argument in the form. Name, Title, Description, Value and Options are from outside.
type EditField struct {
	ID          string
	SentID      string
	Name        string
	Kind        string
	Title       string
	Description string
	Value       string
	Required    bool
	Present     bool
	Options     []Option
}

// Like are calls that wait and differ in their arguments only.
type Like struct {
	URL      string // of the call that one came from
	Sentence Sentence
	Risk     Badge
	Alone    bool            // each is approved on its own page only
	Common   *hostile.Fields // what all have
	Rows     []Alike
	Notices  []Notice
	Presets  []string
	Draft    string
}

// Alike is one of them.
type Alike struct {
	ID         string
	URL        string
	Digest     string
	Own        *hostile.Fields // what the others do not have; nil: look at its page
	Countdown  Countdown
	Viewers    []string
	Warning    string
	MayApprove bool
	MayNot     bool // the reader may not decide about it at all
}

// Attention says whom a waiting call is for.
type Attention struct {
	Team       string
	EscalateTo string
	Escalated  *time.Time
	Alone      bool // nobody is known who may decide
	Viewers    []string
}

// File is what is attached to a call. Name and Type are from outside.
type File struct {
	Name    string
	Type    string
	Bytes   int
	SHA256  string
	URL     string // gives its content
	Dropped bool   // the reviewer left it out
}
