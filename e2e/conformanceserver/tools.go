package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// toolDefinitions returns the tools for tools/list.
func toolDefinitions() []any {
	definition := func(name, support, schema string) any {
		return map[string]any{
			"name": name, "description": "A fixture of the suite: " + name,
			"inputSchema": json.RawMessage(schema), "execution": map[string]any{"taskSupport": support},
		}
	}
	const none = `{"type":"object"}`
	return []any{
		definition("confirm_delete", "optional", `{"type":"object","properties":{"filename":{"type":"string"}}}`),
		definition("failing_job", "required", none),
		definition("greet", "forbidden", `{"type":"object","properties":{"name":{"type":"string"}}}`),
		definition("multi_input", "optional", none),
		definition("protocol_error_job", "optional", none),
		definition("slow_compute", "optional", `{"type":"object","properties":{"seconds":{"type":"number"},"label":{"type":"string"}}}`),
		definition("test_tool_with_task", "required", none),
	}
}

func (s *taskServer) callTool(ctx context.Context, r *request) (any, *rpcError) {
	given := r.Params.Arguments
	switch {
	case r.Params.Name == "greet":
		return textResult("Hello, " + given.Name + "!"), nil
	case r.Params.Name == "slow_compute" && given.Seconds <= 0:
		return textResult("computed " + given.Label), nil
	case r.Params.Name == "test_tool_with_task":
		return s.greetByTask(r)
	}
	job := s.findJob(r.Params.Name, given)
	switch {
	case job == nil:
		return nil, &rpcError{Code: codeInvalidParams, Message: "unknown tool"}
	case r.declaresTasks():
		return s.beginTask(job), nil
	case r.Params.Name == "slow_compute" || r.Params.Name == "protocol_error_job":
		return job(ctx, nil)
	default: // the tool asks questions, or requires a task
		return nil, missingCapability("extensions", map[string]any{tasksExtension: map[string]any{}})
	}
}

// findJob returns the job of a tool that may take some time; nil: none.
func (s *taskServer) findJob(name string, given arguments) func(context.Context, *task) (any, *rpcError) {
	switch name {
	case "slow_compute":
		return func(ctx context.Context, _ *task) (any, *rpcError) { return computeSlowly(ctx, given) }
	case "failing_job":
		return func(ctx context.Context, _ *task) (any, *rpcError) {
			_ = pause.For(ctx, time.Second)
			return map[string]any{"content": textResult("it failed").Content, "isError": true}, nil
		}
	case "protocol_error_job":
		return func(ctx context.Context, _ *task) (any, *rpcError) {
			_ = pause.For(ctx, time.Second)
			return nil, &rpcError{Code: codeInternal, Message: "the job broke down"}
		}
	case "confirm_delete":
		return func(ctx context.Context, t *task) (any, *rpcError) {
			s.askClient(ctx, t, map[string]any{"confirm": newQuestion("Delete "+given.Filename+"?", "confirm", "boolean")})
			return textResult("deleted " + given.Filename), nil
		}
	case "multi_input":
		return func(ctx context.Context, t *task) (any, *rpcError) {
			s.askClient(ctx, t, map[string]any{
				"first":  newQuestion("The first?", "name", "string"),
				"second": newQuestion("The second?", "name", "string"),
			})
			return textResult("both were answered"), nil
		}
	}
	return nil
}

// greetByTask first asks in a result, and continues as a task with the answer.
func (s *taskServer) greetByTask(r *request) (any, *rpcError) {
	switch answer, ok := r.Params.Responses["user_name"]; {
	case !r.declaresTasks():
		return nil, missingCapability("extensions", map[string]any{tasksExtension: map[string]any{}})
	case r.Params.Meta.Capabilities.Elicitation == nil:
		return nil, missingCapability("elicitation", map[string]any{})
	case !ok:
		return map[string]any{
			"resultType": "input_required", "requestState": "asked-for-a-name",
			"inputRequests": map[string]any{"user_name": newQuestion("What is your name?", "name", "string")},
		}, nil
	default:
		return s.beginTask(func(ctx context.Context, _ *task) (any, *rpcError) {
			_ = pause.For(ctx, 2*time.Second) // longer than a call may take before it becomes a task
			return textResult("Hello, " + readName(answer) + "!"), nil
		}), nil
	}
}

func readName(answer json.RawMessage) string {
	var elicited struct {
		Content map[string]string `json:"content"`
	}
	if json.Unmarshal(answer, &elicited) != nil {
		return "nobody"
	}
	return elicited.Content["name"]
}

type result struct {
	ResultType string `json:"resultType"`
	Content    []any  `json:"content"`
}

func textResult(text string) result {
	return result{"complete", []any{map[string]any{"type": "text", "text": text}}}
}

func computeSlowly(ctx context.Context, given arguments) (any, *rpcError) {
	if pause.For(ctx, time.Duration(given.Seconds*float64(time.Second))) != nil {
		return nil, &rpcError{Code: codeInternal, Message: "interrupted"}
	}
	return textResult(strings.TrimSpace("computed " + given.Label)), nil
}

// newQuestion returns an elicitation of one value.
func newQuestion(message, name, kind string) any {
	return map[string]any{"method": "elicitation/create", "params": map[string]any{
		"mode": "form", "message": message,
		"requestedSchema": map[string]any{
			"type": "object", "properties": map[string]any{name: map[string]any{"type": kind}}, "required": []string{name},
		},
	}}
}
