package mcpserver

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// Claude Code can also ask a tool of an MCP server: with a hook of the type mcp_tool, and with --permission-prompt-tool. This endpoint has these
// two tools. It stores no session, and each answer is an explicit decision.

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
		if id := x.hookSession(); id != uuid.Nil {
			session.dropCancelled(id)
		}
		x.w.WriteHeader(http.StatusAccepted)
	case x.msg.Method == "tools/list":
		x.reply(x.dressHookTools())
	case x.msg.Method == "tools/call":
		x.callHookTool()
	case x.msg.Method == "server/discover" && x.modern:
		session.writeDiscovery(can, "")
	case x.msg.Method == "initialize" && !x.modern:
		x.w.Header().Set(wire.HeaderSession, uuid.NewString())
		session.writeWelcome(session.chooseVersion(), can, "")
	case x.msg.Method == "ping" && !x.modern:
		x.reply([]byte("{}"))
	default:
		x.failMethod()
	}
}

// hookSession identifies the caller's session, in which the ids of requests are unique. uuid.Nil: the client cancels by leaving.
func (x *exchange) hookSession() uuid.UUID {
	session := x.r.Header.Get(wire.HeaderSession)
	if session == "" || x.modern {
		return uuid.Nil
	}
	return uuid.NewSHA1(x.agent.ID, slices.Concat(x.principal[:], []byte(session)))
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
	h := &hookExchange{gateExchange: &gateExchange{x}, hook: host.FindHook(host.ClaudeCode), key: waiterKey{x.hookSession(), string(x.msg.ID)}}
	var event host.Event
	var read func() (host.Event, error)
	switch x.msg.Name {
	case hookTool:
		read = func() (host.Event, error) { return h.hook.Read(input, false) }
	case permissionTool:
		read = func() (_ host.Event, err error) {
			event, err = host.ReadPermission(input)
			return event, err
		}
	default:
		x.fail(wire.InvalidParams("unknown tool: " + plain.Quoted(x.msg.Name, wire.MaxShown)))
		return
	}
	v := h.decideSafely(func() (host.Verdict, error) { return h.decideEvent(read) })
	text := string(bytes.TrimSpace(h.hook.Answer(v)))
	if x.msg.Name == permissionTool {
		text = string(host.AnswerPermission(v, &event))
	}
	if h.isDropped {
		(&toolCall{x}).abandonResponse()
		return
	}
	x.reply(toolText(text, nil, x.modern))
}
