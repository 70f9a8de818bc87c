package present

import (
	"github.com/holdpoint/holdpoint/ui/argform"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// EditForm presents the form that edits arguments.
func EditForm(f argform.Form) *view.Editing {
	e := &view.Editing{Form: true, Fields: make([]view.EditField, len(f.Fields))}
	for i := range f.Fields {
		field := &f.Fields[i]
		e.Fields[i] = view.EditField{
			ID: f.ValueName(i), SentID: f.SentName(i), Name: field.Name, Kind: string(field.Kind), Value: field.Value,
			Required: field.Required, Present: field.Present, Title: field.Title, Description: field.Description,
		}
		for _, o := range field.Options {
			e.Fields[i].Options = append(e.Fields[i].Options, view.Option{Value: o, Text: text.Literal(o), Chosen: o == field.Value})
		}
	}
	return e
}
