package present

import (
	"encoding/json"

	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// pinShown is the length of a shortened pin. The details have the whole pin.
const pinShown = 16

// Tool presents the definition of a tool.
func Tool(d tool.Definition) *view.Tool {
	t := view.Tool{Title: d.Title, Hints: describeHints(d), Pin: d.Pin().String()[:pinShown]}
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
func Folded(value json.RawMessage) *hostile.Value {
	v := hostile.Fold(string(value), hostile.Folded())
	return &v
}

// BriefOf returns the limits of a line about a call with these secrets.
func BriefOf(secrets *secretfield.Rules) hostile.Limits {
	l := hostile.Brief()
	l.Secrets = secrets
	return l
}

// NamedBadge warns of an argument that the agent gave the name of a secret: the tool's schema does not declare it, so it is shown.
func NamedBadge() view.Badge {
	return view.Badge{Word: text.CallNamedLikeSecret(), Icon: "hidden", Level: view.Warn, Note: text.CallNamedLikeSecretNote()}
}

func isTrue(hint *bool) bool { return hint != nil && *hint }

// describeHints lists the server's claims about a tool.
func describeHints(d tool.Definition) []text.Message {
	h := d.Hints()
	var list []text.Message
	for _, hint := range []struct {
		value   *bool
		yes, no text.Message
	}{
		{h.DestructiveHint, text.CallHintDestructive(), text.CallHintNotDestructive()},
		{h.ReadOnlyHint, text.CallHintReadOnly(), text.Message{}},
		{h.IdempotentHint, text.CallHintIdempotent(), text.Message{}},
		{h.OpenWorldHint, text.CallHintOpenWorld(), text.CallHintClosedWorld()},
	} {
		switch {
		case isTrue(hint.value):
			list = append(list, hint.yes)
		case hint.value != nil && !hint.no.IsZero():
			list = append(list, hint.no)
		}
	}
	return list
}
