package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Caller is who a request is made for, as the server may meet them while it works on it. The zero
// value listens to nothing and answers nothing. Whatever a server sends is hostile text.
type Caller struct {
	// Capabilities are what may be asked of the caller: an MCP ClientCapabilities object with no
	// members but elicitation, sampling and roots. Nil: nothing may be asked.
	Capabilities json.RawMessage
	// Headers tell a server over HTTP who the caller is; they come from validated credentials only. Nil: it is not told.
	Headers map[string]string
	// LogLevel is the least level of the log messages that the caller wants (RFC 5424, as MCP names
	// them: "debug" to "emergency"). Empty: none.
	LogLevel string
	// Progress takes the params of a notifications/progress, without its token. It does not
	// block. Nil: nobody wants to know.
	Progress func(params json.RawMessage)
	// Log takes the params of a notifications/message. It does not block. Nil: nobody wants to know.
	Log func(params json.RawMessage)
	// Ask asks the caller what the server asks at once, and returns the results that were answered, as they came,
	// one for each question, or an error when there is none to one: then the server is refused; with the JSON-RPC error of a [Failure] if the error
	// is one. It takes as long as people take: the
	// time that a request has does not run meanwhile. Nil: nothing may be asked.
	Ask func(ctx context.Context, questions []Question) ([]json.RawMessage, error)
	// Task is called once, when the server answered a call with a task, which is then followed. It
	// does not block. Nil: nobody wants to know.
	Task func()
	// Depth is how many agents have asked each other so that the request is made; the server is told, in case it is one
	// that can be asked too. Zero: none has.
	Depth int
	// Cancel is closed when the caller wants the request cancelled. It matters only to a
	// server that answered with a task, which is then asked to cancel it. Nil: never.
	Cancel <-chan struct{}
}

// MetaDepth is the member of a request's _meta that has [Caller]'s Depth.
const MetaDepth = "dev.holdpoint/depth"

// Question is what a server asks of a caller: elicitation/create, sampling/createMessage or
// roots/list.
type Question struct {
	Key    string // by which the server knows it (inputRequests of 2026-07-28); empty: it is a request of its own
	Method string
	Params json.RawMessage // as they came, bounded; nil without any
}

// Request is any request of MCP but tools/call: it may be sent again when no answer came.
type Request struct {
	Method string          // "resources/read"
	Name   string          // what is asked for, for the Mcp-Name header: a URI, a prompt's name. Empty: nothing
	Params json.RawMessage // one object without _meta; nil: none
	// Timeout is how long the server may take; it does not run while the caller is being
	// asked. Zero: as long as the context lasts.
	Timeout time.Duration
	// Input: a result by which the server asks for input (input_required, MCP 2026-07-28) is returned as it came, for the
	// caller to go on with in a request of its own. The caller's Ask is then of no account.
	Input  bool
	Caller Caller
}
