package typed

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxCompared is the number of names or items that are compared.
const maxCompared = 10_000

// CompareKeys warns about names of an object that are equal but for their case, and about such texts in a list. It does not look into
// nested values.
func CompareKeys(raw json.RawMessage) []Warning {
	decoder := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	opening, err := decoder.ReadToken()
	if err != nil || opening.Kind() != '{' && opening.Kind() != '[' {
		return nil
	}
	isObject := opening.Kind() == '{'
	code := ItemsDifferInCase
	if isObject {
		code = KeysDifferInCase
	}
	seen := make(map[string]string)
	var warnings []Warning
	for range maxCompared {
		if kind := decoder.PeekKind(); kind == '}' || kind == ']' || kind == 0 || len(warnings) == maxWarnings {
			break
		}
		value, err := decoder.ReadValue()
		if err != nil {
			break
		}
		if value.Kind() == '"' && len(value) <= maxKnown {
			unquoted, _ := jsontext.AppendUnquote(nil, []byte(value))
			text := string(unquoted)
			folded := strings.ToLower(text)
			if other, ok := seen[folded]; ok && (isObject || other != text) {
				warnings = append(warnings, newWarning(code, other, text))
			}
			seen[folded] = text
		}
		if isObject && decoder.SkipValue() != nil {
			break
		}
	}
	return warnings
}

// maxKnown is the number of bytes of the longest text that is compared with others.
const maxKnown = 512
