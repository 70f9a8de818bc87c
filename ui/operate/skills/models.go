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
	Tools     int // that its server offers
	Unsettled int // of which nobody accepted or refused the definition
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
	At          *time.Time // when its server was asked last
	Error       string     // what it said then; from outside
	MayEdit     bool
	Strip       Strip
	Connections []connections.Connection
	Tools       []ToolRow
	Unsettled   int
	Removed     int            // tools that the server offered once
	LeftOut     []view.Problem // tools that cannot be offered, and why
	Users       []view.Use
	Facts       []view.Fact
}

// ToolRow is a tool in the list of a skill.
type ToolRow struct {
	Name        string
	URL         string
	Badges      []view.Badge
	Description string // the beginning of it; from outside
	Changed     time.Time
}

// Strip is how a skill's server answered over time, as bars.
type Strip struct {
	Ranges   []view.Tab
	Label    text.Message // all of it in words
	Bars     []StripBar
	Troubles []Trouble
}

// StripBar is a span of time of a strip.
type StripBar struct {
	From      time.Time
	Succeeded int
	Failed    int
}

// Trouble is a way in which a skill's server could not be asked.
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
	Whole    *hostile.Pretty // the definition as its server sent it; nil: it is shown as a difference
	Diff     *hostile.Diff   // to the definition that was accepted
	Folded   bool            // not all of that is shown
	WholeURL string
	Facts    []view.Fact
	Settle   *Settle   // nil: there is nothing to accept or refuse, or the reader cannot
	Settings *ToolForm // nil: the reader cannot change them
}

// Settle accepts or refuses the definition that is on the page.
type Settle struct {
	Tool   string
	Pin    string
	Accept string       // URL; empty: not offered
	Refuse string       // likewise
	First  text.Message // why accepting is not offered
}

// ToolForm is what operators say of a tool.
type ToolForm struct {
	URL      string
	Tool     string
	Revision string // of the skill
	Ticks    ToolTicks
	Now      *ToolTicks  // how it is, where somebody else changed it; nil: as Ticks say
	Select   *view.Field // of HTTP APIs
}

// ToolTicks are the boxes of a ToolForm.
type ToolTicks struct{ Enabled, HighRisk, Idempotent bool }

// differs reports whether one of the boxes is ticked now and not in the form, or the other way around.
func (f ToolForm) differs(of func(ToolTicks) bool) bool {
	return f.Now != nil && of(*f.Now) != of(f.Ticks)
}

func toolCheckNotes(f ToolForm, name string, of func(ToolTicks) bool) string {
	if f.differs(of) {
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

// Probe is a test of the connection to a skill's server, while it is made.
type Probe struct {
	URL   string
	Skill string
	Steps iter.Seq[ProbeStep]
}

// ProbeStep is one step of it.
type ProbeStep struct {
	Name   string
	Detail string // from outside
	Took   string
	Error  string // likewise; empty: the step succeeded
}

func stepLevel(s ProbeStep) string {
	if s.Error != "" {
		return string(view.Danger)
	}
	return string(view.Good)
}
