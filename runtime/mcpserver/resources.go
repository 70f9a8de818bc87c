package mcpserver

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/resource"
)

// others answers the requests about what skills offer besides tools, and reports whether the method is one.
func (x *exchange) others(method string) bool {
	switch {
	case method == "resources/subscribe" && !x.modern:
		x.subscribe(x.Resources.Subscribe)
		return true
	case method == "resources/unsubscribe" && !x.modern:
		x.subscribe(x.Resources.Unsubscribe)
		return true
	}
	switch method {
	case "resources/list":
		x.list(resource.Resources)
	case "resources/templates/list":
		x.list(resource.Templates)
	case "prompts/list":
		x.list(resource.Prompts)
	case "resources/read":
		x.readResource()
	case "prompts/get":
		x.getPrompt()
	case "completion/complete":
		x.complete()
	default:
		return false
	}
	return true
}

// list answers with a page of what the agent's skills offer.
func (x *exchange) list(kind resource.Kind) {
	conversation, ok := x.conversation()
	if !ok {
		return
	}
	list, err := x.Resources.List(x.r.Context(), x.who(conversation), kind)
	if err != nil {
		x.internal(kind.Method(), err)
		return
	}
	entries := make([][]byte, 0, len(list.Entries))
	for i := range list.Entries {
		e := &list.Entries[i]
		raw := []byte(e.Raw)
		if kind == resource.Prompts {
			if raw, err = rename(e.Raw, e.Name); err != nil {
				x.internal(kind.Method(), err)
				return
			}
		}
		entries = append(entries, raw)
	}
	page, ok := paged(kind.Member(), entries).page(x.msg.cursor)
	if !ok {
		x.unknownCursor()
		return
	}
	x.reply(x.dressList(page, list.Problems, list.TTL)...)
}

func (x *exchange) who(c *catalog.Conversation) resource.Who {
	return resource.Who{AgentID: x.agent.ID, Principal: x.principal, Conversation: c.ID}
}

// readResource answers with a resource, as its server gave it.
func (x *exchange) readResource() {
	ask, fault := x.ask()
	if fault == nil && !uriLike(x.msg.uri) {
		fault = badURI("/params/uri")
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	conversation, ok := x.conversation()
	if !ok {
		return
	}
	raw, err := x.Resources.Read(x.r.Context(), x.who(conversation), x.msg.uri, ask)
	if err != nil {
		x.refuseAsked(err)
		return
	}
	x.passOn(raw, true)
}

// uriLike reports whether a text may be asked for. What is a URI its server knows.
func uriLike(text string) bool {
	return text != "" && len(text) <= resource.MaxURI && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// ask is how the client asks: what it adds to go on with an earlier request, and what it may be asked itself.
func (x *exchange) ask() (resource.Ask, *jsonrpc.Error) {
	if !x.modern {
		return resource.Ask{}, nil
	}
	ask := resource.Ask{Input: true}
	_, ask.Caller.Capabilities = x.able(nil)
	if responses := x.msg.inputResponses; responses != nil {
		if responses[0] != '{' {
			return ask, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/inputResponses: want an object"}
		}
		ask.Members = append([]byte(`"inputResponses":`), responses...)
	}
	if state := x.msg.requestState; state != nil {
		if state[0] != '"' {
			return ask, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/requestState: want a string"}
		}
		if ask.Members != nil {
			ask.Members = append(ask.Members, ',')
		}
		ask.Members = append(append(ask.Members, `"requestState":`...), state...)
	}
	return ask, nil
}
