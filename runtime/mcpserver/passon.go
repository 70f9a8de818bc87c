package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/resource"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// codeResourceNotFound is what servers before MCP 2026-07-28 answer for a resource that they do not have; since then it
// is -32602.
const codeResourceNotFound = -32002

// The codes of errors about what skills offer besides tools, in data.code.
const (
	codeResourceDenied  = "resource_denied"
	codeUnknown         = "not_found"
	codeNeedsConnection = "needs_connection"
)

// passOn answers with a server's result, with what its era takes and it does not have.
func (x *exchange) passOn(raw json.RawMessage, cacheable bool) {
	kind, err := resultType(raw)
	switch {
	case err != nil:
	case kind == "complete":
		if x.modern && cacheable {
			raw, err = private(raw)
		}
	case kind != "input_required":
		err = errors.New("a result of an unknown type")
	case !x.modern:
		x.fail(&jsonrpc.Error{
			Code:    jsonrpc.CodeInternalError,
			Message: "the skill's server asks for input before it answers, which clients of MCP " + modernVersion + " can give, and earlier ones cannot",
			Data:    json.RawMessage(`{"code":"input_required"}`),
		})
		return
	}
	var pieces [][]byte
	if err == nil {
		pieces, err = dress(raw, nil, x.modern)
	}
	if err != nil {
		x.internal("pass result on", err)
		return
	}
	x.reply(pieces...)
}

// resultType reads the type of a result; servers of earlier revisions do not tell it.
func resultType(raw json.RawMessage) (string, error) {
	kind := "complete"
	_, _, err := members(raw, func(name string, from, to int) error {
		if name == "resultType" {
			return json.Unmarshal(raw[from:to], &kind)
		}
		return nil
	})
	return kind, err
}

// private is a result that may be kept for as long as its server says, or not at all, and by nobody but this client:
// whether somebody else may have it is not the server's to say.
func private(raw json.RawMessage) (json.RawMessage, error) {
	ttl, scopeFrom, scopeTo, empty := false, 0, 0, true
	_, end, err := members(raw, func(name string, from, to int) error {
		empty = false
		switch name {
		case "ttlMs":
			ttl = true
		case "cacheScope":
			scopeFrom, scopeTo = from, to
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	kept := make([]byte, 0, len(raw)+64)
	if scopeTo > 0 {
		kept = append(append(append(kept, raw[:scopeFrom]...), `"private"`...), raw[scopeTo:end]...)
	} else {
		kept = append(kept, raw[:end]...)
		if !empty {
			kept = append(kept, ',')
		}
		kept, empty = append(kept, `"cacheScope":"private"`...), false
	}
	if !ttl {
		kept = append(kept, `,"ttlMs":0`...)
	}
	return append(kept, raw[end:]...), nil
}

// refuseAsked answers what could not be had.
func (x *exchange) refuseAsked(err error) {
	failed, isSkill := errors.AsType[*resource.SkillError](err)
	switch {
	case errors.Is(err, resource.ErrDenied):
		x.fail(x.denied())
	case errors.Is(err, resource.ErrUnknown):
		x.fail(&jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: x.msg.method + ": there is no such thing: " + plain.Quoted(x.msg.name, maxShown),
			Data: json.RawMessage(`{"code":"` + codeUnknown + `"}`),
		})
	case isSkill && failed.Failure.Kind == tool.JSONRPCError:
		x.passError(failed)
	case isSkill:
		x.fail(unanswered(failed))
	case errors.Is(err, context.Canceled) && x.r.Context().Err() != nil:
		x.left(err)
	default:
		x.internal(x.msg.method, err)
	}
}

// denied is the answer about a resource that may not be read, whether there is one or not.
func (x *exchange) denied() *jsonrpc.Error {
	code := int64(codeResourceNotFound)
	if x.modern {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{
		Code: code,
		Message: "this resource cannot be read here. What can be read is what resources/list and resources/templates/list offer, " +
			"and what a finished call of this conversation returned",
		Data: marshal(map[string]string{"uri": x.msg.uri, "code": codeResourceDenied}),
	}
}

// passError answers with a server's own error, as it came. Only that a resource is not found has another code in each era.
func (x *exchange) passError(failed *resource.SkillError) {
	rpc := []byte(failed.Failure.RPC)
	var code int64
	var from, to int
	_, _, err := members(rpc, func(name string, f, t int) error {
		if name == "code" {
			from, to = f, t
			code, _ = strconv.ParseInt(string(rpc[f:t]), 10, 64) // what is no integer is no code
		}
		return nil
	})
	if err != nil {
		x.fail(unanswered(failed))
		return
	}
	mine := code
	switch {
	case x.msg.method != "resources/read":
	case x.modern && code == codeResourceNotFound:
		mine = jsonrpc.CodeInvalidParams
	case !x.modern && failed.Stateless && code == jsonrpc.CodeInvalidParams:
		mine = codeResourceNotFound
	}
	pieces := [][]byte{rpc}
	if mine != code {
		pieces = [][]byte{rpc[:from], strconv.AppendInt(nil, mine, 10), rpc[to:]}
	}
	if err := x.answer(x.httpStatus(mine), `,"error":`, pieces); err != nil {
		x.left(err)
	}
}

// unanswered tells why a skill's server gave no answer, and who can do something about it.
func unanswered(failed *resource.SkillError) *jsonrpc.Error {
	skill, message := plain.Visible(failed.Skill, maxShown), plain.Quoted(failed.Failure.Message, maxReason)
	code, text := string(failed.Failure.Kind), "the server of skill "+skill+" gave no answer that can be used: "+message
	if connect := failed.Failure.Connect; connect != nil {
		code, text = codeNeedsConnection, "skill "+skill+" has to be connected before this can be had: "+plain.Quoted(connect.Reason, maxReason)
	}
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: text, Data: marshal(map[string]string{"code": code, "skill": skill}),
	}
}
