package mcptool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The headers of streamable HTTP, in Go's canonical form.
const (
	headerSession   = "Mcp-Session-Id"
	headerVersion   = "Mcp-Protocol-Version"
	headerMethod    = "Mcp-Method"
	headerName      = "Mcp-Name"
	headerLastEvent = "Last-Event-Id"
	headerParam     = "Mcp-Param-"
)

// paramSource is what the Mcp-Param-* headers of a call are made from.
type paramSource struct {
	definition *tool.Definition
	arguments  json.RawMessage
}

// binding ties a property of a tool's arguments to a header
// (x-mcp-header, MCP 2026-07-28).
type binding struct {
	path   []string
	header string
}

// schemaNode is what of an input schema matters to headers.
type schemaNode struct {
	Type       json.RawMessage       `json:"type"`
	Header     json.RawMessage       `json:"x-mcp-header"`
	Properties map[string]schemaNode `json:"properties"`
}

// bindings reads the annotations of an input schema. Its error says why a
// client must leave the tool out.
func bindings(schema json.RawMessage) ([]binding, error) {
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil, nil
	}
	var root schemaNode
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, fmt.Errorf("read x-mcp-header: %w", err)
	}
	return collectBindings(root.Properties, nil, map[string]bool{}, nil)
}

func collectBindings(properties map[string]schemaNode, path []string, seen map[string]bool, found []binding) ([]binding, error) {
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
			found = append(found, binding{path: here, header: header})
		}
		var err error
		if found, err = collectBindings(node.Properties, here, seen, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (n schemaNode) headerName() (string, error) {
	switch string(n.Type) {
	case `"string"`, `"integer"`, `"boolean"`:
	default:
		return "", fmt.Errorf("x-mcp-header on type %s", plain(string(n.Type), 64))
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

// value looks the property up and gives its header's value. ok is false when
// the argument is absent, null, or no value that a header may carry.
func (b binding) value(arguments json.RawMessage) (value string, ok bool) {
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
		return headerValue(s), true
	case string(at) == "true", string(at) == "false":
		return string(at), true
	}
	return integerValue(at)
}

// integerValue writes an integer within the range that every JSON reader
// represents exactly.
func integerValue(number json.RawMessage) (string, bool) {
	const safe = 1<<53 - 1
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil || f != math.Trunc(f) || f < -safe || f > safe {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}

// headerValue writes s as a header's value: as it is when it is plain ASCII
// that survives, else in the form =?base64?…?=.
func headerValue(s string) string {
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
