package mcpserver

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// Claude Code can also ask a tool of an MCP server: with a hook of the type mcp_tool, and with --permission-prompt-tool. This endpoint has these
// two tools. It keeps no session, and each answer is an explicit decision.

const (
	hookTool       = "hook"
	permissionTool = "permission"
)

// hookToolList is the result of tools/list without its first members. The input of a hook is what the settings say.
const hookToolList = `"tools":[` +
	`{"name":"` + hookTool + `","description":"Decides about a call of another tool. Only the settings of Claude Code use it.",` +
	`"inputSchema":{"type":"object","properties":{"hook_event_name":{"type":"string"},"tool_name":{"type":"string"},` +
	`"tool_input":{"description":"The input of that tool: an object, or its JSON as a string."}},"required":["hook_event_name","tool_name","tool_input"]}},` +
	`{"name":"` + permissionTool + `","description":"Decides about a call of another tool. Only --permission-prompt-tool of Claude Code uses it.",` +
	`"inputSchema":{"type":"object","properties":{"tool_name":{"type":"string"},"input":{"type":"object"},"tool_use_id":{"type":"string"}},` +
	`"required":["tool_name","input"]}}]}`

// serveHookTools serves a well-formed message.
func (x *exchange) serveHookTools() {
	session, can := &sessionRequest{x}, &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}
	switch {
	case x.msg.ID == nil || x.msg.IsResponse:
		x.w.WriteHeader(http.StatusAccepted)
	case x.msg.Method == "tools/list":
		x.reply(x.dressHookTools())
	case x.msg.Method == "tools/call":
		x.callHookTool()
	case x.msg.Method == "server/discover" && x.modern:
		session.writeDiscovery(can, "")
	case x.msg.Method == "initialize" && !x.modern:
		session.writeWelcome(session.chooseVersion(), can, "")
	case x.msg.Method == "ping" && !x.modern:
		x.reply([]byte("{}"))
	default:
		x.failMethod()
	}
}

func (x *exchange) dressHookTools() []byte {
	list := []byte("{")
	if x.modern {
		list = append(list, `"resultType":"complete","ttlMs":`+strconv.FormatInt(discoverTTL.Milliseconds(), 10)+`,"cacheScope":"private",`...)
	}
	return append(list, hookToolList...)
}

// callHookTool decides about a call, and answers with one text.
func (x *exchange) callHookTool() {
	input := bytes.Clone(x.msg.Arguments) // the message is not kept while the call waits
	h := &hookExchange{&gateExchange{x}, host.FindHook(host.ClaudeCode)}
	switch x.msg.Name {
	case hookTool:
		v := h.decideSafely(func() (host.Verdict, error) {
			return h.decideEvent(func() (host.Event, error) { return h.hook.Read(input, false) })
		})
		x.reply(toolText(string(bytes.TrimSpace(h.hook.Answer(v))), nil, x.modern))
	case permissionTool:
		var event host.Event
		v := h.decideSafely(func() (host.Verdict, error) {
			return h.decideEvent(func() (read host.Event, err error) {
				event, err = host.ReadPermission(input)
				return event, err
			})
		})
		x.reply(toolText(string(host.AnswerPermission(v, &event)), nil, x.modern))
	default:
		x.fail(wire.InvalidParams("unknown tool: " + plain.Quoted(x.msg.Name, wire.MaxShown)))
	}
}
