package review

import (
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Question is a request of the call's server to its client, made after the approval.
type Question struct {
	Number    int
	URL       string       // its own, below which it is decided
	Kind      text.Message // a sentence without its period
	Method    string
	Status    view.Badge
	Words     text.Message
	Countdown *view.Countdown // nil: no decision is needed
	Params    *Document
	Answer    *Document // nil: none
	Error     *Document // nil: none
	Decision  *view.Decision
	Secrets   int  // hidden in the answer
	Revealed  bool // they are shown
	Withheld  bool // they have to be revealed before an approval
	Folded    bool
	Full      bool
	Format    Format
	WholeURL  string
	Warning   bool   // hidden or look-alike characters
	Digest    string // empty: there is nothing to decide
	MayDecide bool
	Why       text.Message // why the reader cannot decide
	Complaint text.Message
	Draft     string
}

// Document is JSON from outside; one of its fields is set.
type Document struct {
	Pretty *hostile.Pretty
	Raw    *hostile.Value
}

// IsFolded reports whether a part of the document is left out. It is false for no document.
func (d *Document) IsFolded() bool {
	switch {
	case d == nil:
		return false
	case d.Pretty != nil:
		return d.Pretty.Folded
	}
	return d.Raw.Cut != nil
}
