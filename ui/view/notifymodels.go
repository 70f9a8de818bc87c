package view

import "time"

// Notifications are how the reader hears of calls while they look elsewhere.
type Notifications struct {
	Reviews  bool // the reader is a reviewer: push is for them
	Operates bool
	PushKey  string // by which browsers know this server; empty: push is not possible here
	Browsers []PushBrowser
}

// PushBrowser is a browser of the reader's that has subscribed to push messages.
type PushBrowser struct {
	Client string // as it called itself; from outside
	Mark   string // by which the browser finds itself
	Facts  []Fact
	Error  string // of the last attempt; empty: none
	Remove string // where a form that ends it is sent
}

// Webhooks are the chats that are told of calls.
type Webhooks struct {
	Notice *Notice
	List   []Webhook
	Form   WebhookForm
}

// Webhook is one of them.
type Webhook struct {
	ID     string // of its element
	Name   string
	State  Badge
	Team   string // from outside; empty: of every team
	Error  string
	At     *time.Time // of the error
	Facts  []Fact
	Test   string // where forms are sent
	Delete string
}

// WebhookForm is what was asked for, and what is wrong with it.
type WebhookForm struct {
	Name, Team   string
	Field, Error string // the field that is wrong, and what was expected
}

// wrong is what is to be said beside a field.
func (f WebhookForm) wrong(field string) string {
	if f.Field == field {
		return f.Error
	}
	return ""
}

// failed reports whether the form was refused.
func (f WebhookForm) failed() bool { return f.Error != "" }
