package skills

import (
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Import is the step that chooses the operations of an HTTP API. The texts of its document are from outside.
type Import struct {
	Steps    []Step
	URL      string
	Title    string
	Problems []view.FormProblem
	Base     view.Field
	All      bool // all operations
	Total    int
	Chosen   int // operations that are chosen one by one
	Tags     []view.Choice
	Search   ImportSearch
	Shown    int // operations that match the search
	Rows     []ImportOperation
	Page     int
	More     bool
	Skipped  []SkippedOperation
	Cancel   string
}

// Step is one of several steps. URL is empty if the step cannot be opened.
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

// SkippedOperation is an operation that cannot be a tool.
type SkippedOperation struct{ Operation, Reason string }

// ImportTrial is the step that tries a call.
type ImportTrial struct {
	Steps    []Step
	URL      string
	Skill    string
	Tools    int
	Failure  string       // why its tools cannot be listed; from outside
	Why      text.Message // why no call can be tried
	Readable []view.Choice
	Tool     string
	About    string // the description of the tool
	Editing  *view.Editing
	Notice   *view.Notice
	Request  *view.Request
	Result   *hostile.Result
	Words    string // the outcome
	Level    view.Level
	Took     text.Message
	Timings  []ProbeStep
	Problems []view.FormProblem
}
