package admin

import (
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Settings are the parts of the page, in its order.
type Settings struct {
	Notice   *view.Notice
	You      []view.Fact
	Theme    view.Theme
	Queue    view.QueueChoices
	Language string // the tag; empty: the browser's
	Sessions []Session
	Tokens   []TokenRow
	NewToken NewToken

	Notifications Notifications
	Server        []view.Fact // how this server runs; nil: the reader is no operator
}

// Session is a signed-in browser.
type Session struct {
	ID      string
	Client  text.Message // the name it gives itself; from outside
	Current bool         // the one that asks
	Facts   []view.Fact
}
