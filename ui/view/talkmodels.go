package view

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Talk is a conversation that Holdpoint runs itself, as it stands.
type Talk struct {
	Words   string // what it does, or waits for
	Working bool   // something will happen by itself
	Ended   bool
	Totals  string // turns, tokens, cost
	URL     string // of the conversation
	Latest  bool   // the newest entries are shown, and what is to come
	Draft   *hostile.Value
	Pending []Said
	Speaks  bool   // the reader does
	Silent  string // why the reader does not; empty: they do
}

// Quote is a text from outside, and where all of it is.
type Quote struct {
	Text hostile.Value
	URL  string // as text/plain; empty: nowhere
}

// Said is a message to an agent.
type Said struct {
	By       string // a person; empty: the agent's client
	Asked    string // URL of the call that it came by; empty: none
	Text     Quote
	Files    []File
	FilesURL string
}

// Reply is what a model answered.
type Reply struct {
	Agent string
	Model string
	Text  *Quote // nil: nothing
	Calls []MadeCall
	Usage string
}

// MadeCall is a call that a reply wanted.
type MadeCall struct {
	Call *CallEntry // nil: there is none
	Name string     // as the model wrote it
	Text string     // why there is none
	Own  bool       // the text is Holdpoint's own
}

// Told is what the model was told of one call.
type Told struct {
	Name   string
	URL    string // of the call; empty: none was made
	Failed bool
	Text   hostile.Value
	Images string
}

// Remark is something that happened, in plain words.
type Remark struct {
	Text string // parts of it may be from outside
	By   string // empty: nobody in particular
}

// SayForm is where somebody writes to an agent.
type SayForm struct {
	Key   string // of this form: what it sends twice is said once
	URL   string // of the conversation
	Note  string
	Draft string  // what was typed
	Error string  // what is wrong with it
	Hold  bool    // the page stands still without JavaScript
	Renew bool    // without JavaScript it renews itself
	Lost  *Notice // what was typed came too late: nothing more can be said
}

// NewTalk is the page on which a conversation is started.
type NewTalk struct {
	Key    string   // of this form, which may be sent more than once
	Agents []string // that the reader may act as, and that have a model
	Agent  string   // the one that is chosen
	Note   string
	Draft  string
	Error  string
}

// Led is what led to a call: the message before it, and what the model said as it made it. None of it is checked.
type Led struct {
	By     string // who said the message; empty: the agent's client
	At     time.Time
	Said   *hostile.Value
	Reason *hostile.Value
	URL    string // of the reply in its conversation
}
