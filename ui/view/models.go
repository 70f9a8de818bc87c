// Package view owns what the dashboard's pages have in common as HTML: the layout, forms, and components that several
// audiences use. Templates get values that are ready to be shown and decide nothing; text from outside reaches them as pieces
// of package hostile, or is shown through it.
package view

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// File is what is attached to a call. Name and Type are from outside.
type File struct {
	Name    string
	Type    string
	Bytes   int
	SHA256  string
	URL     string // gives its content
	Dropped bool   // the reviewer left it out
}

// Resolver tells who can connect the skill that a call or connection waits for.
type Resolver struct {
	Text  text.Message
	Owner string       // the only person who can, instead of Text
	URL   string       // where the reader can; empty: they cannot
	Label text.Message // of the link there
}

// Wait is a call that waits for somebody to connect its skill.
type Wait struct {
	ID        string
	URL       string
	Skill     string
	Tool      string
	Agent     string
	Principal string
	Reason    string // from outside
	Who       Resolver
	Countdown *Countdown
}

// HistoryRow is one call.
type HistoryRow struct {
	URL       string
	Status    Badge
	Skill     string
	Tool      string
	Decisive  []hostile.Field
	Agent     string
	Principal string
	DecidedBy string
	At        time.Time
	Waited    text.Message // for a decision, in words
}

// Tab is one of several views of a page.
type Tab struct {
	Word    text.Message
	URL     string
	Current bool
}

// DataTable are the numbers of a chart.
type DataTable struct {
	Caption text.Message
	Head    []text.Message
	Rows    []DataRow
}

// DataRow is a row of numbers.
type DataRow struct {
	Name  text.Message // may be from outside
	URL   string       // of the calls behind it
	Cells []text.Message
}

// MadeToken is a token that was just made: its secret is shown this once.
type MadeToken struct {
	Name   string
	Secret string
	URL    string // where to go on
	Ends   time.Time
}

// Page is what all pages have in common.
type Page struct {
	Notices      []Notice // that every page shows the reader
	Title        text.Message
	Assets       Assets
	Theme        Theme
	Person       *Person // nil: nobody is signed in
	Section      Section
	Pending      int // approvals that wait; shown in the title
	Now          time.Time
	RefreshAfter int // seconds, for browsers without JavaScript; zero: not by itself
}

// Assets are the URLs of what pages load.
type Assets struct {
	CSS, JS, Push, HTMX, HTMXCSP, Mark, MarkWaiting string
}

// Level says how much attention something wants. Words and icons carry the
// same, colour only repeats it.
type Level string

// The levels of attention.
const (
	Quiet  Level = "quiet"
	Info   Level = "info"
	Good   Level = "good"
	Warn   Level = "warn"
	Danger Level = "danger"
)

// Badge is a word with an icon.
type Badge struct {
	Word  text.Message
	Icon  string
	Level Level
	Note  text.Message // for whoever wants to know why
}

// Countdown is the time left until a deadline.
type Countdown struct {
	Deadline time.Time
	Text     text.Message // at the time the page was made
	Urgent   bool
}

// Notice tells in plain words what a reader must know before anything else.
type Notice struct {
	Level Level
	Title text.Message
	Text  text.Message
	Said  string       // from outside
	Draft string       // what was typed and not sent: kept
	URL   string       // of a message: where to read on; empty: nowhere
	Word  text.Message // of that link
}

// Decision is what was decided, by whom and when.
type Decision struct {
	Word  text.Message // approved, rejected, expired, cancelled
	By    string       // empty: nobody
	Who   *Who         // of By; nil: it is not shown here
	Via   text.Message // the credential and the address; empty: not known
	At    time.Time
	Note  string
	Level Level
	About string // the tool, where the decision is shown alone
}

// Who is a person by what does not change, beside the name.
type Who struct {
	ID, Issuer, Subject string
	Notes               []Badge // what a reader has to know before believing the name
}

// Tool is a tool's definition, as its server gave it.
type Tool struct {
	Title       string
	Description *hostile.Value // nil: none
	Schema      *hostile.Pretty
	SchemaRaw   *hostile.Value
	Hints       []text.Message // claimed by the server
	Pin         string
}

// Fact is a detail with its name.
type Fact struct {
	Name text.Message
	Text text.Message
	Time *time.Time
	Code bool
	URL  string       // of what it names; empty: it has no page
	Act  text.Message // what a key does that leads there
}

// Option is one of several to choose from.
type Option struct {
	Value  string
	Text   text.Message
	Chosen bool
}

// Use is an agent that has a skill, or a skill that an agent has.
type Use struct {
	Name   string
	URL    string
	Tools  text.Message // in words
	Prefix text.Message // in words; empty: nothing to say
	Change string       // URL; empty: the reader cannot
	Remove string       // likewise
}

// Removal is the second step of deleting something: it lists the consequences.
type Removal struct {
	Crumbs []Crumb
	Name   string
	URL    string // where to send it
	Cancel string
	Users  []Use          // who has it
	Loses  []text.Message // other consequences
	Stays  text.Message   // what is kept
}
