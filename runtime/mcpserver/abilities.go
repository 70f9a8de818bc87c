package mcpserver

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// readAbilities returns the client's abilities, and the capabilities that skills' servers may use.
func (x *exchange) readAbilities(c *catalog.Conversation) (wire.Abilities, json.RawMessage) {
	switch {
	case x.modern:
		return wire.ReadAbilities(x.msg.Meta.Capabilities)
	case x.r.Header.Get(wire.HeaderSession) == "" || !x.Stream:
		return wire.Abilities{}, nil // it cannot be asked
	}
	can, usable := wire.ReadAbilities(c.Capabilities)
	can.Tasks = false // they came with MCP 2026-07-28
	return can, usable
}

// newCaller describes the client to the server of the call.
func (x *exchange) newCaller(c *catalog.Conversation, usable json.RawMessage) call.Caller {
	caller := call.Caller{Capabilities: usable, Progress: x.Stream && x.msg.Meta.ProgressToken != nil, Depth: x.msg.Meta.Depth}
	switch {
	case !x.Stream:
	case x.modern:
		caller.LogLevel = x.msg.Meta.LogLevel
	case x.r.Header.Get(wire.HeaderSession) != "":
		caller.LogLevel = c.LogLevel
	}
	return caller
}

// needsTasks returns the error for a client that did not declare the tasks extension.
func needsTasks() *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the request requires the extension " + wire.TasksExtension,
		Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + wire.TasksExtension + `":{}}}}`),
	}
}
