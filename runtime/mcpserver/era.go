package mcpserver

import (
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// The protocol's revisions that the endpoint speaks. The modern era, from
// 2026-07-28 on, has neither initialize nor sessions: the _meta of each request
// has all that the server needs.
const (
	modernVersion = "2026-07-28"
	latestLegacy  = "2025-11-25"
)

func legacyVersions() []string { return []string{latestLegacy, "2025-06-18", "2025-03-26"} }

func supportedVersions() []string { return append([]string{modernVersion}, legacyVersions()...) }

// settleEra determines the era of the request and checks the headers that the modern era requires.
func (x *exchange) settleEra() *jsonrpc.Error {
	header, body := x.r.Header.Get(wire.HeaderVersion), x.msg.Meta.Version
	legacy := header == "" || slices.Contains(legacyVersions(), header) ||
		(header != modernVersion && x.msg.Method == "initialize")
	x.modern = !legacy || (body != "" && body != header)
	switch {
	case !x.modern:
		return nil
	case header == "":
		return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "the MCP-Protocol-Version header is missing"}
	case body != "" && header != body:
		return wire.HeaderMismatch(wire.HeaderVersion, header, body)
	case header != modernVersion:
		return &jsonrpc.Error{
			Code: mcp.CodeUnsupportedProtocolVersion, Message: "unsupported protocol version",
			Data: marshal(mcp.UnsupportedProtocolVersionData{Supported: supportedVersions(), Requested: header}),
		}
	case x.msg.ID == nil:
		return nil
	case body == "":
		return wire.InvalidParams("/params/_meta: " + mcp.MetaKeyProtocolVersion + ": missing")
	}
	if fault := x.msg.CheckMirrors(x.r.Header); fault != nil {
		return fault
	}
	if x.msg.Meta.Capabilities == nil {
		return wire.InvalidParams("/params/_meta: " + mcp.MetaKeyClientCapabilities + ": missing")
	}
	if level := x.msg.Meta.LogLevel; level != "" && !slices.Contains(logLevels(), level) {
		return wrongLevel("/params/_meta: " + wire.MetaLogLevel)
	}
	return nil
}

// httpStatus returns the HTTP status of a JSON-RPC error.
func (x *response) httpStatus(code int64) int {
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
