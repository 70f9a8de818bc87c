// Package view owns the HTML that the dashboard's pages have in common: the layout, forms, and components that several audiences use.
// Templates get values that are ready to be shown and decide nothing. Text from outside reaches them as pieces of package hostile, or is
// shown through it.
package view

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// File is a file attached to a call. Name and Type are from outside.
type File struct {
	Name    string
	Type    string
	Bytes   int
	SHA256  string
	URL     string // of its content
	Dropped bool   // the reviewer left it out
	Deleted bool   // its content was deleted by age
}

// Resolver says who can connect the skill that a call or connection waits for.
type Resolver struct {
	State text.Message // a sentence of the catalog in place of the text of the service; zero: there is none
	Text  text.Message
	Owner string       // the only person who can, instead of Text
	URL   string       // where the reader can; empty: they cannot
	Label text.Message // of the link there
}

// Wait is a call that waits until its skill is connected.
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
	Waited    text.Message // the time until the decision
}

// Tab leads to a view of a page.
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
	URL   string       // of its calls
	Cells []text.Message
}

// MadeToken is a new token, whose secret is shown only once.
type MadeToken struct {
	Name   string
	Secret string
	URL    string // of the next page
	Ends   time.Time
}

// Page has the values that all pages need.
type Page struct {
	Notices      []Notice // shown on every page
	Done         *Notice  // the result of the form that led here; nil: none
	Title        text.Message
	Assets       Assets
	Theme        Theme
	Person       *Person // nil: not signed in
	Section      Section
	Pending      int // calls and plans that wait for a decision, shown in the title
	Now          time.Time
	RefreshAfter int    // seconds, for browsers without JavaScript; zero: never
	RefreshURL   string // of the page that takes the place of this one then; empty: the same
}

// Assets are the URLs of scripts, styles and images.
type Assets struct {
	CSS, JS, Push, HTMX, HTMXCSP, Mark, MarkWaiting, Icon string
}

// Level says how much attention something needs. Words and icons say it too, not only the color.
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
	Note  text.Message // the reason
}

// Countdown is the time left until a deadline.
type Countdown struct {
	Deadline time.Time
	Text     text.Message // when the page was made
	Urgent   bool
}

// Notice is a message at the top of a page.
type Notice struct {
	Level Level
	Title text.Message
	Text  text.Message
	Said  string       // from outside
	Draft string       // text that was typed but not sent
	URL   string       // of a page with more; empty: none
	Word  text.Message // of that link
	// Standing means that the notice is not about the reader's last action.
	Standing bool
}

// QueueChoices are a person's settings of the queue.
type QueueChoices struct {
	Advance bool // the next call opens after a decision
	Undo    bool // an approval can be taken back for some seconds
}

// Decision is a decision on an approval.
type Decision struct {
	Word  text.Message // approved, rejected, expired, cancelled
	By    string       // empty: no person
	Who   *Who         // identifies By; nil: not shown here
	Via   text.Message // the credential and the address; empty: unknown
	At    time.Time
	Note  string
	Level Level
	About string // the tool, if the decision is shown alone
}

// Who identifies a person by IDs that do not change.
type Who struct {
	ID, Issuer, Subject string
	Notes               []Badge // warnings about the name
}

// Tool is a tool's definition, as its server described it.
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
	URL  string       // of the page of the named object; empty: none
	Act  text.Message // the action of the key that leads there
}

// Option is one of several values to choose from.
type Option struct {
	Value  string
	Text   text.Message
	Chosen bool
}

// Use is an agent with a skill, or a skill of an agent.
type Use struct {
	Name   string
	URL    string
	Tools  text.Message
	Prefix text.Message // of tool names
	Change string       // URL; empty: the reader cannot change it
	Remove string       // URL; empty: the reader cannot remove it
}

// Removal is the second step of deleting something: it lists the consequences.
type Removal struct {
	Crumbs []Crumb
	Name   string
	URL    string // of the form
	Cancel string
	Users  []Use          // agents that use it
	Loses  []text.Message // other consequences
	Stays  text.Message   // the parts that are kept
}
