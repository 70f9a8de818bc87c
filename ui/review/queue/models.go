package queue

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// PendingPlan is a plan that waits for a reviewer, in the queue.
type PendingPlan struct {
	ID, URL          string
	Count            text.Message // of its calls
	Title            string
	Agent, Principal string // Principal is empty if there is none
	Countdown        view.Countdown
}

// PendingQuestion is a question that waits for a reviewer, in the queue.
type PendingQuestion struct {
	ID, URL                       string
	Skill, Tool, Agent, Principal string
	Kind                          text.Message
	Countdown                     *view.Countdown
}

// AloneApproval is an approval that one person gave alone.
type AloneApproval struct {
	ID, URL     string
	Skill, Tool string
	By          string
	At          time.Time
	Reason      string // from outside
}

// Queue is the list of approvals that wait.
type Queue struct {
	Rows      []Row
	Waits     []view.Wait       // calls that wait for a connection; there is nothing to decide about them
	Plans     []PendingPlan     // lists of calls to come
	Asked     []PendingQuestion // questions of calls that were sent
	Alone     []AloneApproval   // that one person gave alone and nobody has reviewed
	Total     int               // rows that the filter selects
	All       int
	Own       int // rows of Total for the reader's teams
	HasTeams  bool
	Last      *view.Decision // nil: none yet
	LastURL   string
	Setup     []SetupStep // for operators while nothing is pending; nil: all is done
	MayDecide bool
	Advance   bool // the next call opens after a decision
	Views     []View
	ViewsURL  string // of the page that saves this list as a view
	Paused    bool   // without JavaScript: the page does not refresh itself
	Filter    QueueFilter
	Agents    []view.Option
	Skills    []view.Option
	Teams     []view.Option
	Orders    []view.Option
	URL       string // of this list
	First     bool   // the first page, which has the most urgent calls
	Next      string // URL of the next page; empty: none
}

// QueueFilter has the values that the reader chose; "" selects all.
type QueueFilter struct {
	Team, Agent, Skill string
	Mine               bool // only calls that the reader claimed or was assigned
	ByTool             bool // grouped by tool
}

// Any reports whether the reader chose a value that leaves calls out.
func (f QueueFilter) Any() bool { return f.Team+f.Agent+f.Skill != "" || f.Mine }

// View is a saved view of the queue.
type View struct {
	Name, URL string
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
	Risk      view.Badge
	Warnings  []view.Badge
	Decisive  []hostile.Field
	MoreArgs  int // arguments that the row does not show
	Countdown view.Countdown
	Own       bool // for a team of the reader
	Team      string
	teams     []string     // that the call was given to, for the limits of reviewers
	Viewers   []string     // other people who have the call open
	Holder    string       // the reviewer who works on it or is asked to; empty: none
	Assigned  bool         // Holder is asked to
	Progress  text.Message // of the approvals that its policies need; zero: it has none
	Voted     bool         // the reader has a vote on it
	Group     string       // set on the first row of a group
	Like      int          // calls of the list that differ only in their arguments; set on the first one
	Drawn     string       // HTML of [RowOf]; "": render it
}
