package conversations

import (
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Talk is a conversation that Holdpoint runs itself, as it stands.
type Talk struct {
	Words   text.Message // what it does, or waits for
	Working bool         // something will happen by itself
	Ended   bool
	Totals  text.Message // turns, tokens, cost
	URL     string       // of the conversation
	Latest  bool         // the newest entries are shown, and what is to come
	Draft   *hostile.Value
	Pending []Said
	Speaks  bool         // the reader does
	Silent  text.Message // why the reader may not write; zero if they may
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
	Files    []view.File
	FilesURL string
}

// Reply is what a model answered.
type Reply struct {
	Agent string
	Model string
	Text  *Quote // nil: nothing
	Calls []MadeCall
	Usage text.Message
}

// MadeCall is a call that a reply wanted.
type MadeCall struct {
	Call    *CallEntry   // nil: there is none
	Name    string       // as the model wrote it
	Text    text.Message // why there is no call
	Refusal string       // why there is no call, from outside
}

// Told is what the model was told of one call.
type Told struct {
	Name   string
	URL    string // of the call; empty: none was made
	Failed bool
	Text   hostile.Value
	Images text.Message
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
	Note  text.Message
	Draft string       // what was typed
	Error text.Message // what is wrong with it
	Hold  bool         // the page stands still without JavaScript
	Renew bool         // without JavaScript it renews itself
	Lost  *view.Notice // what was typed came too late: nothing more can be said
}

// NewTalk is the page on which a conversation is started.
type NewTalk struct {
	Key    string   // of this form, which may be sent more than once
	Agents []string // that the reader may act as, and that have a model
	Agent  string   // the one that is chosen
	Note   text.Message
	Draft  string
	Error  text.Message
}
