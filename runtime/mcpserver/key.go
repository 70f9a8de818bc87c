package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// argumentKey is the argument by which clients give an idempotency key that cannot set _meta.
const argumentKey = "idempotency_key"

// takeIdempotencyKey finds the idempotency key among the arguments, and removes it unless the tool's schema declares it. A
// different key in _meta is an error.
func (x *toolCall) takeIdempotencyKey(entry *catalog.Entry, arguments json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	if !bytes.Contains(arguments, []byte(`"`+argumentKey+`"`)) && !bytes.Contains(arguments, []byte(`\u`)) {
		return arguments, nil
	}
	rest, value, err := wire.CutMember(arguments, argumentKey)
	if err != nil || value == nil {
		return arguments, nil //nolint:nilerr // the schema validation reports it
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	own := false // the tool declares the argument
	if json.Unmarshal(entry.Tool.InputSchema, &schema) == nil {
		_, own = schema.Properties[argumentKey]
	}
	var key string
	if json.Unmarshal(value, &key) != nil || !isValidKey(key) {
		if own {
			return arguments, nil // the tool gives it another meaning
		}
		return nil, wire.InvalidParams(fmt.Sprintf("/params/arguments/%s: must be a string of 1 to %d bytes without control characters", argumentKey, wire.MaxIdempotencyKey))
	}
	if meta := x.msg.Meta.IdempotencyKey; meta != "" && meta != key {
		return nil, wire.InvalidParams("/params/arguments/" + argumentKey + ": must be the same key as /params/_meta: " + wire.MetaIdempotencyKey)
	}
	x.msg.Meta.IdempotencyKey = key
	if own {
		return arguments, nil
	}
	return rest, nil
}

func isValidKey(key string) bool {
	return key != "" && len(key) <= wire.MaxIdempotencyKey && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func keyReused() *jsonrpc.Error {
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: "the idempotency key was used before for a call of this tool with other arguments; use another key for another call",
		Data:    json.RawMessage(`{"code":"` + codeKeyReused + `"}`),
	}
}
