package view

import "github.com/holdpoint/holdpoint/ui/view/hostile"

// Queue is the list of approvals that wait.
type Queue struct {
	Rows      []Row
	Waits     []Wait            // calls that wait for a connection, which nobody decides about
	Asked     []PendingQuestion // of calls on their way
	Total     int               // that the filter selects
	All       int
	Own       int // of Total, those that the reader's teams are asked about
	HasTeams  bool
	Last      *Decision // the latest one; nil: none yet
	LastURL   string
	MayDecide bool
	Paused    bool // without JavaScript: the page does not renew itself
	Filter    QueueFilter
	Agents    []Option
	Skills    []Option
	Teams     []Option
	URL       string // of this list
	First     bool   // it begins with the most urgent
	Next      string // URL of the next page; empty: none
}

// QueueFilter is what was chosen to be shown; empty fields choose all.
type QueueFilter struct {
	Team, Agent, Skill string
}

// Any reports whether something was chosen.
func (f QueueFilter) Any() bool { return f != QueueFilter{} }

// Option is one of several to choose from.
type Option struct {
	Value  string
	Text   string
	Chosen bool
}

// Row is one waiting approval.
type Row struct {
	ID        string
	URL       string
	Digest    string
	Skill     string
	Tool      string
	Agent     string
	Principal string
	Risk      Badge
	Warnings  []Badge
	Decisive  []hostile.Field
	MoreArgs  int // arguments that the row does not show
	Countdown Countdown
	Own       bool // a team of the reader's is asked
	Team      string
	Viewers   []string // who else has it on the screen
	Like      int      // how many calls of the list differ in their arguments only; said on the first of them
	Drawn     string   // the row as [RowOf] drew it; empty: it is to be drawn
}
