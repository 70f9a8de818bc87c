package view

import (
	"github.com/holdpoint/holdpoint/ui/text"
)

// WebhookForm is what was asked for, and what is wrong with it.
type WebhookForm struct {
	Name, Team string
	Field      string       // the field that is wrong
	Error      text.Message // what is wrong with it
}

// Wrong is what is to be said beside a field.
func (f WebhookForm) Wrong(field string) text.Message {
	if f.Field == field {
		return f.Error
	}
	return text.Message{}
}

// Failed reports whether the form was refused.
func (f WebhookForm) Failed() bool { return !f.Error.IsZero() }
