package mcpserver

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// codeReply is the JSON-RPC error of a reply timeout.
const codeReply = -32003

// usesErrorCodes reports whether the agent uses the error codes of older gateways: JSON-RPC errors for unknown tools, invalid
// arguments and late replies.
func (x *exchange) usesErrorCodes() bool { return x.agent.ErrorStyle == agent.ErrorStyleCodes }

func (x *exchange) unknownTool() *jsonrpc.Error {
	fault := &jsonrpc.Error{
		Code: jsonrpc.CodeInvalidParams, Message: "unknown tool " + plain.Quoted(x.msg.Name, wire.MaxShown),
		Data: json.RawMessage(`{"code":"` + codeToolNotFound + `"}`),
	}
	if x.usesErrorCodes() {
		fault.Code = jsonrpc.CodeMethodNotFound
	}
	return fault
}

func invalidArguments(c *call.Call) *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInvalidParams, Message: "invalid arguments:\n" + plain.Visible(c.Message, maxList),
		Data: marshal(map[string]string{"code": c.Code, "call_id": c.ID.String()}),
	}
}

// answerLate answers that the reply timed out. The call continues, and its outcome remains available.
func (x *toolCall) answerLate(w waiting) {
	x.fail(&jsonrpc.Error{
		Code: codeReply, Message: "reply timeout: " + pendingText(w.id, w.shownStatus(), x.waitDeadline(w.id, w.shownStatus()), w.gated),
		Data: marshal(map[string]string{"code": codeReplyTimeout, "call_id": w.id.String(), "status": string(w.shownStatus())}),
	})
}

// shownStatus returns the status that a client is shown while the call is open.
func (w *waiting) shownStatus() call.Status {
	if w.status.Final() || w.status == call.Approved {
		return call.Executing
	}
	return w.status
}
