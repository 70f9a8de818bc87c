package review

import (
	"strconv"
	"time"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Attention names the teams and viewers of a pending call.
type Attention struct {
	Team       string
	Escalation []Step
	Alone      bool           // no known reviewer may decide
	Shortages  []text.Message // why the present reviewers cannot meet the policies of the call
	Viewers    []string
}

// Step is a step of a call's escalation.
type Step struct {
	Who   string // from outside
	At    time.Time
	Taken bool
}

// Call is one call with everything that happened to it.
type Call struct {
	ID         string
	URL        string
	Digest     string // of its approval; empty: no approval
	Phase      string // its status, as the API names it
	Live       bool   // its status is not final
	State      string // changes whenever the page may; opaque
	Status     view.Badge
	Sentence   Sentence
	Countdown  *view.Countdown
	Notice     *view.Notice
	Wait       *view.Wait // nil: no wait for a connection
	Questions  []Question
	Warnings   []view.Notice
	Decision   *view.Decision
	Undo       *view.Countdown // the time that the reader has to take the approval back; nil: none
	Votes      *Votes          // nil: it has no policies
	Voted      bool            // the reader has a vote on the pending call
	BreakGlass *BreakGlass     // nil: the reader cannot approve it alone
	Glass      *Glass          // nil: nobody approved it alone
	Outcome    *Outcome
	Resolve    bool    // an operator is asked for the outcome
	MayCancel  bool    // the reader may cancel it
	Native     *Native // of a gate-only call: the claims of its caller
	Arguments  Arguments
	Request    *view.Request // nil: only the arguments are known
	Files      []view.File
	Tool       *view.Tool
	Accepted   *view.Tool // the definition that was accepted before; nil: no other
	Offered    *view.Tool // how its server offers it since the call was made; nil: the same, or not at all
	Risk       view.Badge
	Actions    Actions
	Timing     *Timing // nil: nothing was measured
	Facts      []view.Fact

	Attention
	Rule              text.Message // of the pending approval
	Rules             []AppliedRule
	Record            Record
	LikeGrantURL      string    // of the form that makes a grant from it; empty: the reader cannot
	PlanURL           string    // of the plan that let it pass; empty: none
	GrantURL          string    // of the grant that let it pass; empty: none
	Like              int       // pending calls that differ only in their arguments, this one included
	ConversationURL   string    // empty: none
	ConversationTitle string    // from outside; empty: it has no messages
	Led               *Led      // nil: not known
	AnswerURL         string    // of the conversation that answers it; empty: none is known
	Teamwork          *Teamwork // nil: no approval was needed
	NextURL           string    // of the next call, after a decision; empty: none
	Advance           bool      // NextURL opens by itself on a page without the queue
	Editing           *view.Editing
	Edited            *Edited  // the call with an edit
	Sent              *Changed // a reviewer's changes to the agent's arguments; nil: none
}

// Sentence names the agent, the tool and the person of a call.
type Sentence struct {
	Agent     string
	Form      func(agent, tool templ.Component) templ.Component // such as text.ReviewWants
	Skill     string
	Tool      string
	Principal string
	Asked     bool // the agent itself was asked: skill and tool are Holdpoint's own

	AgentID, SkillID, PrincipalID string    // their ends: names may look alike
	PrincipalWho                  *view.Who // nil: no person, or not shown here
}

// Outcome is the result of a call.
type Outcome struct {
	Level      view.Level
	Text       text.Message
	Message    string // from outside: as hostile text
	Result     *hostile.Result
	Raw        *hostile.Value // a result that could not be read as one
	RawURL     string
	Late       *hostile.Pretty
	LateRaw    *hostile.Value
	Resolution *view.Decision
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
	Card     *Card // Fields with the evidence about them; nil: it is not known
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
	Held     bool             // Holdpoint does not send them
	Mapped   bool             // they are sent within the request that the page shows
	Sent     bool             // they are being sent, or were sent
	Unsent   bool             // the call ended before they were sent
	Alarming bool             // a red warning: approving takes the second step
	Nested   bool             // shown as JSON because it is too nested for fields
	Findings hostile.Findings // in the decoded values, for every format

	Secrets   int  // values that are hidden until they are revealed
	Withheld  bool // they have to be revealed before approving
	Revealed  bool
	RevealURL string
}

// describeBytes says how many bytes there are, and whether they were sent.
func (a Arguments) describeBytes() text.Message {
	switch {
	case a.Held:
		return text.ReviewBytesHeld(a.Bytes)
	case a.Mapped:
		return text.ReviewBytesMapped(a.Bytes)
	case a.Sent:
		return text.ReviewBytesSent(a.Bytes)
	case a.Unsent:
		return text.ReviewBytesNotSent(a.Bytes)
	}
	return text.ReviewBytesToSend(a.Bytes)
}

// unusual returns the number of unusual arguments, for the button that approves.
func (a Arguments) unusual() string {
	if a.Card == nil {
		return "0"
	}
	return strconv.Itoa(a.Card.Unusual)
}

// Actions are the reader's options for a call.
type Actions struct {
	Kind       ActionKind
	Why        text.Message    // of ActionNone: why the reader cannot decide
	Draft      string          // of the reason
	Target     []hostile.Field // decisive arguments, shown in the second step
	MoreTarget int             // arguments beside them
	Full       bool            // everything was shown; goes with the decision
	Format     Format          // to come back to
	Error      text.Message    // of the form that was sent
	Question   text.Message    // of ActionConfirm
	ProveURL   string          // of ActionConfirm: the page for the sign-in that is needed first
	Presets    []text.Message
	Ballot     *Ballot // nil: the call has no policies
	MayExtend  bool
	MayEdit    bool // other arguments can be sent instead of the agent's
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
	ActionReveal  ActionKind = "reveal"  // reject, or reveal hidden values first
	ActionEdit    ActionKind = "edit"    // the editor
	ActionOwnEdit ActionKind = "ownedit" // reject, or edit again: another reviewer approves the edit
	ActionUnasked ActionKind = "unasked" // the same: the policies ask others
	ActionVoted   ActionKind = "voted"   // the same: the reader has voted
	ActionGlass   ActionKind = "glass"   // the second step of approving alone
)

// Led is the message before a call, and the reason that the model gave. Neither is checked.
type Led struct {
	By     string // who said the message; empty: the agent's client
	At     time.Time
	Said   *hostile.Value
	Reason *hostile.Value
	URL    string // of the reply in its conversation
}
