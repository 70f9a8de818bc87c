package changes

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// List is a page of changes.
type List struct {
	Rows   []Row
	Newest bool   // this is the first page
	Next   string // URL of the next page; empty: none
	On     bool   // changes that loosen wait on this server
}

// Row is one change in the list.
type Row struct {
	URL    string
	Title  text.Message
	Status view.Badge
	At     time.Time
	By     string
}

// Change is one change with its differences.
type Change struct {
	URL        string
	Title      text.Message
	Status     view.Badge
	Notice     *view.Notice
	Facts      []view.Fact
	Fields     []Field
	ThingURL   string // of what it changes; empty: it has no page
	Pending    bool
	MayApprove bool // the reader, who did not propose it
	Own        bool // the reader proposed it
}

// Field is one difference.
type Field struct {
	Name           string
	Old, New       hostile.Value
	HasOld, HasNew bool
}
