package mcptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxElicitation bounds what a server may send to ask one question.
const maxElicitation = 64 << 10

// Elicitation is a form that a server wants to have filled in before it goes
// on with a call. All of it is the server's text: bounded, and not to be trusted.
type Elicitation struct {
	// Message says what is asked, and why.
	Message string
	// Schema is the form's requestedSchema as it came: one JSON object whose
	// properties, if it has any, are objects.
	Schema json.RawMessage
}

// ElicitationAction is what became of a form.
type ElicitationAction string

// The actions of an answer.
const (
	ElicitationAccept  ElicitationAction = "accept"  // filled in
	ElicitationDecline ElicitationAction = "decline" // refused
	ElicitationCancel  ElicitationAction = "cancel"  // put away without a choice
)

// ElicitationAnswer answers an [Elicitation].
type ElicitationAnswer struct {
	Action ElicitationAction
	// Content holds the fields of an accepted form; each is a JSON value. A
	// field that is left out is sent with the default that the schema
	// declares for it, if there is one that fits the field's type.
	Content map[string]json.RawMessage
}

// readElicitation reads the params of an elicitation/create.
func readElicitation(params json.RawMessage) (Elicitation, error) {
	if len(params) > maxElicitation {
		return Elicitation{}, fmt.Errorf("the question is larger than %d bytes", maxElicitation)
	}
	var question Elicitation
	mode, asked := "form", false
	err := eachMember(params, func(name string, value json.RawMessage) error {
		switch name {
		case "mode":
			if err := json.Unmarshal(value, &mode); err != nil {
				return errors.New("mode is not a string")
			}
		case "message":
			asked = true
			if err := json.Unmarshal(value, &question.Message); err != nil {
				return errors.New("message is not a string")
			}
		case "requestedSchema":
			question.Schema = value
		}
		return nil
	})
	switch {
	case err != nil:
		return Elicitation{}, err
	case mode != "form":
		return Elicitation{}, fmt.Errorf("only forms are offered, not mode %q", plain(mode, 64))
	case !asked:
		return Elicitation{}, errors.New("it has no message")
	}
	if _, err := question.defaults(); err != nil {
		return Elicitation{}, fmt.Errorf("requestedSchema: %w", err)
	}
	return question, nil
}

// defaults are the fields that have a default of their own type (SEP-1034).
func (e Elicitation) defaults() (map[string]json.RawMessage, error) {
	found := map[string]json.RawMessage{}
	err := eachMember(e.Schema, func(name string, properties json.RawMessage) error {
		if name != "properties" {
			return nil
		}
		return eachMember(properties, func(field string, schema json.RawMessage) error {
			value, err := fieldDefault(schema)
			if err != nil {
				return fmt.Errorf("field %q: %w", plain(field, 100), err)
			}
			if value != nil {
				found[field] = value
			}
			return nil
		})
	})
	return found, err
}

// fieldDefault is the default of one field, nil if it has none that fits.
func fieldDefault(schema json.RawMessage) (json.RawMessage, error) {
	var kind, value json.RawMessage
	err := eachMember(schema, func(name string, member json.RawMessage) error {
		switch name {
		case "type":
			kind = member
		case "default":
			value = member
		}
		return nil
	})
	if err != nil || value == nil || !fitsType(string(kind), value) {
		return nil, err
	}
	return value, nil
}

// fitsType reports whether a JSON value is of one of the types that forms have.
func fitsType(kind string, value json.RawMessage) bool {
	switch kind {
	case `"string"`:
		return value[0] == '"'
	case `"boolean"`:
		return string(value) == "true" || string(value) == "false"
	case `"integer"`:
		_, ok := integerValue(value)
		return ok
	case `"number"`:
		_, err := strconv.ParseFloat(string(value), 64)
		return err == nil
	case `"array"`: // of strings: several of a choice
		var items []json.RawMessage
		return value[0] == '[' && json.Unmarshal(value, &items) == nil &&
			!slices.ContainsFunc(items, func(item json.RawMessage) bool { return item[0] != '"' })
	}
	return false
}

// result writes an answer as the protocol has it, what was left out included.
func (e Elicitation) result(answer ElicitationAnswer) (json.RawMessage, error) {
	switch answer.Action {
	case ElicitationDecline, ElicitationCancel:
		return json.RawMessage(`{"action":"` + string(answer.Action) + `"}`), nil
	case ElicitationAccept:
	default:
		return nil, fmt.Errorf("answer a form: unknown action %q", answer.Action)
	}
	fields, err := e.defaults()
	if err != nil {
		return nil, err
	}
	maps.Copy(fields, answer.Content)
	text := []byte(`{"action":"accept","content":{`)
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		if !utf8.Valid(value) || !json.Valid(value) {
			return nil, fmt.Errorf("answer a form: field %q is not JSON", name)
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(quoted(text, name), ':'), value...)
	}
	return append(text, "}}"...), nil
}
