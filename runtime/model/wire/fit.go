package wire

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/model"
)

// Text is what a model wrote, as it can be stored: UTF-8 without NUL.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// maxTokens is more than any exchange has, and little enough that a conversation's sum stays a number.
const maxTokens = 1 << 40

// Usage is what a server says that an exchange took, as it can be counted: nothing below zero, of which limits would never be reached.
func Usage(input, cached, output int64) model.Usage {
	within := func(n, most int64) int64 { return max(0, min(n, most)) }
	input = within(input, maxTokens)
	return model.Usage{InputTokens: input, CachedInputTokens: within(cached, input), OutputTokens: within(output, maxTokens)}
}

// maxCallID is how long an id may be that is kept. Gateways put what they want to see again into ids.
const maxCallID = 16 << 10

// IDs are the ids of a conversation's tool calls.
type IDs map[string]bool

// IDsOf are those that a request has.
func IDsOf(request *model.Request) IDs {
	ids := IDs{}
	for _, message := range request.Messages {
		for _, part := range message.Parts {
			if part.Call != nil {
				ids[part.Call.ID] = true
			}
		}
	}
	return ids
}

// Take is the id of a new call: the server's, or another one where that is none or was used before.
func (ids IDs) Take(id string) string {
	if id = Text(id); id == "" || len(id) > maxCallID || ids[id] {
		var random [12]byte
		_, _ = rand.Read(random[:]) // never fails, by its documentation
		id = "call_" + hex.EncodeToString(random[:])
	}
	ids[id] = true
	return id
}

var notOfName = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// Name is the name of a tool that a model called, as servers take it back. The model may have made it up.
func Name(name string) string {
	const longest = 64
	name = notOfName.ReplaceAllString(name, "_")
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), longest)]
}

// Arguments are those that a model wrote, as servers take them back: an object. What is none is put into one, so
// that the model sees what it wrote.
func Arguments(text string) json.RawMessage {
	if strings.TrimSpace(text) == "" {
		return json.RawMessage(`{}`)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) == nil && object != nil {
		return json.RawMessage(text)
	}
	wrapped, err := json.Marshal(map[string]string{"not_an_object": text})
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return wrapped
}

// Whole reports whether arguments are whole: what was cut at the bound of an answer is no JSON.
func Whole(arguments string) bool {
	return strings.TrimSpace(arguments) == "" || json.Valid([]byte(arguments))
}

// maxRest bounds what a description says of a schema, in bytes.
const maxRest = 2000

// Schema is a tool's schema as servers take it, an object of an object with properties, and the tool's description. Combinations
// at the top, which they refuse, are told in the description: arguments are held against the whole schema anyway.
func Schema(tool *model.Tool) (schema map[string]any, description string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(tool.Schema, &members) != nil {
		members = nil
	}
	schema, rest := map[string]any{}, map[string]json.RawMessage{}
	for name, value := range members {
		switch name {
		case "oneOf", "anyOf", "allOf", "not", "enum", "if", "then", "else":
			rest[name] = value
		case "$schema", "$id":
		default:
			schema[name] = value
		}
	}
	schema["type"] = "object"
	if properties, ok := members["properties"]; !ok || !bytes.HasPrefix(bytes.TrimSpace(properties), []byte("{")) {
		schema["properties"] = map[string]any{}
	}
	description = Text(tool.Description)
	if text, err := json.Marshal(rest); err == nil && len(rest) > 0 && len(text) <= maxRest {
		description = strings.TrimSpace(description + "\n\nIts arguments must also match this JSON Schema: " + string(text))
	}
	return schema, description
}
