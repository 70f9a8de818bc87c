package present

import (
	"encoding/json"

	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// pinShown is how much of a pin tells two definitions apart at a glance; the details have all of it.
const pinShown = 16

// Tool presents the definition of a tool.
func Tool(d tool.Definition) *view.Tool {
	t := view.Tool{Title: d.Title, Hints: hints(d), Pin: d.Pin().String()[:pinShown]}
	if d.Description != "" {
		t.Description = Folded([]byte(d.Description))
	}
	if schema, err := hostile.ReadPretty(d.InputSchema, hostile.Folded()); err == nil {
		t.Schema = &schema
	} else {
		raw := hostile.Fold(string(d.InputSchema), hostile.Folded())
		t.SchemaRaw = &raw
	}
	return &t
}

// Folded shows a text from outside, cut if it is long.
func Folded(text json.RawMessage) *hostile.Value {
	v := hostile.Fold(string(text), hostile.Folded())
	return &v
}

// BriefOf are the limits of a line about a call of this tool.
func BriefOf(d tool.Definition) hostile.Limits {
	l := hostile.Brief()
	l.Secrets = hostile.SecretsOf(d.InputSchema)
	return l
}

func isTrue(hint *bool) bool { return hint != nil && *hint }

// hints are what the server claims of a tool, in words.
func hints(d tool.Definition) []string {
	h := d.Hints()
	var words []string
	for _, hint := range []struct {
		value   *bool
		yes, no string
	}{
		{h.DestructiveHint, "destructive", "not destructive"},
		{h.ReadOnlyHint, "only reads", ""},
		{h.IdempotentHint, "may be repeated without harm", ""},
		{h.OpenWorldHint, "reaches the world outside", "stays within its own world"},
	} {
		switch {
		case isTrue(hint.value):
			words = append(words, hint.yes)
		case hint.value != nil && hint.no != "":
			words = append(words, hint.no)
		}
	}
	return words
}
