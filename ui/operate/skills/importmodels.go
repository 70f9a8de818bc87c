package skills

import (
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Import is the step of adding an HTTP API in which its operations are chosen. What the document says is from outside.
type Import struct {
	Steps    []Step
	URL      string
	Title    string
	Problems []view.FormProblem
	Base     view.Field
	All      bool // of the operations
	Total    int
	Chosen   int // that are chosen one by one
	Tags     []view.Choice
	Search   ImportSearch
	Shown    int // how many fit the search
	Rows     []ImportOperation
	Page     int
	More     bool
	Skipped  []SkippedOperation
	Cancel   string
}

// Step is one step of several; URL is empty where there is no way to it.
type Step struct {
	Word text.Message
	URL  string
	Now  bool
}

// ImportSearch narrows the list of operations.
type ImportSearch struct {
	Text, Method, Tag string
	Methods, Tags     []string
}

// ImportOperation is one operation of a document.
type ImportOperation struct {
	Name, Method, Path, Summary string
	Tags                        string
	Chosen                      bool
	Badges                      []view.Badge
	Input, Output               *hostile.Pretty
	NoOutput                    string
}

// SkippedOperation is one that cannot be a tool.
type SkippedOperation struct{ Operation, Reason string }

// ImportTrial is the step in which a call is tried.
type ImportTrial struct {
	Steps    []Step
	URL      string
	Skill    string
	Tools    int
	Failure  string       // why its tools cannot be listed; from outside
	Why      text.Message // why no call can be tried
	Readable []view.Choice
	Tool     string
	About    string // what the tool says of itself
	Editing  *view.Editing
	Notice   *view.Notice
	Request  *view.Request
	Result   *hostile.Result
	Words    string // how it ended
	Level    view.Level
	Took     []string
	Problems []view.FormProblem
}
