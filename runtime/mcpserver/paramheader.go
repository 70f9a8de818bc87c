package mcpserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const headerParam = "Mcp-Param-"

// mirrored is a part of an input schema, with what says that an argument is
// mirrored in a header.
type mirrored struct {
	Header     json.RawMessage     `json:"x-mcp-header"`
	Properties map[string]mirrored `json:"properties"`
}

// checkParamHeaders compares the headers that mirror arguments with them. Few
// tools have any.
func checkParamHeaders(h http.Header, schema, arguments json.RawMessage) *jsonrpc.Error {
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil
	}
	var root mirrored
	if json.Unmarshal(schema, &root) == nil {
		return root.check(h, arguments)
	}
	return nil // no schema that its server's clients could read either
}

func (m mirrored) check(h http.Header, value json.RawMessage) *jsonrpc.Error {
	var name string
	if len(m.Header) > 0 && json.Unmarshal(m.Header, &name) == nil && name != "" {
		if fault := checkParamHeader(h, headerParam+name, value); fault != nil {
			return fault
		}
	}
	if len(m.Properties) == 0 {
		return nil
	}
	var inside map[string]json.RawMessage
	if object := len(value) == 0 || json.Unmarshal(value, &inside) == nil; !object {
		return nil // the validation by the schema says so
	}
	for property, part := range m.Properties {
		if fault := part.check(h, inside[property]); fault != nil {
			return fault
		}
	}
	return nil
}

// checkParamHeader compares one header with one argument, nil being an absent one.
func checkParamHeader(h http.Header, header string, value json.RawMessage) *jsonrpc.Error {
	values := h.Values(header)
	absent := value == nil || string(value) == "null"
	switch {
	case absent && len(values) == 0:
		return nil
	case absent || len(values) != 1:
		return mismatch(header, h.Get(header), string(value))
	}
	shown, ok := decodeHeader(values[0])
	if !ok || !sameScalar(shown, value) {
		return mismatch(header, values[0], string(value))
	}
	return nil
}

// sameScalar reports whether a header's text is the argument's value. Integers
// are compared as numbers: 42.0 is 42.
func sameScalar(shown string, value json.RawMessage) bool {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return shown == text
	}
	if shown == string(value) {
		return true
	}
	a, errA := strconv.ParseFloat(shown, 64)
	b, errB := strconv.ParseFloat(string(value), 64)
	return errA == nil && errB == nil && a == b && a == float64(int64(a))
}
