package mcpserver

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// The protocol's revisions that the endpoint speaks. The modern era, from
// 2026-07-28 on, has neither initialize nor sessions: each request says
// in its _meta what it needs said.
const (
	modernVersion = "2026-07-28"
	latestLegacy  = "2025-11-25"
)

func legacyVersions() []string { return []string{latestLegacy, "2025-06-18", "2025-03-26"} }

func supportedVersions() []string { return append([]string{modernVersion}, legacyVersions()...) }

const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerCall    = "Holdpoint-Call"
)

// settleEra finds out which era the request is of, and checks what the
// modern one says about headers.
func (x *exchange) settleEra() *jsonrpc.Error {
	header, body := x.r.Header.Get(headerVersion), x.msg.meta.version
	legacy := header == "" || slices.Contains(legacyVersions(), header) ||
		(header != modernVersion && x.msg.method == "initialize")
	x.modern = !legacy || (body != "" && body != header)
	switch {
	case !x.modern:
		return nil
	case header == "":
		return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "the MCP-Protocol-Version header is missing"}
	case body != "" && header != body:
		return mismatch(headerVersion, header, body)
	case header != modernVersion:
		return &jsonrpc.Error{
			Code: mcp.CodeUnsupportedProtocolVersion, Message: "unsupported protocol version",
			Data: marshal(mcp.UnsupportedProtocolVersionData{Supported: supportedVersions(), Requested: header}),
		}
	case x.msg.id == nil:
		return nil
	case body == "":
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/_meta: " + mcp.MetaKeyProtocolVersion + ": missing"}
	}
	if fault := x.checkMirrors(); fault != nil {
		return fault
	}
	if x.msg.meta.capabilities == nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/_meta: " + mcp.MetaKeyClientCapabilities + ": missing"}
	}
	if level := x.msg.meta.logLevel; level != "" && !slices.Contains(logLevels(), level) {
		return wrongLevel("/params/_meta: " + metaLogLevel)
	}
	return nil
}

// checkMirrors compares the headers that mirror the body with it, so that whoever
// routed by the headers and we who act by the body saw the same request.
func (x *exchange) checkMirrors() *jsonrpc.Error {
	method := x.r.Header.Get(headerMethod)
	switch {
	case method == "":
		return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "the Mcp-Method header is missing"}
	case method != x.msg.method:
		return mismatch(headerMethod, method, x.msg.method)
	}
	named, has := x.msg.named()
	if !has {
		return nil
	}
	raw := x.r.Header.Get(headerName)
	name, ok := decodeHeader(raw)
	switch {
	case raw == "":
		return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "the Mcp-Name header is missing"}
	case !ok || name != named:
		return mismatch(headerName, raw, named)
	}
	return nil
}

// named is what the Mcp-Name header mirrors, where a method has something like a name.
func (m *message) named() (name string, has bool) {
	switch m.method {
	case "tools/call", "prompts/get":
		return m.name, true
	case "tasks/get", "tasks/update", "tasks/cancel":
		return m.taskID, true
	case "resources/read":
		return m.uri, true
	}
	return "", false
}

func mismatch(header, value, body string) *jsonrpc.Error {
	return &jsonrpc.Error{
		Code:    mcp.CodeHeaderMismatch,
		Message: fmt.Sprintf("the %s header says %s, the body says %s", header, plain.Quoted(value, maxShown), plain.Quoted(body, maxShown)),
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

// httpStatus is the HTTP status that an error is answered with.
func (x *exchange) httpStatus(code int64) int {
	switch code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest,
		mcp.CodeHeaderMismatch, mcp.CodeUnsupportedProtocolVersion, mcp.CodeMissingRequiredClientCapabilities:
		return http.StatusBadRequest
	case jsonrpc.CodeInvalidParams:
		if x.modern {
			return http.StatusBadRequest
		}
	case jsonrpc.CodeMethodNotFound:
		if x.modern {
			return http.StatusNotFound
		}
	}
	return http.StatusOK
}

// accepts is what a client can read. A stream needs to be asked for by name: a client
// that takes anything gets one JSON object.
type accepts struct{ json, stream bool }

func parseAccept(values []string) accepts {
	if len(values) == 0 {
		return accepts{json: true}
	}
	var a accepts
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			media, _, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "application/json", "application/*", "*/*":
				a.json = true
			case "text/event-stream", "text/*":
				a.stream = true
			}
		}
	}
	return a
}

// jsonBody reports whether a body may be read as JSON. A request that shows no sign
// of MCP's headers may be of a bare curl, which calls everything a form.
func jsonBody(h http.Header) bool {
	value := h.Get("Content-Type")
	if value == "" || value == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(value)
	if err != nil {
		return false
	}
	bare := h.Get(headerVersion) == "" && h.Get(headerSession) == ""
	return media == "application/json" || (bare && media == "application/x-www-form-urlencoded")
}
