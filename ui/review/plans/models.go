package plans

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// List is the list of plans.
type List struct {
	Rows []Row
	All  bool // also decided ones
}

// Row is one plan in a list.
type Row struct {
	URL      string
	Title    string
	Agent    string
	Person   string // on whose behalf; empty: nobody
	Count    text.Message
	Badge    view.Badge
	Deadline time.Time
}

// Plan is one plan.
type Plan struct {
	Row

	Digest  string
	Calls   []Call
	Facts   []view.Fact
	Decide  bool // the reader may decide
	Barred  *view.Notice
	Choices []view.Option // how long it lasts
	Revoke  bool
}

// Call is a call of a plan.
type Call struct {
	Index     int
	Tool      string // with its skill
	Note      string // the agent's
	Arguments hostile.Value
	Badge     view.Badge
	Reason    string // why it waits on its own; empty: it does not
	Struck    bool
	Strike    bool   // the reader may leave it out
	URL       string // of the call that was made; empty: none
}
