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

// Text returns a model's text in a form that can be stored: UTF-8 without NUL.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// maxTokens bounds the tokens of an exchange, so that the sum of a conversation cannot overflow.
const maxTokens = 1 << 40

// Usage returns the usage that a server reports, within bounds: with negative counts no limit would ever be reached.
func Usage(input, cached, output int64) model.Usage {
	within := func(n, most int64) int64 { return max(0, min(n, most)) }
	input = within(input, maxTokens)
	return model.Usage{InputTokens: input, CachedInputTokens: within(cached, input), OutputTokens: within(output, maxTokens)}
}

// maxCallID bounds the id of a call, in bytes. Gateways store data of their own in ids.
const maxCallID = 16 << 10

// IDs are the ids of a conversation's tool calls.
type IDs map[string]bool

// IDsOf returns the ids of the calls in a request.
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

// Take returns the id of a new call: the server's, or a random one if that is missing, too long or used.
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

// Name returns the name of a called tool in a form that servers accept. The model may have made it up.
func Name(name string) string {
	const longest = 64
	name = notOfName.ReplaceAllString(name, "_")
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), longest)]
}

// Arguments returns the arguments of a call in the form that servers accept: an object. Other text becomes a member of an object, so that the
// model sees it again.
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

// maxRest bounds the part of a schema in a description, in bytes.
const maxRest = 2000

// Schema returns a tool's schema in the form that servers accept, an object with properties, and the tool's description. Servers refuse
// combinations at the top level, so these move to the description. Arguments are validated against the whole schema anyway.
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
