package agents

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// CallbackRow is a callback of an agent, on the agent's page.
type CallbackRow struct {
	Name  string
	URL   string
	State view.Badge
	Host  string
	Sent  *time.Time
}

// NewCallbackForm is the page on which a callback is created.
type NewCallbackForm struct {
	Agent    string
	AgentURL string
	Form     view.WebhookForm
}

// Callback is a callback with a page of its messages.
type Callback struct {
	Agent    string
	AgentURL string
	URL      string
	Name     string
	Notice   *view.Notice
	State    view.Badge
	Disabled bool
	Error    string
	At       *time.Time // of the error
	Facts    []view.Fact
	Rows     []DeliveryRow
	Newest   bool
	Next     string
}

// DeliveryRow is a message to a callback.
type DeliveryRow struct {
	ID     string
	Type   string
	State  view.Badge
	Call   string // URL; empty: it is about none
	Status string // of the call
	At     time.Time
	Error  string
	Count  int // of attempts
	Log    []AttemptRow
	Resend string // URL of a form; empty: it cannot be sent again now
}

// AttemptRow is an attempt to send a message.
type AttemptRow struct {
	Number int
	At     time.Time
	Error  string // empty: it was answered
	Result text.Message
}

// CallbackSecret is a new secret, which is shown only once.
type CallbackSecret struct {
	Agent    string
	AgentURL string
	URL      string
	Name     string
	Secret   string
	Rotated  text.Message // how long the earlier secret also signs; zero: there was none
}
