package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// The headers of requests and responses.
const (
	HeaderVersion = "Mcp-Protocol-Version"
	HeaderSession = "Mcp-Session-Id"
	HeaderCall    = "Holdpoint-Call"

	HeaderMethod = "Mcp-Method"
	headerName   = "Mcp-Name"
	headerParam  = "Mcp-Param-"
)

// Accepts is the client's Accept header. A stream must be named: a client that accepts */* gets one JSON object.
type Accepts struct{ JSON, Stream bool }

// ParseAccept parses the values of the Accept header.
func ParseAccept(values []string) Accepts {
	if len(values) == 0 {
		return Accepts{JSON: true}
	}
	var a Accepts
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			media, _, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "application/json", "application/*", "*/*":
				a.JSON = true
			case "text/event-stream", "text/*":
				a.Stream = true
			}
		}
	}
	return a
}

// HasJSONBody reports whether a body may be read as JSON. A request without MCP's headers may be of a bare curl, which calls
// everything a form.
func HasJSONBody(h http.Header) bool {
	value := h.Get("Content-Type")
	if value == "" || value == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(value)
	if err != nil {
		return false
	}
	bare := h.Get(HeaderVersion) == "" && h.Get(HeaderSession) == ""
	return media == "application/json" || (bare && media == "application/x-www-form-urlencoded")
}

// CheckMirrors compares the headers that mirror the message with the message. A proxy that routes by the headers must see the
// same request.
func (m *Message) CheckMirrors(h http.Header) *jsonrpc.Error {
	switch method := h.Get(HeaderMethod); method {
	case m.Method:
	case "":
		return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "the Mcp-Method header is missing"}
	default:
		return HeaderMismatch(HeaderMethod, method, m.Method)
	}
	var named string
	switch m.Method {
	case "tools/call", "prompts/get":
		named = m.Name
	case "tasks/get", "tasks/update", "tasks/cancel":
		named = m.TaskID
	case "resources/read":
		named = m.URI
	default:
		return nil
	}
	raw := h.Get(headerName)
	name, ok := decodeHeader(raw)
	switch {
	case raw == "":
		return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "the Mcp-Name header is missing"}
	case !ok || name != named:
		return HeaderMismatch(headerName, raw, named)
	}
	return nil
}

// HeaderMismatch returns the error for a header that differs from the body.
func HeaderMismatch(header, value, body string) *jsonrpc.Error {
	return &jsonrpc.Error{
		Code:    mcp.CodeHeaderMismatch,
		Message: fmt.Sprintf("the %s header says %s, the body says %s", header, plain.Quoted(value, MaxShown), plain.Quoted(body, MaxShown)),
	}
}

// decodeHeader reads a header value that may be wrapped as =?base64?…?=.
func decodeHeader(value string) (string, bool) {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if !ok {
		return value, true
	}
	if inner, ok = strings.CutSuffix(inner, "?="); !ok {
		return value, true
	}
	text, err := base64.StdEncoding.DecodeString(inner)
	return string(text), err == nil
}

// mirrored is a part of an input schema that declares which arguments are mirrored in headers.
type mirrored struct {
	Header     json.RawMessage     `json:"x-mcp-header"`
	Properties map[string]mirrored `json:"properties"`
}

// CheckParamHeaders compares arguments with the headers that mirror them. Few tools have any.
func CheckParamHeaders(h http.Header, schema, arguments json.RawMessage) *jsonrpc.Error {
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil
	}
	var root mirrored
	if json.Unmarshal(schema, &root) == nil {
		return root.checkHeaders(h, arguments)
	}
	return nil // no schema that its server's clients could read either
}

// checkHeaders compares a value, and the values inside it, with their headers; nil: the value is absent.
func (m mirrored) checkHeaders(h http.Header, value json.RawMessage) *jsonrpc.Error {
	var name string
	if len(m.Header) > 0 && json.Unmarshal(m.Header, &name) == nil && name != "" {
		header := headerParam + name
		values, isAbsent := h.Values(header), value == nil || string(value) == "null"
		if isAbsent != (len(values) == 0) || len(values) > 1 {
			return HeaderMismatch(header, h.Get(header), string(value))
		}
		if !isAbsent {
			if shown, ok := decodeHeader(values[0]); !ok || !sameScalar(shown, value) {
				return HeaderMismatch(header, values[0], string(value))
			}
		}
	}
	if len(m.Properties) == 0 {
		return nil
	}
	var inside map[string]json.RawMessage
	if object := len(value) == 0 || json.Unmarshal(value, &inside) == nil; !object {
		return nil // the schema validation reports it
	}
	for property, part := range m.Properties {
		if fault := part.checkHeaders(h, inside[property]); fault != nil {
			return fault
		}
	}
	return nil
}

// sameScalar reports whether a header's text equals the argument's value. Integers are compared as numbers: 42.0 is 42.
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
