package admin

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Notifications are the reader's settings for calls that arrive while they look elsewhere.
type Notifications struct {
	Reviews  bool // the reader is a reviewer: push is for them
	Operates bool
	PushKey  string // identifies this server to browsers; empty: push is unavailable
	Browsers []PushBrowser
}

// PushBrowser is a browser of the reader's that has subscribed to push messages.
type PushBrowser struct {
	Client text.Message // the name it gave itself; from outside
	Mark   string       // by which the browser finds itself
	Facts  []view.Fact
	Error  string // of the last attempt; empty: none
	Remove string // URL of the form that ends it
}

// Webhooks are the chats that are notified of calls.
type Webhooks struct {
	Notice *view.Notice
	List   []Webhook
	Form   view.WebhookForm
}

// Webhook is a chat that is notified of calls.
type Webhook struct {
	ID     string // of its element
	Name   string
	State  view.Badge
	Team   string // from outside; empty: of every team
	Error  string
	At     *time.Time // of the error
	Facts  []view.Fact
	Test   string // URLs of forms
	Delete string
}
