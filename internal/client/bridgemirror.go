package client

import (
	"bytes"
	"net/http"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// mirrors are the tools whose arguments are repeated in headers (x-mcp-header, MCP 2026-07-28, Streamable HTTP), from the
// lists that passed. A client over standard streams does not know of them.
type mirrors struct {
	mu    sync.Mutex
	tools map[string]mirrored
}

// mirrored is a part of an input schema.
type mirrored struct {
	Header     jsontext.Value      `json:"x-mcp-header"`
	Properties map[string]mirrored `json:"properties"`
}

// learnTools reads a list of tools that passes. Lists without such a tool are not parsed.
func (all *mirrors) learnTools(answer []byte) {
	if !bytes.Contains(answer, []byte("x-mcp-header")) {
		return
	}
	var list struct {
		Result struct {
			Tools []struct {
				Name        string   `json:"name"`
				InputSchema mirrored `json:"inputSchema"`
			} `json:"tools"`
		} `json:"result"`
	}
	if jsonv2.Unmarshal(answer, &list) != nil {
		return // no list that the server could have made
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.tools == nil {
		all.tools = map[string]mirrored{}
	}
	for _, tool := range list.Result.Tools {
		all.tools[tool.Name] = tool.InputSchema
	}
}

func (all *mirrors) setHeaders(h http.Header, tool string, arguments jsontext.Value) {
	all.mu.Lock()
	schema := all.tools[tool]
	all.mu.Unlock()
	schema.setHeaders(h, arguments)
}

func (m mirrored) setHeaders(h http.Header, value jsontext.Value) {
	var name string
	if len(m.Header) > 0 && jsonv2.Unmarshal(m.Header, &name) == nil && isToken(name) {
		switch value.Kind() {
		case '"':
			var text string
			if jsonv2.Unmarshal(value, &text) == nil {
				h.Set(headerParam+name, headerText(text))
			}
		case '0', 't', 'f':
			h.Set(headerParam+name, string(value))
		default: // nothing else can be mirrored
		}
	}
	if len(m.Properties) == 0 || value.Kind() != '{' {
		return
	}
	var inside map[string]jsontext.Value
	if jsonv2.Unmarshal(value, &inside) != nil {
		return
	}
	for property, part := range m.Properties {
		part.setHeaders(h, inside[property])
	}
}

// isToken reports whether a text may be part of a header's name (RFC 9110, section 5.6.2).
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
