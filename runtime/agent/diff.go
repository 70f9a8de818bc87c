package agent

import (
	"encoding/json"
	"fmt"
	"strings"
)

// field is one field of a skill, an agent or an assignment, as text.
type field struct {
	name, value string
	secret      bool
}

// fieldList collects the fields of one thing in their order.
type fieldList []field

// add adds a field, unless the value is empty.
func (l *fieldList) add(name, value string) {
	if value != "" {
		*l = append(*l, field{name: name, value: value})
	}
}

// addSecret adds a secret field, unless the value is empty.
func (l *fieldList) addSecret(name, value string) {
	if value != "" {
		*l = append(*l, field{name: name, value: value, secret: true})
	}
}

// addNonZero adds a field, unless the value is zero.
func addNonZero[T comparable](l *fieldList, name string, value T, format func(T) string) {
	var zero T
	if value != zero {
		l.add(name, format(value))
	}
}

// maxShown bounds a value in a diff, in bytes.
const maxShown = 200

// diffFields compares two states field by field. A field that is not set is absent.
func diffFields(before, after []field) []FieldChange {
	return compareFields(before, after, truncateValue)
}

func compareFields(before, after []field, shown func(string) string) []FieldChange {
	old := make(map[string]field, len(before))
	for _, f := range before {
		old[f.name] = f
	}
	var changes []FieldChange
	for _, f := range after {
		was, existed := old[f.name]
		delete(old, f.name)
		switch {
		case existed && was.value == f.value:
		case !f.secret:
			changes = append(changes, FieldChange{Field: f.name, Old: shown(was.value), New: shown(f.value)})
		case existed:
			changes = append(changes, FieldChange{Field: f.name, New: "(secret) changed"})
		default:
			changes = append(changes, FieldChange{Field: f.name, New: "(secret) set"})
		}
	}
	for _, f := range before {
		switch _, gone := old[f.name]; {
		case !gone:
		case f.secret:
			changes = append(changes, FieldChange{Field: f.name, New: "(secret) removed"})
		default:
			changes = append(changes, FieldChange{Field: f.name, Old: shown(f.value)})
		}
	}
	return changes
}

func truncateValue(value string) string {
	if len(value) <= maxShown {
		return value
	}
	return strings.ToValidUTF8(value[:maxShown], "") + "…"
}

// jsonText formats a list as JSON, and an empty list as "".
func jsonText[T any](list []T) string {
	if len(list) == 0 {
		return ""
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(list); err != nil {
		return fmt.Sprint(list)
	}
	return strings.TrimSpace(text.String())
}

// auditData builds the data of a change's audit event.
func auditData(name string, changes []FieldChange) map[string]any {
	data := map[string]any{"name": name}
	if len(changes) > 0 {
		data["fields"] = changes
	}
	return data
}
