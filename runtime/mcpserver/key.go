package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// argumentKey is the argument by which clients give an idempotency key that cannot set _meta.
const argumentKey = "idempotency_key"

// takeKey finds the idempotency key among arguments, and takes it out where the tool knows nothing of it. One in
// _meta says the same, or else the request is refused.
func (x *exchange) takeKey(entry *catalog.Entry, arguments json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	if !bytes.Contains(arguments, []byte(`"`+argumentKey+`"`)) && !bytes.Contains(arguments, []byte(`\u`)) {
		return arguments, nil
	}
	before, after, value := cut(arguments, argumentKey)
	if value == nil {
		return arguments, nil
	}
	own := declares(entry.Tool.InputSchema, argumentKey)
	var key string
	if json.Unmarshal(value, &key) != nil || !goodKey(key) {
		if own {
			return arguments, nil // the tool's own, whatever it means by it
		}
		return nil, &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidParams,
			Message: fmt.Sprintf("/params/arguments/%s: want a string of 1 to %d bytes without control characters", argumentKey, maxIdempotencyKey),
		}
	}
	if meta := x.msg.meta.idempotencyKey; meta != "" && meta != key {
		return nil, &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidParams,
			Message: "/params/arguments/" + argumentKey + ": another key than that of /params/_meta: " + metaIdempotencyKey,
		}
	}
	x.msg.meta.idempotencyKey = key
	if own {
		return arguments, nil
	}
	return append(append(make([]byte, 0, len(arguments)), before...), after...), nil
}

func goodKey(key string) bool {
	return key != "" && len(key) <= maxIdempotencyKey && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// cut returns an object without one of its members, in two parts, and that member's value; nil: it has none of that name.
func cut(object []byte, name string) (before, after, value []byte) {
	start, end := 1, 0 // of the member, with the comma that goes with it
	_, _, err := members(object, func(member string, from, to int) error {
		switch {
		case member == name:
			value, end = object[from:to], to
		case value == nil:
			start = to
		}
		return nil
	})
	if err != nil || value == nil {
		return nil, nil, nil
	}
	if start == 1 && object[end] == ',' {
		end++ // the first of several: the comma after it goes
	}
	return object[:start], object[end:], value
}

// declares reports whether a schema of an object knows a property of that name.
func declares(schema json.RawMessage, name string) bool {
	var root struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &root) != nil {
		return false
	}
	_, ok := root.Properties[name]
	return ok
}

func keyReused() *jsonrpc.Error {
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: "the idempotency key was used before for a call of this tool with other arguments; use another key for another call",
		Data:    json.RawMessage(`{"code":"` + codeKeyReused + `"}`),
	}
}
