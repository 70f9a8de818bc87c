package grant

import (
	"encoding/json"
	"slices"

	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/internal/secretfield"
)

// IsSecret reports whether the tool's schema declares the argument at a pointer as a secret. value is a value of it.
func IsSecret(rules *secretfield.Rules, pointer string, value []byte) bool {
	names, ok := splitPointer(pointer)
	if rules == nil || len(value) == 0 || !ok {
		return false
	}
	for _, name := range slices.Backward(names) { // a document with the value at the pointer
		value = append(rawjson.AppendMember([]byte("{"), name, value), '}')
	}
	return rules.Count(value) > 0
}

// HasSecret reports whether the matcher has a value that is a secret.
func (m *Matcher) HasSecret(rules *secretfield.Rules) bool {
	for _, value := range append(slices.Clone(m.Values), json.RawMessage(m.Min), json.RawMessage(m.Max)) {
		if IsSecret(rules, m.Argument, value) {
			return true
		}
	}
	return false
}
