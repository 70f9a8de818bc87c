package view

import (
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Request is the very request that a call of an HTTP API sends.
type Request struct {
	Method  string
	URL     hostile.Value
	Headers []RequestHeader
	Body    *Body // nil: none
	Sent    bool  // it is on its way, or was
	Unsent  bool  // it never was, and will not be
	Folded  bool  // something of it is not shown
	Hidden  bool  // none of it is shown, because secrets among the arguments are not
	// BeforeURL is the page of what the call would change; empty: there is no way to look at it.
	BeforeURL string
	Before    *Before // when it is known; nil: it has yet to be asked for
}

// RequestHeader is one field of a header. Name and Value are from outside.
type RequestHeader struct {
	Name   string
	Value  hostile.Value
	Secret bool
}

// Body is a body in one of these forms.
type Body struct {
	Pretty *hostile.Pretty // JSON
	Text   *hostile.Value
	Bytes  int
	SHA256 string // of what is not text
}

// Before is what a call would change, as it is now.
type Before struct {
	Hidden   bool          // it is not read, because secrets among the arguments are not shown
	CallURL  string        // where they can be
	URL      hostile.Value // that it was read from
	Failure  text.Message  // why the state is not known; may be from outside
	Status   int           // HTTP status of the answer
	Gone     bool          // there is nothing there
	Body     *Body         // as it is
	Diff     *hostile.Diff // what the call would change in it
	Change   Change        // how, where there is a difference
	Deletion bool          // the call deletes it
	Cut      bool
	// Ambiguous: no difference can be told, because a name stands twice in one object.
	Ambiguous bool
}

// Change is how a request changes what is there.
type Change string

// The ways of a request with what is there.
const (
	ChangeWhole  Change = "whole"  // it replaces all of it
	ChangeMerged Change = "merged" // it is merged as its media type says
	ChangeLikely Change = "likely" // it is merged, and only the server knows how
)
