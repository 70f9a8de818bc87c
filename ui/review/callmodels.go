package review

import (
	"time"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Record counts the decisions on a tool's calls in 30 days.
type Record struct {
	Approved, Edited, Rejected, Expired int
	Full                                bool // only the last [maxToolHistory] were counted
}

// maxToolHistory is here because templates import no services.
const maxToolHistory = approval.MaxToolHistory

// Edited are arguments to be sent instead of the agent's.
type Edited struct {
	Arguments   string // goes with the decision
	Fingerprint string // of them
	Diff        hostile.Diff
	Second      bool // another reviewer has to approve them
	Original    bool // they are the agent's, and discard the edit that waits
}

// Changed has a reviewer's changes to the agent's arguments.
type Changed struct {
	By    string     // empty: the one who decided
	Who   *view.Who  // of By
	At    *time.Time // nil: when the call was decided
	Own   bool       // the reader changed it
	Waits bool       // another reviewer has to approve it
	Diff  hostile.Diff
}

// Like are pending calls that differ only in their arguments.
type Like struct {
	URL      string // of the call that the reader came from
	Sentence Sentence
	Risk     view.Badge
	Alone    bool     // each is approved on its own page only
	Common   *Card    // arguments that all calls have; nil: none
	Columns  []string // the names of the other arguments; from outside
	Rows     []Alike
	Notices  []view.Notice
	Presets  []text.Message
	Draft    string
}

// Alike is one of several similar calls.
type Alike struct {
	ID         string
	URL        string
	Digest     string
	Cells      [][]CardRow // the values of each column; nil: too large
	More       int         // values that are in no cell
	Notes      []CardNote
	Alarms     []templ.Component // red warnings about objects and lists
	Alarming   bool              // a red warning: it is approved on its own page only
	Countdown  view.Countdown
	Viewers    []string
	Warning    text.Message
	MayApprove bool
	MayNot     bool // the reader may not decide about it at all
}
