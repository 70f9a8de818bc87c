package conversations

import (
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Talk is the state of a conversation that Holdpoint runs itself.
type Talk struct {
	Words   text.Message // a description of the state
	Working bool         // a turn is running
	Ended   bool
	Totals  text.Message // turns, tokens, cost
	URL     string       // of the conversation
	Latest  bool         // the newest entries are shown
	Draft   *hostile.Value
	Pending []Said
	Speaks  bool         // the reader may write
	Silent  text.Message // why the reader may not write; zero if they may
}

// Quote is a text from outside with the address of the whole text.
type Quote struct {
	Text hostile.Value
	URL  string // of the whole as text/plain; empty: none
}

// Said is a message to an agent.
type Said struct {
	By       string // a person; empty: the agent's client
	Asked    string // URL of the call that brought it; empty: none
	Text     Quote
	Files    []view.File
	FilesURL string
}

// Reply is a reply of the model.
type Reply struct {
	Agent string
	Model string
	Text  *Quote // nil: no text
	Calls []MadeCall
	Usage text.Message
}

// MadeCall is a call requested by a reply.
type MadeCall struct {
	Call    *CallEntry   // nil: not made
	Name    string       // as the model wrote it
	Text    text.Message // why there is no call
	Refusal string       // why there is no call, from outside
}

// Told is the result of a call as the model got it.
type Told struct {
	Name   string
	URL    string // of the call; empty: not made
	Failed bool
	Text   hostile.Value
	Images text.Message
}

// Remark describes another event.
type Remark struct {
	Text string // parts of it may be from outside
	By   string // a person; may be empty
}

// SayForm is the form for a message to an agent.
type SayForm struct {
	Key   string // of this form, so that a message sent twice counts once
	URL   string // of the conversation
	Note  text.Message
	Draft string       // the typed message
	Error text.Message // the problem of the message
	Hold  bool         // the page does not refresh itself without JavaScript
	Renew bool         // the page refreshes itself without JavaScript
	Lost  *view.Notice // set if the conversation ended before the message arrived
}

// NewTalk is the page that starts a conversation.
type NewTalk struct {
	Key    string   // of this form, which may be sent more than once
	Agents []string // with a model, that the reader may act as
	Agent  string   // the chosen one
	Note   text.Message
	Draft  string
	Error  text.Message
}
