package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Caller is the caller of a request, as far as a server can reach it. Its zero value gets no notifications and answers no questions. All
// data of servers is hostile.
type Caller struct {
	// Capabilities is an MCP ClientCapabilities object, with elicitation, sampling and roots only. Nil: the caller cannot be asked.
	Capabilities json.RawMessage
	// Headers identify the caller to a server over HTTP. They come from validated credentials only.
	Headers map[string]string
	// LogLevel is the lowest level of log messages that the caller wants, from "debug" to "emergency". Empty: none.
	LogLevel string
	// Progress gets the params of a notifications/progress, without its token. It must not block. May be nil.
	Progress func(params json.RawMessage)
	// Log gets the params of a notifications/message. It must not block. May be nil.
	Log func(params json.RawMessage)
	// Ask asks the caller the questions that a server asks at the same time, and returns one result for each, as they came. An error refuses
	// all questions, with the JSON-RPC error of a [Failure] if it is one. Ask may take as long as people take, because the timeout of the
	// request is paused. Nil: the caller cannot be asked.
	Ask func(ctx context.Context, questions []Question) ([]json.RawMessage, error)
	// Task is called once when the server answers a call with a task, which is then followed. It must not block. May be nil.
	Task func()
	// Depth is the number of agents that called each other before this request. The server is told, because it may be an agent's endpoint.
	Depth int
	// Cancel is closed when the caller cancels the request. Only a server that answered with a task is then asked to cancel it. May be nil.
	Cancel <-chan struct{}
}

// MetaDepth is the member of a request's _meta with [Caller]'s Depth.
const MetaDepth = "dev.holdpoint/depth"

// Question is a question of a server to a caller: elicitation/create, sampling/createMessage or roots/list.
type Question struct {
	Key    string // of inputRequests (2026-07-28); empty: the question is a request of its own
	Method string
	Params json.RawMessage // as they came, bounded; nil without any
}

// Request is a request of MCP other than tools/call. It may be sent again if no answer came.
type Request struct {
	Method string          // "resources/read"
	Name   string          // a URI or a prompt's name, for the header Mcp-Name; may be empty
	Params json.RawMessage // one object without _meta; nil: none
	// Timeout is how long the server may take. It is paused while the caller is being asked. Zero: as long as the context lasts.
	Timeout time.Duration
	// Input returns a result that asks for input (input_required, MCP 2026-07-28) as it came, for the caller to continue with a request of
	// its own. Caller.Ask is then ignored.
	Input  bool
	Caller Caller
}
