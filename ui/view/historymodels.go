package view

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Search is a form of criteria, which the address of its page holds.
type Search struct {
	URL     string     // of the page without criteria
	Text    *Criterion // the one that is always seen; nil: none
	Fields  []Criterion
	Choices []Box  // of one criterion that takes several
	Chosen  int    // criteria that are set
	Problem string // of the whole
}

// Invalid reports whether something of it cannot be read.
func (s Search) Invalid() bool {
	for _, f := range s.Fields {
		if f.Error != "" {
			return true
		}
	}
	return s.Text != nil && s.Text.Error != ""
}

// Criterion is what a search goes by.
type Criterion struct {
	Name    string // of the parameter
	Label   string
	Value   string
	Kind    string   // of input; empty: text
	Hint    string   // shown in an empty field
	Options []string // suggestions
	Error   string
}

// Box is a box to tick.
type Box struct {
	Name, Value string
	Badge       Badge
	Chosen      bool
}

// Pages lead through a long list.
type Pages struct {
	Newest   string     // URL; empty: this is the first page
	Older    string     // URL; empty: this is the last
	Searched *time.Time // how far back a search came that stopped before its end
}

// Link leads somewhere.
type Link struct {
	URL, Word string
}

// History is a page of calls.
type History struct {
	Search  Search
	Rows    []HistoryRow
	Pages   Pages
	Exports []Link
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
	Waited    string // for a decision, in words
}

// Conversations are a list of them.
type Conversations struct {
	Search   Search
	Live     []ConversationRow // with calls under way; on the first page only
	Rows     []ConversationRow
	Pages    Pages
	MayStart bool // a conversation with an agent that has a model
}

// ConversationRow is one conversation.
type ConversationRow struct {
	ID        string // its end, to tell it from others
	URL       string
	Name      string
	Agent     string
	Principal string
	Started   time.Time
	Last      *time.Time // when its last call was made
	Ended     bool
	Counts    []Count
	Calls     string
	Talk      *Badge // where it stands, if Holdpoint runs it itself
}

// Count is how many there are of something.
type Count struct {
	N     string
	Badge Badge
}

// Conversation is one run of an agent with what happened in it.
type Conversation struct {
	ID        string
	URL       string // of what is shown: it renews itself from there
	Poll      bool   // something may still happen
	Name      string
	Agent     string
	AgentID   string
	Principal string
	PersonID  string
	Status    Badge
	Counts    []Count
	Calls     string
	CallsURL  string // its calls in the history
	Problems  []SkillProblem
	Catalogue []CatalogueSkill
	Tools     int
	Entries   []Entry
	Pages     Pages
	Facts     []Fact
	Talk      *Talk // nil: its agent is somebody else's program
}

// SkillProblem tells why tools of a skill are missing.
type SkillProblem struct {
	Skill, Kind, Error string
}

// CatalogueSkill is a skill with the tools that the conversation got of it.
type CatalogueSkill struct {
	Skill string
	Tools []string
	More  int // tools that are not listed
}

// Entry is something that happened in a conversation. Each kind has its own field.
type Entry struct {
	Call *CallEntry

	// Of a conversation that Holdpoint runs itself:
	ID    string // its number
	At    time.Time
	Said  *Said
	Reply *Reply
	Told  []Told  // what the model was told of its calls
	News  *Remark // what happened besides
	Fork  bool    // the reader may begin another conversation with what was said up to here
}

// CallEntry is a call in its place.
type CallEntry struct {
	ID       string
	URL      string
	At       time.Time
	Status   Badge
	Skill    string
	Tool     string
	Decisive []hostile.Field
	More     int // arguments that are not shown
	Left     *Countdown
	Decision *Decision
	Outcome  string
}

// Audit is a page of events.
type Audit struct {
	Search Search
	Rows   []AuditRow
	Pages  Pages
	Export string
}

// AuditRow is one event.
type AuditRow struct {
	ID      string
	At      time.Time
	Action  string
	Actor   Party
	Via     string // the actor's credential and address; empty: not known
	Subject Party
	Data    *hostile.Pretty // nil: there is none
}

// Party is who did something, or what it was done to.
type Party struct {
	Kind        string // a word of our own
	Name        string // from outside; empty: not known
	ID          string // empty: none
	Short       string // its end
	URL         string // of its page; empty: it has none
	Events      string // URL of all events by it, or about it
	EventsLabel string
}
