package streamable

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// The headers of streamable HTTP, in canonical form.
const (
	headerSession   = "Mcp-Session-Id"
	headerVersion   = "Mcp-Protocol-Version"
	headerMethod    = "Mcp-Method"
	headerName      = "Mcp-Name"
	headerLastEvent = "Last-Event-Id"
	headerParam     = "Mcp-Param-"
)

// Binding binds an argument of a tool to a header (x-mcp-header, MCP 2026-07-28).
type Binding struct {
	path   []string
	header string
}

// ReadBindings reads the bindings in an input schema. A client must leave out a tool for which it returns an error.
func ReadBindings(schema json.RawMessage) ([]Binding, error) {
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil, nil
	}
	var root schemaNode
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, fmt.Errorf("read x-mcp-header: %w", err)
	}
	return collectBindings(root.Properties, nil, map[string]bool{}, nil)
}

func collectBindings(properties map[string]schemaNode, path []string, seen map[string]bool, found []Binding) ([]Binding, error) {
	for name, node := range properties {
		here := append(append([]string(nil), path...), name)
		if node.Header != nil {
			header, err := node.headerName()
			if err != nil {
				return nil, fmt.Errorf("property %q: %w", strings.Join(here, "."), err)
			}
			lower := strings.ToLower(header)
			if seen[lower] {
				return nil, fmt.Errorf("property %q: x-mcp-header %q twice", strings.Join(here, "."), header)
			}
			seen[lower] = true
			found = append(found, Binding{path: here, header: header})
		}
		var err error
		if found, err = collectBindings(node.Properties, here, seen, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// schemaNode is the part of an input schema that has bindings.
type schemaNode struct {
	Type       json.RawMessage       `json:"type"`
	Header     json.RawMessage       `json:"x-mcp-header"`
	Properties map[string]schemaNode `json:"properties"`
}

func (n schemaNode) headerName() (string, error) {
	switch string(n.Type) {
	case `"string"`, `"integer"`, `"boolean"`:
	default:
		return "", fmt.Errorf("x-mcp-header on type %s", plain.Line(string(n.Type), 64))
	}
	var header string
	if err := json.Unmarshal(n.Header, &header); err != nil || header == "" {
		return "", errors.New("x-mcp-header is not a name")
	}
	for _, c := range []byte(header) {
		if !isTokenChar(c) {
			return "", fmt.Errorf("x-mcp-header %q is not a header name", header)
		}
	}
	return header, nil
}

func isTokenChar(c byte) bool {
	switch {
	case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// formatValue returns the header's value. ok is false if the argument is absent, null, or has no form as a header.
func (b Binding) formatValue(arguments json.RawMessage) (value string, ok bool) {
	at := arguments
	for _, name := range b.path {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(at, &object); err != nil {
			return "", false
		}
		if at, ok = object[name]; !ok {
			return "", false
		}
	}
	switch {
	case len(at) == 0 || string(at) == "null":
		return "", false
	case at[0] == '"':
		var s string
		if err := json.Unmarshal(at, &s); err != nil {
			return "", false
		}
		return encodeHeader(s), true
	case string(at) == "true", string(at) == "false":
		return string(at), true
	}
	return formatInteger(at)
}

// formatInteger formats an integer in the range that all JSON parsers represent exactly.
func formatInteger(number json.RawMessage) (string, bool) {
	const safe = 1<<53 - 1
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil || f != math.Trunc(f) || f < -safe || f > safe {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}

// encodeHeader returns a header's value: printable ASCII as it is, all else in the form =?base64?…?=.
func encodeHeader(s string) string {
	const prefix, suffix = "=?base64?", "?="
	safe := s == strings.Trim(s, " \t") && (!strings.HasPrefix(s, prefix) || !strings.HasSuffix(s, suffix))
	for i := 0; safe && i < len(s); i++ {
		safe = 0x20 <= s[i] && s[i] <= 0x7e
	}
	if safe {
		return s
	}
	return prefix + base64.StdEncoding.EncodeToString([]byte(s)) + suffix
}
