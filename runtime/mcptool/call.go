package mcptool

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// callRequest makes the request of a tools/call.
func callRequest(call tool.CallRequest, limit int64) *request {
	members := make([]byte, 0, len(call.Tool)+len(call.Arguments)+32)
	members = append(members, `"name":`...)
	members = quoted(members, call.Tool)
	members = append(members, `,"arguments":`...)
	if len(call.Arguments) == 0 {
		members = append(members, "{}"...)
	} else {
		members = append(members, call.Arguments...)
	}
	return &request{
		method: "tools/call", name: call.Tool, members: members, limit: limit, confirm: call.Confirm,
		definition: paramSource{definition: call.Definition, arguments: call.Arguments},
		what:       "tools/call " + plain(call.Tool, 100),
	}
}

// readResult judges a complete result of tools/call. All of it is kept as it came.
func readResult(raw json.RawMessage) (tool.Result, *tool.Failure) {
	result := tool.Result{Raw: raw}
	err := eachMember(raw, func(name string, value json.RawMessage) error {
		if name == "isError" && json.Unmarshal(value, &result.IsError) != nil {
			return errors.New("isError is neither true nor false")
		}
		return nil
	})
	if err != nil {
		return tool.Result{}, protocolFailure(raw, err, "the result is not a tool result: %s", plain(err.Error(), 200))
	}
	return result, nil
}

// unknownType is the failure of a result that is of a type that MCP does not have there.
func unknownType(what string, raw json.RawMessage, kind string) *tool.Failure {
	return protocolFailure(raw, nil, "%s: the server answered with a result of unknown type %q", what, plain(kind, 100))
}

// Outgoing implements [tool.Source]: what goes out are the arguments.
func (s *Source) Outgoing(tool.Server, tool.CallRequest) (*tool.Outgoing, error) { return nil, nil }

// Before implements [tool.Source]: MCP has no way to ask for it.
func (s *Source) Before(context.Context, tool.Server, tool.CallRequest) (*tool.State, error) {
	return nil, nil
}
