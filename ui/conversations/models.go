package conversations

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Conversations are a list of them.
type Conversations struct {
	Search   view.Search
	Live     []ConversationRow // with calls under way; on the first page only
	Rows     []ConversationRow
	Pages    view.Pages
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
	Calls     text.Message
	Talk      *view.Badge // where it stands, if Holdpoint runs it itself
}

// Count is how many there are of something.
type Count struct {
	N     string
	Badge view.Badge
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
	Status    view.Badge
	Counts    []Count
	Calls     text.Message
	CallsURL  string // its calls in the history
	Problems  []SkillProblem
	Catalogue []CatalogueSkill
	Tools     int
	Entries   []Entry
	Pages     view.Pages
	Facts     []view.Fact
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
	Status   view.Badge
	Skill    string
	Tool     string
	Decisive []hostile.Field
	More     int // arguments that are not shown
	Left     *view.Countdown
	Decision *view.Decision
	Outcome  text.Message
}
