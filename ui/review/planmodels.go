package review

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// PlanList is the list of plans.
type PlanList struct {
	Rows []PlanRow
	All  bool // also decided ones
}

// PlanRow is one plan in a list.
type PlanRow struct {
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
	PlanRow

	Digest     string
	Calls      []PlanCall
	Facts      []view.Fact
	MayDecide  bool
	MayApprove bool // it covers a call that the reader can approve here
	Barred     text.Message
	Choices    []view.Option // how long it lasts
	MayRevoke  bool
}

// PlanCall is a call of a plan.
type PlanCall struct {
	Index     int
	Tool      string // with its skill
	Note      string // the agent's
	Risk      view.Badge
	Arguments Arguments
	Warning   text.Message
	Badge     view.Badge
	Reason    string // why it waits on its own; empty: it does not
	Struck    bool   // the reviewer left it out
	MayStrike bool   // the reader may leave it out
	OwnPage   bool   // the reader cannot approve it here
	URL       string // of the call that was made; empty: none
}
