package mcptool

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// wantsTask reports whether a tool can be called as a task only, at a server of a revision in which
// the client says so (MCP 2025-11-25, experimental).
func (s *Source) wantsTask(ctx context.Context, server tool.Server, definition *tool.Definition) (bool, *tool.Failure) {
	if definition == nil || !bytes.Contains(definition.Raw(), []byte("taskSupport")) {
		return false, nil
	}
	var d struct {
		Execution struct {
			TaskSupport string `json:"taskSupport"`
		} `json:"execution"`
	}
	if err := json.Unmarshal(definition.Raw(), &d); err != nil || d.Execution.TaskSupport != "required" {
		return false, nil
	}
	h, failure := s.acquire(ctx, server)
	if failure != nil {
		return false, failure
	}
	defer h.release(false)
	return !h.peer.negotiated().modern(), nil
}

// legacyTask is the task in the result of a call that was to become one; nil: the result is the call's.
func legacyTask(raw json.RawMessage) json.RawMessage {
	var task json.RawMessage
	err := eachMember(raw, func(name string, value json.RawMessage) error {
		if name == "task" {
			task = value
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return task
}
