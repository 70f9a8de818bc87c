package grants

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// List is the list of grants.
type List struct {
	Rows   []Row
	Review []Row // unused and wide ones
	All    bool  // also those that no longer count
	// Suggests: the reader may see suggested grants.
	Suggests bool
}

// Suggestions is the page of suggested grants.
type Suggestions struct {
	List      []Suggested
	Decisions int
	Partly    bool // not all decisions of the time were read
}

// Suggested is one suggested grant.
type Suggested struct {
	Agent, Person, Tool string
	URL                 string // of the form, filled in
	Why                 text.Message
	Last                time.Time // decision about a covered call
	Arguments           []Argument
}

// Row is one grant in a list.
type Row struct {
	URL    string
	Agent  string
	Person string // on whose behalf; empty: nobody
	Tool   string // with its skill
	Badges []view.Badge
	By     string
	EndsAt time.Time
	UsedAt *time.Time // nil: never
	Revoke bool
}

// Grant is one grant.
type Grant struct {
	Row

	ID        string
	Notice    *view.Notice
	Arguments []Argument
	Facts     []view.Fact
	Confirm   bool    // the reader may confirm it
	Calls     []Match // that it let pass, the newest first
	Newest    bool    // this is the first page of them
	Next      string  // URL of the next page; empty: this is the last one
}

// Argument is an argument that calls must have.
type Argument struct {
	Name  string
	Rule  text.Message
	Value *hostile.Value // nil: there is none, or it is hidden
}

// Preview lists the calls that a grant would have allowed.
type Preview struct {
	Problems []text.Message
	Verdict  text.Message
	Second   bool
	Calls    []Match
}

// Match is a call in a list.
type Match struct {
	ID, URL string
	At      time.Time
	Badge   view.Badge
}
