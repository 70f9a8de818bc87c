package mcptool

import (
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
		method: "tools/call", name: call.Tool, members: members, limit: limit,
		definition: paramSource{definition: call.Definition, arguments: call.Arguments},
		what:       "tools/call " + plain(call.Tool, 100),
	}
}

// readResult judges a result of tools/call. All of it is kept as it came. asks:
// it is none yet, the server wants input first.
func readResult(raw json.RawMessage) (result tool.Result, asks bool, failure *tool.Failure) {
	result.Raw = raw
	resultType := "complete"
	err := eachMember(raw, func(name string, value json.RawMessage) error {
		switch name {
		case "isError":
			if err := json.Unmarshal(value, &result.IsError); err != nil {
				return errors.New("isError is neither true nor false")
			}
		case "resultType":
			if err := json.Unmarshal(value, &resultType); err != nil {
				return errors.New("resultType is not a string")
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return tool.Result{}, false, protocolFailure(raw, err, "the result is not a tool result: %s", plain(err.Error(), 200))
	case resultType == "complete":
		return result, false, nil
	case resultType == "input_required":
		return tool.Result{}, true, nil
	case resultType == "task":
		return tool.Result{}, false, protocolFailure(raw, nil, "the server answered with a task, which it was not offered; what becomes of it is not known")
	}
	return tool.Result{}, false, protocolFailure(raw, nil, "the server answered with a result of unknown type %q", plain(resultType, 100))
}
