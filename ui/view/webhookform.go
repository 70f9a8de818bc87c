package view

import (
	"github.com/holdpoint/holdpoint/ui/text"
)

// WebhookForm has the input of the form for a webhook, and its problem.
type WebhookForm struct {
	Name, Team string
	Field      string       // the invalid field
	Error      text.Message // its problem
}

// Wrong returns the problem of a field.
func (f WebhookForm) Wrong(field string) text.Message {
	if f.Field == field {
		return f.Error
	}
	return text.Message{}
}

// Failed reports whether the form was refused.
func (f WebhookForm) Failed() bool { return !f.Error.IsZero() }
