package view

import (
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
)

// Search is a form of criteria, which are in the address of its page.
type Search struct {
	URL     string     // of the page without criteria
	Text    *Criterion // always visible; nil: none
	Fields  []Criterion
	Presets []Tab // times
	Choices []Boxes
	Chosen  int          // criteria that are set
	Problem text.Message // of the whole search
}

// isUnfolded reports whether a criterion is set that the text and the links to times do not show.
func (s Search) isUnfolded() bool {
	folded := 0
	if s.Text != nil && s.Text.Value != "" {
		folded++
	}
	if slices.ContainsFunc(s.Presets, func(t Tab) bool { return t.Current }) {
		folded += 2
	}
	return s.Chosen > folded
}

// Invalid reports whether a criterion is invalid.
func (s Search) Invalid() bool {
	for _, f := range s.Fields {
		if !f.Error.IsZero() {
			return true
		}
	}
	return s.Text != nil && !s.Text.Error.IsZero()
}

// Criterion is a field of a search.
type Criterion struct {
	Name    string // of the parameter
	Label   text.Message
	Value   string
	Kind    string       // the type of the input; empty: text
	Hint    text.Message // shown in an empty field
	Options []string     // suggestions
	Error   text.Message
}

// Boxes are the values of a criterion that takes several.
type Boxes struct {
	Label text.Message
	Boxes []Box
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
	Searched *time.Time // the last time reached by a search that stopped before its end
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
