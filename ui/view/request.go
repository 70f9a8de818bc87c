package view

import (
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Request is the exact request of a call to an HTTP API.
type Request struct {
	Method  string
	URL     hostile.Value
	Headers []RequestHeader
	Body    *Body // nil: none
	Sent    bool  // it is being sent, or was sent
	Unsent  bool  // it was not sent, and never will be
	Folded  bool  // a part of it is not shown
	Hidden  bool  // it is not shown, because secrets in the arguments are hidden
	// BeforeURL is the page of the current state; empty: it cannot be read.
	BeforeURL string
	Before    *Before // nil: not read yet
}

// RequestHeader is one field of a header. Name and Value are from outside.
type RequestHeader struct {
	Name   string
	Value  hostile.Value
	Secret bool
}

// Body is the body of a request or an answer: JSON, other text, or bytes.
type Body struct {
	Pretty *hostile.Pretty // JSON
	Text   *hostile.Value
	Bytes  int
	SHA256 string // of bytes
}

// Before is the current state of the resource that a call would change.
type Before struct {
	Hidden   bool          // it is not read, because secrets in the arguments are hidden
	CallURL  string        // of the page that can reveal them
	URL      hostile.Value // of the resource
	Failure  text.Message  // why the state is unknown; may be from outside
	Status   int           // HTTP status of the answer
	Gone     bool          // there is nothing at the URL
	Body     *Body         // the current state
	Diff     *hostile.Diff // the changes by the call
	Change   Change        // how Diff was made
	Deletion bool          // the call deletes it
	Cut      bool
	// Ambiguous: the changes cannot be compared, because an object has a name twice.
	Ambiguous bool
}

// Change is how a request changes the current state.
type Change string

// The kinds of changes.
const (
	ChangeWhole  Change = "whole"  // it replaces everything
	ChangeMerged Change = "merged" // its media type defines the merge
	ChangeLikely Change = "likely" // the server defines the merge
)
