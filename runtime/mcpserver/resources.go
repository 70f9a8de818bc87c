package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
	"github.com/holdpoint/holdpoint/runtime/resource"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// resourceRequest is a request for resources, prompts and completions of the agent's skills.
type resourceRequest struct{ *exchange }

// listOffers answers with a page of the resources, templates or prompts of the agent's skills.
func (x *resourceRequest) listOffers(kind resource.Kind) {
	conversation, ok := x.findConversation()
	if !ok {
		return
	}
	list, err := x.Resources.List(x.r.Context(), x.resourceViewer(conversation), kind)
	if err != nil {
		x.failInternal(kind.Method(), err)
		return
	}
	entries := make([][]byte, 0, len(list.Entries))
	for i := range list.Entries {
		e := &list.Entries[i]
		raw := []byte(e.Raw)
		if kind == resource.Prompts {
			if raw, err = wire.RenameTool(e.Raw, e.Name); err != nil {
				x.failInternal(kind.Method(), err)
				return
			}
		}
		entries = append(entries, raw)
	}
	page, ok := wire.NewPages(kind.Member(), entries).Find(x.msg.Cursor)
	if !ok {
		x.unknownCursor()
		return
	}
	x.reply(x.dressList(page, list.Problems, list.TTL)...)
}

func (x *exchange) resourceViewer(c *catalog.Conversation) resource.Who {
	return resource.Who{AgentID: x.agent.ID, Principal: x.principal, Conversation: c.ID}
}

// readResource answers with a resource of a skill's server.
func (x *resourceRequest) readResource() {
	ask, fault := x.readAsk()
	if fault == nil && !uriLike(x.msg.URI) {
		fault = badURI("/params/uri")
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	conversation, ok := x.findConversation()
	if !ok {
		return
	}
	raw, err := x.Resources.Read(x.r.Context(), x.resourceViewer(conversation), x.msg.URI, ask)
	if err != nil {
		x.answerRefusal(err)
		return
	}
	x.passResult(raw, true)
}

// uriLike reports whether a text is acceptable as a URI. Its server validates the rest.
func uriLike(text string) bool {
	return text != "" && len(text) <= resource.MaxURI && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// readAsk returns the members with which the client continues an earlier request, and its capabilities.
func (x *resourceRequest) readAsk() (resource.Ask, *jsonrpc.Error) {
	if !x.modern {
		return resource.Ask{}, nil
	}
	ask := resource.Ask{Input: true}
	_, ask.Caller.Capabilities = x.readAbilities(nil)
	if responses := x.msg.InputResponses; responses != nil {
		if responses[0] != '{' {
			return ask, wire.InvalidParams("/params/inputResponses: must be an object")
		}
		ask.Members = append([]byte(`"inputResponses":`), responses...)
	}
	if state := x.msg.RequestState; state != nil {
		if state[0] != '"' {
			return ask, wire.InvalidParams("/params/requestState: must be a string")
		}
		if ask.Members != nil {
			ask.Members = append(ask.Members, ',')
		}
		ask.Members = append(append(ask.Members, `"requestState":`...), state...)
	}
	return ask, nil
}

// getPrompt answers with a prompt of a skill's server.
func (x *resourceRequest) getPrompt() {
	ask, fault := x.readAsk()
	switch {
	case fault != nil:
	case x.msg.Name == "":
		fault = wire.InvalidParams("/params/name: missing")
	case x.msg.Arguments != nil && x.msg.Arguments[0] != '{':
		fault = wire.InvalidParams("/params/arguments: must be an object")
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	conversation, ok := x.findConversation()
	if !ok {
		return
	}
	raw, err := x.Resources.Prompt(x.r.Context(), x.resourceViewer(conversation), x.msg.Name, x.msg.Arguments, ask)
	if err != nil {
		x.answerRefusal(err)
		return
	}
	x.passResult(raw, false)
}

// completeArgument answers with the values for an argument of a prompt or a template.
func (x *resourceRequest) completeArgument() {
	ref, fault := readReference(x.msg.Ref)
	switch {
	case fault != nil:
	case x.msg.Argument == nil || x.msg.Argument[0] != '{':
		fault = wire.InvalidParams("/params/argument: must be an object")
	case x.msg.Context != nil && x.msg.Context[0] != '{':
		fault = wire.InvalidParams("/params/context: must be an object")
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	conversation, ok := x.findConversation()
	if !ok {
		return
	}
	ask := resource.Ask{Members: append([]byte(`"argument":`), x.msg.Argument...)}
	if x.msg.Context != nil {
		ask.Members = append(append(ask.Members, `,"context":`...), x.msg.Context...)
	}
	raw, err := x.Resources.Complete(x.r.Context(), x.resourceViewer(conversation), ref, ask)
	if err != nil {
		x.answerRefusal(err)
		return
	}
	x.passResult(raw, false)
}

// readReference parses the prompt or template of a completion.
func readReference(raw []byte) (resource.Reference, *jsonrpc.Error) {
	var ref struct {
		Type string `json:"type"`
		Name string `json:"name"`
		URI  string `json:"uri"`
	}
	switch {
	case raw == nil || raw[0] != '{' || json.Unmarshal(raw, &ref) != nil:
		return resource.Reference{}, wire.InvalidParams("/params/ref: must be an object with type, and name or uri")
	case ref.Type == "ref/prompt" && ref.Name != "", ref.Type == "ref/resource" && uriLike(ref.URI):
		return resource.Reference{Type: ref.Type, Name: ref.Name, URI: ref.URI}, nil
	default:
		return resource.Reference{}, wire.InvalidParams("/params/ref: must be a ref/prompt with a name, or a ref/resource with a uri")
	}
}

// codeResourceNotFound is the error of servers before MCP 2026-07-28 for an unknown resource; since then it is -32602.
const codeResourceNotFound = -32002

// The values of data.code in errors about resources, prompts and completions.
const (
	codeResourceDenied  = "resource_denied"
	codeUnknown         = "not_found"
	codeNeedsConnection = "needs_connection"
)

// passResult answers with a server's result, converted to the client's era.
func (x *resourceRequest) passResult(raw json.RawMessage, cacheable bool) {
	kind, err := wire.ResultType(raw)
	switch {
	case err != nil:
	case kind == "complete":
		if x.modern && cacheable {
			raw, err = wire.MakePrivate(raw)
		}
	case kind != "input_required":
		err = errors.New("a result of an unknown type")
	case !x.modern:
		x.fail(&jsonrpc.Error{
			Code:    jsonrpc.CodeInternalError,
			Message: "the skill's server requires input before it answers; only clients of MCP " + modernVersion + " or later can give it",
			Data:    json.RawMessage(`{"code":"input_required"}`),
		})
		return
	}
	var pieces [][]byte
	if err == nil {
		pieces, err = wire.DressResult(raw, nil, x.modern)
	}
	if err != nil {
		x.failInternal("pass result on", err)
		return
	}
	x.reply(pieces...)
}

// answerRefusal answers with the error of a failed request.
func (x *resourceRequest) answerRefusal(err error) {
	failed, isSkill := errors.AsType[*resource.SkillError](err)
	switch {
	case errors.Is(err, resource.ErrDenied):
		fault := &jsonrpc.Error{
			Code: codeResourceNotFound,
			Message: "this resource cannot be read. Readable are the resources of resources/list and resources/templates/list, " +
				"and those that a finished call of this conversation returned",
			Data: marshal(map[string]string{"uri": x.msg.URI, "code": codeResourceDenied}), // whether it exists or not
		}
		if x.modern {
			fault.Code = jsonrpc.CodeInvalidParams
		}
		x.fail(fault)
	case errors.Is(err, resource.ErrUnknown):
		x.fail(&jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: x.msg.Method + ": not found: " + plain.Quoted(x.msg.Name, wire.MaxShown),
			Data: json.RawMessage(`{"code":"` + codeUnknown + `"}`),
		})
	case isSkill && failed.Failure.Kind == tool.JSONRPCError:
		x.passError(failed)
	case isSkill:
		x.fail(skillFault(failed))
	case errors.Is(err, context.Canceled) && x.r.Context().Err() != nil:
		x.noteClientLeft(err)
	default:
		x.failInternal(x.msg.Method, err)
	}
}

// passError answers with a server's own error unchanged, except for the code of unknown resources, which differs between the
// eras.
func (x *resourceRequest) passError(failed *resource.SkillError) {
	rpc := []byte(failed.Failure.RPC)
	member, err := wire.FindMember(rpc, "code")
	if err != nil {
		x.fail(skillFault(failed))
		return
	}
	code, _ := strconv.ParseInt(string(member.Value), 10, 64) // a code that is not an integer is 0
	mine := code
	switch {
	case x.msg.Method != "resources/read":
	case x.modern && code == codeResourceNotFound:
		mine = jsonrpc.CodeInvalidParams
	case !x.modern && failed.Stateless && code == jsonrpc.CodeInvalidParams:
		mine = codeResourceNotFound
	}
	pieces := [][]byte{rpc}
	if mine != code {
		pieces = [][]byte{rpc[:member.Start()], strconv.AppendInt(nil, mine, 10), rpc[member.End:]}
	}
	if err := x.writeAnswer(x.httpStatus(mine), `,"error":`, pieces); err != nil {
		x.noteClientLeft(err)
	}
}

// skillFault returns the error for a skill's server without a usable answer, with the cause.
func skillFault(failed *resource.SkillError) *jsonrpc.Error {
	skill, message := plain.Visible(failed.Skill, wire.MaxShown), plain.Quoted(failed.Failure.Message, maxReason)
	code, text := string(failed.Failure.Kind), "the server of skill "+skill+" gave no answer that can be used: "+message
	if connect := failed.Failure.Connect; connect != nil {
		code, text = codeNeedsConnection, "skill "+skill+" has to be connected before this can be had: "+plain.Quoted(connect.Reason, maxReason)
	}
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: text, Data: marshal(map[string]string{"code": code, "skill": skill}),
	}
}
