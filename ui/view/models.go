// Package view owns what the dashboard's pages look like as HTML. Its templates get
// display-ready values and decide nothing; text from outside reaches them as pieces of
// package hostile, or is shown through it.
package view

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Page is what all pages have in common.
type Page struct {
	Notices      []Notice // that every page shows the reader
	Title        string
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
	Word  string
	Icon  string
	Level Level
	Note  string // for whoever wants to know why
}

// Countdown is the time left until a deadline.
type Countdown struct {
	Deadline time.Time
	Text     string // at the time the page was made
	Urgent   bool
}

// Notice tells in plain words what a reader must know before anything else.
type Notice struct {
	Level Level
	Title string
	Text  string
	Said  string // from outside
	Draft string // what was typed and not sent: kept
	URL   string // of a message: where to read on; empty: nowhere
	Word  string // of that link
}

// Call is one call with everything that happened to it.
type Call struct {
	ID        string
	URL       string
	Digest    string // of its approval; empty: it has none
	Phase     string // its status, as the API names it
	Live      bool   // something will still happen
	State     string // differs when anything that is shown may; opaque
	Status    Badge
	Sentence  Sentence
	Countdown *Countdown
	Notice    *Notice
	Wait      *Wait // nil: it does not wait for a connection
	Questions []Question
	Warnings  []Notice
	Decision  *Decision
	Outcome   *Outcome
	Resolve   bool // an operator is asked what became of it
	MayCancel bool // an operator may end it
	Arguments Arguments
	Request   *Request // nil: there is nothing to tell but the arguments
	Files     []File
	Tool      *Tool
	Accepted  *Tool // the definition that was accepted before; nil: no other
	Offered   *Tool // how its server offers it since the call was made; nil: the same, or not at all
	Risk      Badge
	Actions   Actions
	Timing    *Timing // nil: nothing was measured
	Facts     []Fact

	Attention
	Rule            string // why it waits
	Record          Record
	Since           *Since // nil: no call like it was approved
	Like            int    // how many wait that differ in their arguments only, itself among them
	ConversationURL string // empty: none
	Led             *Led   // nil: nothing is known of what led to it
	AnswerURL       string // of the conversation that answers it; empty: it asks no agent, or none is known
	Editing         *Editing
	Edited          *Edited  // what an edit would make of it
	Sent            *Changed // what a reviewer changed of the agent's arguments; nil: nothing
}

// Sentence says who wants what.
type Sentence struct {
	Agent     string
	Verb      string // wants, wanted, called
	Skill     string
	Tool      string
	Principal string
	Asked     bool // the agent itself was asked: skill and tool are Holdpoint's own

	AgentID, SkillID, PrincipalID string // their ends: names may look alike
	PrincipalWho                  *Who   // nil: nobody, or it is not shown here
}

// Decision is what was decided, by whom and when.
type Decision struct {
	Word  string // approved, rejected, expired, cancelled
	By    string // empty: nobody
	Who   *Who   // of By; nil: it is not shown here
	Via   string // the credential and the address; empty: not known
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

// Outcome is what became of a call.
type Outcome struct {
	Level      Level
	Text       string // plain words
	Message    string // from outside: as hostile text
	Result     *hostile.Result
	Raw        *hostile.Value // a result that could not be read as one
	RawURL     string
	Late       *hostile.Pretty
	LateRaw    *hostile.Value
	Resolution *Decision
}

// Format is how arguments are shown.
type Format string

// The ways to show arguments.
const (
	FormatFields Format = "fields"
	FormatJSON   Format = "json"
	FormatRaw    Format = "raw"
)

// Arguments are shown in one of three formats.
type Arguments struct {
	Format   Format
	Fields   *hostile.Fields
	Pretty   *hostile.Pretty
	Raw      *hostile.Value
	Bytes    int
	Full     bool             // nothing is cut
	Folded   bool             // something is
	Fixed    bool             // there is no other way to show them
	URL      string           // of the page as it is
	WholeURL string           // the same page with nothing cut
	FoldURL  string           // the same page with long values cut
	TextURL  string           // the bytes as text/plain
	Mapped   bool             // they are not sent as they are, but in a request that is shown
	Nested   bool             // shown as JSON because it is too nested for fields
	Findings hostile.Findings // of the decoded values, whatever the format

	Secrets   int // values that are hidden until somebody asks
	Withheld  int // of them, those that have to be revealed before approving
	Revealed  bool
	RevealURL string
}

// Tool is a tool's definition, as its server gave it.
type Tool struct {
	Title       string
	Description *hostile.Value // nil: none
	Schema      *hostile.Pretty
	SchemaRaw   *hostile.Value
	Hints       []string // claimed by the server
	Pin         string
}

// Actions are what the reader may do about a call.
type Actions struct {
	Kind       ActionKind
	Why        string          // of ActionNone: why there is nothing to do; empty: nothing to say
	Draft      string          // what was typed before
	Target     []hostile.Field // what an approval in the second step acts on: the decisive arguments
	MoreTarget int             // arguments beside them
	Full       bool            // everything was shown; goes with the decision
	Format     Format          // to come back to
	Error      string          // what is missing in what was sent
	Question   string          // of ActionConfirm
	ProveURL   string          // of ActionConfirm: where to prove first, in another tab, who one is; empty: not needed
	Presets    []string
	MayExtend  bool
	MayRestore bool // the agent's arguments may be approved instead of the edit that waits
}

// ActionKind says which actions are offered.
type ActionKind string

// The kinds of actions.
const (
	ActionNone    ActionKind = ""
	ActionDecide  ActionKind = "decide"  // reject, or approve
	ActionStep    ActionKind = "step"    // reject, or go on to a second step
	ActionConfirm ActionKind = "confirm" // the second step
	ActionShowAll ActionKind = "showall" // reject, or see everything first
	ActionReveal  ActionKind = "reveal"  // reject, or have shown first what is hidden
	ActionEdit    ActionKind = "edit"    // the editor
	ActionOwnEdit ActionKind = "ownedit" // reject, or edit again: another reviewer approves the edit
)

// Fact is a detail with its name.
type Fact struct {
	Name string
	Text string
	Time *time.Time
	Code bool
	URL  string // of what it names; empty: it has no page
	Act  string // what a key does that leads there
}
