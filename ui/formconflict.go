package ui

import (
	"strings"

	"github.com/holdpoint/holdpoint/ui/view"
)

// tellChanged says that somebody else saved a change after the form was made, and beside each field that differs how it is
// now. The parts are those of the form as it would be made now, whose revision it gets: whoever sends it
// again has seen what it replaces.
func tellChanged(form *view.Form, now []view.FormPart, lost bool) {
	form.Problems = append(form.Problems, view.FormProblem{Text: "Somebody else saved a change after this form was made. " +
		"What you typed is kept; saved again, it replaces what is there now."})
	differs := false
	for _, part := range now {
		for _, present := range part.Fields {
			field := findField(form, present.Name)
			if field == nil || valueWords(field) == valueWords(&present) {
				continue
			}
			differs = true
			field.Now = &view.NowValue{Text: valueWords(&present)}
			form.Problems = append(form.Problems, view.FormProblem{
				Field: view.FieldID(field.Name), Text: field.Label + " is another now",
			})
		}
	}
	if !differs {
		form.Problems = append(form.Problems, view.FormProblem{Text: "No field of this form differs from how it is now."})
	}
	if lost {
		form.Problems = append(form.Problems, secretsLost())
	}
}

// valueWords is the value of a field in words; those of secrets are nobody's to compare.
func valueWords(f *view.Field) string {
	var words []string
	switch f.Kind {
	case view.FieldSecret, view.FieldSealed, view.FieldHidden:
		return ""
	case view.FieldCheck:
		return either(f.On, "ticked", "not ticked")
	case view.FieldPairs:
		for _, p := range f.Pairs {
			if p.Name != "" && !p.Removed {
				words = append(words, p.Name)
			}
		}
	case view.FieldNames:
		for _, c := range f.Choices {
			if c.On {
				words = append(words, c.Word)
			}
		}
	case view.FieldSelect:
		for _, c := range f.Choices {
			if c.Value == f.Value {
				return c.Word
			}
		}
	default:
		return f.Value
	}
	return strings.Join(words, ", ")
}
