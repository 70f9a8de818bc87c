package view

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
)

// Search is a form of criteria, which the address of its page holds.
type Search struct {
	URL     string     // of the page without criteria
	Text    *Criterion // the one that is always seen; nil: none
	Fields  []Criterion
	Choices []Box        // of one criterion that takes several
	Chosen  int          // criteria that are set
	Problem text.Message // of the whole
}

// Invalid reports whether something of it cannot be read.
func (s Search) Invalid() bool {
	for _, f := range s.Fields {
		if !f.Error.IsZero() {
			return true
		}
	}
	return s.Text != nil && !s.Text.Error.IsZero()
}

// Criterion is what a search goes by.
type Criterion struct {
	Name    string // of the parameter
	Label   text.Message
	Value   string
	Kind    string       // of input; empty: text
	Hint    text.Message // shown in an empty field
	Options []string     // suggestions
	Error   text.Message
}

// Box is a box to tick.
type Box struct {
	Name, Value string
	Badge       Badge
	Chosen      bool
}

// Pages lead through a long list.
type Pages struct {
	Newest   string     // URL; empty: this is the first page
	Older    string     // URL; empty: this is the last
	Searched *time.Time // how far back a search came that stopped before its end
}

// Empty has the texts of a list without entries.
type Empty struct {
	SoFar   text.Message // the search stopped before its end
	NoMatch text.Message // there are criteria
	None    text.Message // there are none at all
	About   text.Message // says which entries appear here
}

// Link is a link with its label.
type Link struct {
	URL  string
	Word text.Message
}
