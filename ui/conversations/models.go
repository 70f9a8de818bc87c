package conversations

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Conversations is the list of conversations.
type Conversations struct {
	Search   view.Search
	Live     []ConversationRow // with open calls; only on the first page
	Rows     []ConversationRow
	Pages    view.Pages
	MayStart bool // the reader may start a conversation
}

// ConversationRow is one conversation.
type ConversationRow struct {
	ID        string // its end
	URL       string
	Title     string // from outside
	Name      string
	Agent     string
	Principal string
	Started   time.Time
	Last      *time.Time // of its last call
	Ended     bool
	Counts    []Count
	Calls     text.Message
	Talk      *view.Badge // its state, if Holdpoint runs it itself
}

// Count is the number of calls in a status.
type Count struct {
	N     string
	Badge view.Badge
}

// Conversation is a conversation with its entries.
type Conversation struct {
	ID        string
	URL       string // from which the page renews itself
	Poll      bool   // the conversation may still change
	Title     string // from outside
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
	Talk      *Talk // nil: another program holds it
}

// SkillProblem says why tools of a skill are missing.
type SkillProblem struct {
	Skill, Kind, Error string
}

// CatalogueSkill is a skill with its tools in the conversation.
type CatalogueSkill struct {
	Skill string
	Tools []string
	More  int // tools that the page leaves out
}

// Entry is an entry of a conversation. Each kind has its own field.
type Entry struct {
	Call *CallEntry

	// The other fields are for conversations that Holdpoint runs itself.
	ID    string // its number
	At    time.Time
	Said  *Said
	Reply *Reply
	Told  []Told  // the results that the model got
	News  *Remark // another event
	Fork  bool    // the reader may fork the conversation here
}

// CallEntry is a call in a conversation.
type CallEntry struct {
	ID       string
	URL      string
	At       time.Time
	Status   view.Badge
	Skill    string
	Tool     string
	Decisive []hostile.Field
	More     int // arguments that the entry leaves out
	Left     *view.Countdown
	Decision *view.Decision
	Outcome  text.Message
}
