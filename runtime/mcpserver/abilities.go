package mcpserver

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// tasksExtension is the extension by which a call may be answered with a task (SEP-2663).
const tasksExtension = "io.modelcontextprotocol/tasks"

// The requests that a skill's server may make of a client.
const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
	methodRoots  = "roots/list"
)

// abilities are what a client declared that it can do: with each request since 2026-07-28, for its
// session before.
type abilities struct {
	elicit, sample, roots bool
	tasks                 bool
}

// declared is the part of an MCP ClientCapabilities object that matters here.
type declared struct {
	Elicitation json.RawMessage            `json:"elicitation,omitempty"`
	Sampling    json.RawMessage            `json:"sampling,omitempty"`
	Roots       json.RawMessage            `json:"roots,omitempty"`
	Extensions  map[string]json.RawMessage `json:"extensions,omitempty"`
}

// able reads what the client can do, and what of it skills' servers may ask for.
func (x *exchange) able(c *catalog.Conversation) (abilities, json.RawMessage) {
	raw := json.RawMessage(x.msg.meta.capabilities)
	if !x.modern {
		if x.r.Header.Get(headerSession) == "" || !x.stream {
			return abilities{}, nil // there is no way to ask it
		}
		raw = c.Capabilities
	}
	if len(raw) <= len("{}") {
		return abilities{}, nil
	}
	var d declared
	if json.Unmarshal(raw, &d) != nil {
		return abilities{}, nil // what cannot be read was not declared
	}
	_, tasks := d.Extensions[tasksExtension]
	d = declared{Elicitation: said(d.Elicitation), Sampling: said(d.Sampling), Roots: said(d.Roots)}
	can := abilities{elicit: d.Elicitation != nil, sample: d.Sampling != nil, roots: d.Roots != nil, tasks: tasks && x.modern}
	if !can.ask() {
		return can, nil
	}
	return can, marshal(d)
}

// said is a capability that goes with a call: an object that is small enough to be kept, or else none. What is too odd for
// that was not declared.
func said(raw json.RawMessage) json.RawMessage {
	if !object(raw) || !storable(raw) {
		return nil
	}
	return raw
}

func object(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// answers reports whether the client can be asked this.
func (can abilities) answers(method string) bool {
	switch method {
	case methodElicit:
		return can.elicit
	case methodSample:
		return can.sample
	case methodRoots:
		return can.roots
	}
	return false
}

func (can abilities) ask() bool { return can.elicit || can.sample || can.roots }

// meets is what of the client goes with a call, for its server to meet.
func (x *exchange) meets(c *catalog.Conversation, askable json.RawMessage) call.Caller {
	return call.Caller{Capabilities: askable, LogLevel: x.logLevel(c), Progress: x.stream && x.msg.meta.progressToken != nil, Depth: x.msg.meta.depth}
}

// logLevel is what log messages the client wants of the server that works on its request.
func (x *exchange) logLevel(c *catalog.Conversation) string {
	switch {
	case !x.stream:
		return ""
	case x.modern:
		return x.msg.meta.logLevel
	case x.r.Header.Get(headerSession) == "":
		return ""
	default:
		return c.LogLevel
	}
}

// needsTasks answers a client that did not declare the tasks extension.
func needsTasks() *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the request takes the extension " + tasksExtension,
		Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`),
	}
}
