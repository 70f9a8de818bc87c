package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// definitions are the tools, as tools/list gives them.
func definitions() []any {
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

func (s *taskServer) call(ctx context.Context, r *request) (any, *rpcError) {
	given := r.Params.Arguments
	switch {
	case r.Params.Name == "greet":
		return said("Hello, " + given.Name + "!"), nil
	case r.Params.Name == "slow_compute" && given.Seconds <= 0:
		return said("computed " + given.Label), nil
	case r.Params.Name == "test_tool_with_task":
		return s.composed(r)
	}
	job := s.job(r.Params.Name, given)
	switch {
	case job == nil:
		return nil, &rpcError{Code: codeInvalidParams, Message: "unknown tool"}
	case r.declaresTasks():
		return s.begin(job), nil
	case r.Params.Name == "slow_compute" || r.Params.Name == "protocol_error_job":
		return job(ctx, nil)
	default: // it asks, or says that it needs a task
		return nil, missing("extensions", map[string]any{tasksExtension: map[string]any{}})
	}
}

// job is what a tool does that may take a while; nil: there is none.
func (s *taskServer) job(name string, given arguments) func(context.Context, *task) (any, *rpcError) {
	switch name {
	case "slow_compute":
		return func(ctx context.Context, _ *task) (any, *rpcError) { return slowly(ctx, given) }
	case "failing_job":
		return func(ctx context.Context, _ *task) (any, *rpcError) {
			_ = pause.For(ctx, time.Second)
			return map[string]any{"content": said("it failed").Content, "isError": true}, nil
		}
	case "protocol_error_job":
		return func(ctx context.Context, _ *task) (any, *rpcError) {
			_ = pause.For(ctx, time.Second)
			return nil, &rpcError{Code: codeInternal, Message: "the job broke down"}
		}
	case "confirm_delete":
		return func(ctx context.Context, t *task) (any, *rpcError) {
			s.ask(ctx, t, map[string]any{"confirm": question("Delete "+given.Filename+"?", "confirm", "boolean")})
			return said("deleted " + given.Filename), nil
		}
	case "multi_input":
		return func(ctx context.Context, t *task) (any, *rpcError) {
			s.ask(ctx, t, map[string]any{
				"first":  question("The first?", "name", "string"),
				"second": question("The second?", "name", "string"),
			})
			return said("both were answered"), nil
		}
	}
	return nil
}

// composed asks in a result first, and goes on as a task with the answer.
func (s *taskServer) composed(r *request) (any, *rpcError) {
	switch answer, ok := r.Params.Responses["user_name"]; {
	case !r.declaresTasks():
		return nil, missing("extensions", map[string]any{tasksExtension: map[string]any{}})
	case r.Params.Meta.Capabilities.Elicitation == nil:
		return nil, missing("elicitation", map[string]any{})
	case !ok:
		return map[string]any{
			"resultType": "input_required", "requestState": "asked-for-a-name",
			"inputRequests": map[string]any{"user_name": question("What is your name?", "name", "string")},
		}, nil
	default:
		return s.begin(func(ctx context.Context, _ *task) (any, *rpcError) {
			_ = pause.For(ctx, 2*time.Second) // more than a call has before it is a task
			return said("Hello, " + named(answer) + "!"), nil
		}), nil
	}
}

func named(answer json.RawMessage) string {
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

func said(text string) result {
	return result{"complete", []any{map[string]any{"type": "text", "text": text}}}
}

func slowly(ctx context.Context, given arguments) (any, *rpcError) {
	if pause.For(ctx, time.Duration(given.Seconds*float64(time.Second))) != nil {
		return nil, &rpcError{Code: codeInternal, Message: "interrupted"}
	}
	return said(strings.TrimSpace("computed " + given.Label)), nil
}

// question is an elicitation of one value.
func question(message, name, kind string) any {
	return map[string]any{"method": "elicitation/create", "params": map[string]any{
		"mode": "form", "message": message,
		"requestedSchema": map[string]any{
			"type": "object", "properties": map[string]any{name: map[string]any{"type": kind}}, "required": []string{name},
		},
	}}
}
