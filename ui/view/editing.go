package view

import (
	"github.com/holdpoint/holdpoint/ui/text"
)

// Editing is the editor on a call's arguments.
type Editing struct {
	Form     bool // the arguments fit a form
	Fields   []EditField
	JSON     string // the source, for the JSON editor
	Problems []Problem
}

// Problem is a problem of an edited argument. Where is from outside.
type Problem struct {
	Where string
	Text  text.Message
}

// EditField is one argument in the form. Name, Title, Description, Value and Options are from outside.
type EditField struct {
	ID          string
	SentID      string
	Name        string
	Kind        string
	Title       string
	Description string
	Value       string
	Required    bool
	Present     bool
	Options     []Option
}
