package mcpserver

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// codeReply is the JSON-RPC error of a reply that does not come in time.
const codeReply = -32003

// codes reports whether the agent's clients know the table of codes of older gateways: an error for an unknown tool, for
// invalid arguments and for a reply that does not come in time, whatever it waits for.
func (x *exchange) codes() bool { return x.agent.ErrorStyle == agent.ErrorStyleCodes }

func (x *exchange) unknownTool() *jsonrpc.Error {
	fault := &jsonrpc.Error{
		Code: jsonrpc.CodeInvalidParams, Message: "unknown tool " + plain.Quoted(x.msg.name, maxShown),
		Data: json.RawMessage(`{"code":"` + codeToolNotFound + `"}`),
	}
	if x.codes() {
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

// answerLate says that the reply did not come in time. The call goes its way, and its outcome can be had.
func (x *exchange) answerLate(w waiting) {
	x.fail(&jsonrpc.Error{
		Code: codeReply, Message: "reply timeout: " + pending(w.id, w.running(), w.deadline, x.reviewing(w.id, w.running()), w.gated),
		Data: marshal(map[string]string{"code": codeReplyTimeout, "call_id": w.id.String(), "status": string(w.running())}),
	})
}

// running is where a call stands that is on its way, as its client is told.
func (w *waiting) running() call.Status {
	if w.status.Final() || w.status == call.Approved {
		return call.Executing
	}
	return w.status
}
