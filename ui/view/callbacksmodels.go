package view

import "time"

// CallbackRow is a callback of an agent, on the agent's page.
type CallbackRow struct {
	Name  string
	URL   string
	State Badge
	Host  string
	Sent  *time.Time
}

// NewCallbackForm is the page on which one is made.
type NewCallbackForm struct {
	Agent    string
	AgentURL string
	Form     WebhookForm
}

// Callback is one of them, and what it was told.
type Callback struct {
	Agent    string
	AgentURL string
	URL      string
	Name     string
	Notice   *Notice
	State    Badge
	Disabled bool
	Error    string
	At       *time.Time // of the error
	Facts    []Fact
	Rows     []DeliveryRow
	Newest   bool
	Next     string
}

// DeliveryRow is a message to a callback.
type DeliveryRow struct {
	ID     string
	Type   string
	State  Badge
	Call   string // URL; empty: it is about none
	Status string // of the call
	At     time.Time
	Error  string
	Count  int // of attempts
	Log    []AttemptRow
	Resend string // where a form is sent; empty: it cannot be sent again now
}

// AttemptRow is an attempt to send a message.
type AttemptRow struct {
	Number int
	At     time.Time
	Text   string // what came of it
}

// CallbackSecret is a new secret, shown this once.
type CallbackSecret struct {
	Agent    string
	AgentURL string
	URL      string
	Name     string
	Secret   string
	Rotated  string // for how long the earlier one signs too, in words; empty: there was none
}
