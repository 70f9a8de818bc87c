package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The members of _meta and the headers that differ between MCP's eras.
const (
	metaVersion   = "io.modelcontextprotocol/protocolVersion"
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
)

// message is one line of a client. Its bytes are sent unchanged; the other fields are for the bridge.
type message struct {
	raw    []byte
	opaque bool // it could not be parsed: the server reports the error
	id     jsontext.Value
	method string
	params params
	// version is the revision that the message names, from 2026-07-28 on. Empty: the message belongs to a session, or
	// comes before there is one.
	version string
}

// params are the parameters of a request, as far as headers mirror them.
type params struct {
	Name      string         `json:"name"`      // tools/call, prompts/get
	URI       string         `json:"uri"`       // resources/read
	TaskID    string         `json:"taskId"`    // tasks/…
	RequestID jsontext.Value `json:"requestId"` // notifications/cancelled
	Arguments jsontext.Value `json:"arguments"`
	Meta      jsontext.Value `json:"_meta"`
}

func parseMessage(raw []byte) *message {
	var envelope struct {
		ID     jsontext.Value `json:"id"`
		Method string         `json:"method"`
		Params jsontext.Value `json:"params"`
	}
	m := &message{raw: raw}
	if err := jsonv2.Unmarshal(raw, &envelope); err != nil {
		m.opaque = true
		return m
	}
	if envelope.ID.Kind() == '"' || envelope.ID.Kind() == '0' {
		m.id = envelope.ID
	}
	m.method = envelope.Method
	if len(envelope.Params) > 0 {
		_ = jsonv2.Unmarshal(envelope.Params, &m.params) // the server refuses members of other types
	}
	if len(m.params.Meta) > 0 {
		var meta map[string]jsontext.Value
		_ = jsonv2.Unmarshal(m.params.Meta, &meta)          // likewise
		_ = jsonv2.Unmarshal(meta[metaVersion], &m.version) // likewise
	}
	return m
}

// wantsAnswer reports whether the message is a request, or may be one.
func (m *message) wantsAnswer() bool { return m.opaque || m.method != "" && m.id != nil }

// isHarmless reports whether a request that the server may have received can be sent again: it has no effect, and
// reaches no skill's server.
func (m *message) isHarmless() bool {
	switch m.method {
	case "initialize", "ping", "server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list",
		"tasks/get", "subscriptions/listen", "logging/setLevel":
		return true
	case "tools/call":
		return m.params.Name == awaitTool
	}
	return false
}

// awaitMessage is the request that waits for a call whose id is known, in place of the request that made it. It has
// the same id and _meta, so that its answer and progress are the call's.
func (m *message) awaitMessage(callID string) *message {
	meta := []byte{}
	if len(m.params.Meta) > 0 {
		meta = append([]byte(`,"_meta":`), m.params.Meta...)
	}
	arguments, _ := json.Marshal(map[string]string{"call_id": callID}) //nolint:errchkjson // strings have a form in JSON
	raw := slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), m.id,
		[]byte(`,"method":"tools/call","params":{"name":"`+awaitTool+`","arguments":`), arguments, meta, []byte("}}"))
	return parseMessage(raw)
}

// setHeaders sets the headers of a message without a session. They repeat members of the body, and the arguments
// that the tool's schema marks.
func (m *message) setHeaders(h http.Header, schemas *mirrors) {
	h.Set(headerVersion, m.version)
	if m.method == "" {
		return
	}
	h.Set(headerMethod, headerText(m.method))
	var name string
	switch {
	case m.method == "tools/call":
		name = m.params.Name
		schemas.setHeaders(h, name, m.params.Arguments)
	case m.method == "prompts/get":
		name = m.params.Name
	case m.method == "resources/read":
		name = m.params.URI
	case strings.HasPrefix(m.method, "tasks/"):
		name = m.params.TaskID
	}
	if name != "" {
		h.Set(headerName, headerText(name))
	}
}

// headerText is a text as a header may carry it.
func headerText(text string) string {
	plain := !strings.HasPrefix(text, "=?base64?") && text == strings.Trim(text, " \t")
	for _, c := range []byte(text) {
		plain = plain && (c == '\t' || c >= ' ' && c < 0x7f)
	}
	if plain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// makeRefusal is an error answer of the bridge itself.
func makeRefusal(id jsontext.Value, text string, data map[string]any) []byte {
	if id == nil {
		id = jsontext.Value("null")
	}
	fault := map[string]any{"code": codeBridge, "message": text, "data": data}
	encoded, err := encodeBody(fault)
	if err != nil { // cannot happen: data has strings and numbers only
		encoded = []byte(`{"code":-32000,"message":"internal error"}`)
	}
	return slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"error":`), encoded, []byte("}"))
}

// codeBridge is the code of the bridge's own errors, from the range that JSON-RPC leaves to implementations.
const codeBridge = -32000

// oneLine puts JSON on one line. Only white space between tokens can have line breaks.
func oneLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	if !bytes.ContainsAny(text, "\r\n") {
		return text
	}
	line := bytes.Clone(text)
	for i, c := range line {
		if c == '\n' || c == '\r' {
			line[i] = ' '
		}
	}
	return line
}

// isJSON reports whether a text is one JSON object.
func isJSON(text []byte) bool {
	v := jsontext.Value(text)
	return v.Kind() == '{' && v.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// isAnswerTo reports whether a text is the answer to the request with this id.
func isAnswerTo(text []byte, id jsontext.Value) bool {
	var m struct {
		ID     jsontext.Value `json:"id"`
		Method jsontext.Value `json:"method"`
	}
	err := jsonv2.Unmarshal(text, &m, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return err == nil && m.Method == nil && (bytes.Equal(m.ID, id) || m.ID.Kind() == 'n' || id == nil)
}
