package skills

import (
	"iter"
	"time"

	"github.com/holdpoint/holdpoint/ui/operate/connections"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Skills is a page of skills.
type Skills struct {
	Rows    []SkillRow
	Next    string
	Newest  bool
	MayEdit bool
}

// SkillRow is one skill in the list.
type SkillRow struct {
	URL       string
	Name      string
	Address   string // of its server, or the program
	Health    view.Badge
	Team      string
	Tools     int // offered by its server
	Unsettled int // tools whose definition is neither accepted nor refused
	At        *time.Time
}

// Skill is one skill.
type Skill struct {
	URL         string
	Name        string
	Notice      *view.Notice
	Transport   text.Message
	Address     string // of its server, or the program
	Team        string
	EscalateTo  string
	Health      view.Badge
	At          *time.Time // of the last check of its server
	Error       string     // of that check; from outside
	MayEdit     bool
	Strip       Strip
	Connections []connections.Connection
	Tools       []ToolRow
	Unsettled   int
	Removed     int            // tools that the server no longer offers
	LeftOut     []view.Problem // reasons why tools cannot be offered
	Users       []view.Use
	Facts       []view.Fact
}

// ToolRow is a tool in the list of a skill.
type ToolRow struct {
	Name        string
	URL         string
	Badges      []view.Badge
	Description string // its beginning; from outside
	Changed     time.Time
}

// Strip shows the health of a skill's server over time as bars.
type Strip struct {
	Ranges   []view.Tab
	Label    text.Message // a summary
	Bars     []StripBar
	Troubles []Trouble
}

// StripBar is a span of time of a strip.
type StripBar struct {
	From      time.Time
	Succeeded int
	Failed    int
}

// Trouble is an error of the checks of a skill's server.
type Trouble struct {
	Kind  string
	Error string // from outside
	Times int
	First time.Time
	Last  time.Time
}

// SkillTool is one tool of a skill.
type SkillTool struct {
	SkillURL string
	Skill    string
	Name     string
	Notice   *view.Notice
	Badges   []view.Badge
	Words    text.Message // state of the definition
	Tool     *view.Tool
	Whole    *hostile.Pretty // the definition as its server sent it; nil: Diff is shown
	Diff     *hostile.Diff   // from the accepted definition
	Folded   bool            // a part of it is not shown
	WholeURL string
	Facts    []view.Fact
	Settle   *Settle   // nil: there is nothing to accept or refuse, or the reader is no operator
	Settings *ToolForm // nil: the reader cannot change them
}

// Settle accepts or refuses the definition on the page.
type Settle struct {
	Tool   string
	Pin    string
	Accept string       // URL; empty: not offered
	Refuse string       // URL; empty: not offered
	First  text.Message // why accepting is not offered
}

// ToolForm has an operator's settings of a tool.
type ToolForm struct {
	URL      string
	Tool     string
	Revision string // of the skill
	Ticks    ToolTicks
	Now      *ToolTicks  // the stored values, if another person changed them; nil: the same as Ticks
	Policy   view.Field  // the approval policy
	Select   *view.Field // of HTTP APIs
	Secrets  []SecretTick
}

// SecretTick is the box of an argument that the tool's schema declares as a secret.
type SecretTick struct {
	Path      string // JSON Pointer
	NotSecret bool
	Now       *bool // the stored value, if another person changed it; nil: the same as NotSecret
}

// ToolTicks are the boxes of a ToolForm.
type ToolTicks struct{ Enabled, HighRisk, Idempotent, Grants bool }

// hasChanged reports whether the stored value of a box differs from the form.
func (f ToolForm) hasChanged(of func(ToolTicks) bool) bool {
	return f.Now != nil && of(*f.Now) != of(f.Ticks)
}

func toolCheckNotes(f ToolForm, name string, of func(ToolTicks) bool) string {
	if f.hasChanged(of) {
		return name + "-now " + name + "-hint"
	}
	return name + "-hint"
}

func nowTicked(on bool) text.Message {
	if on {
		return text.SkillToolNowOn()
	}
	return text.SkillToolNowOff()
}

func enabledTick(t ToolTicks) bool { return t.Enabled }

func highRiskTick(t ToolTicks) bool { return t.HighRisk }

func idempotentTick(t ToolTicks) bool { return t.Idempotent }

func grantsTick(t ToolTicks) bool { return t.Grants }

// Probe is a running test of the connection to a skill's server.
type Probe struct {
	URL   string
	Skill string
	Steps iter.Seq[ProbeStep]
	// Connect returns the connections that the server asks for, once the steps have run.
	Connect func() []connections.Connection
}

// ProbeStep is a step of a probe.
type ProbeStep struct {
	Name   string
	Detail string // from outside
	Took   text.Message
	Error  string // from outside; empty: the step succeeded
}

func stepLevel(s ProbeStep) string {
	if s.Error != "" {
		return string(view.Danger)
	}
	return string(view.Good)
}
