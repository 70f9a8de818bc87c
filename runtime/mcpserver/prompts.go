package mcpserver

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/runtime/resource"
)

// getPrompt answers with a prompt, as its server gave it.
func (x *exchange) getPrompt() {
	ask, fault := x.ask()
	switch {
	case fault != nil:
	case x.msg.name == "":
		fault = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/name: missing"}
	case x.msg.arguments != nil && x.msg.arguments[0] != '{':
		fault = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/arguments: want an object"}
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	conversation, ok := x.conversation()
	if !ok {
		return
	}
	raw, err := x.Resources.Prompt(x.r.Context(), x.who(conversation), x.msg.name, x.msg.arguments, ask)
	if err != nil {
		x.refuseAsked(err)
		return
	}
	x.passOn(raw, false)
}

// complete answers with what an argument of a prompt or a template may be.
func (x *exchange) complete() {
	ref, fault := reference(x.msg.ref)
	switch {
	case fault != nil:
	case x.msg.argument == nil || x.msg.argument[0] != '{':
		fault = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/argument: want an object"}
	case x.msg.completed != nil && x.msg.completed[0] != '{':
		fault = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/context: want an object"}
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	conversation, ok := x.conversation()
	if !ok {
		return
	}
	ask := resource.Ask{Members: append([]byte(`"argument":`), x.msg.argument...)}
	if x.msg.completed != nil {
		ask.Members = append(append(ask.Members, `,"context":`...), x.msg.completed...)
	}
	raw, err := x.Resources.Complete(x.r.Context(), x.who(conversation), ref, ask)
	if err != nil {
		x.refuseAsked(err)
		return
	}
	x.passOn(raw, false)
}

// reference reads what an argument is to be completed for.
func reference(raw []byte) (resource.Reference, *jsonrpc.Error) {
	var ref struct {
		Type string `json:"type"`
		Name string `json:"name"`
		URI  string `json:"uri"`
	}
	switch {
	case raw == nil || raw[0] != '{' || json.Unmarshal(raw, &ref) != nil:
		return resource.Reference{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/ref: want an object with type, and name or uri"}
	case ref.Type == "ref/prompt" && ref.Name != "", ref.Type == "ref/resource" && uriLike(ref.URI):
		return resource.Reference{Type: ref.Type, Name: ref.Name, URI: ref.URI}, nil
	default:
		return resource.Reference{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/ref: want a ref/prompt with a name, or a ref/resource with a uri"}
	}
}
