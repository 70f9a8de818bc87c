package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"

	"github.com/danielgtaylor/huma/v2"
)

// The paths on which agents and gateways ask about calls that they execute. Package mcpserver serves them; here they are described.

type gateQuestion struct {
	Skill     string            `json:"skill"`
	Tool      string            `json:"tool"`
	Arguments map[string]any    `json:"arguments,omitempty"`
	RequestID string            `json:"request_id,omitempty" doc:"A random id of this execution. The same id gets the same answer again."`
	Wait      int               `json:"wait,omitempty" minimum:"0" maximum:"55" doc:"Seconds to wait for a decision."`
	Context   map[string]string `json:"context,omitempty" doc:"What reviewers see: host, session_id, subagent, version and cwd."`
}

type gateAnswer struct {
	ID            string `json:"id" format:"uuid"`
	Decision      string `json:"decision" enum:"allow,deny,pending"`
	Code          string `json:"code"`
	Message       string `json:"message" doc:"For models."`
	Deadline      string `json:"deadline,omitempty" format:"date-time"`
	ReleasedUntil string `json:"released_until,omitempty" format:"date-time"`
}

type gateOutcome struct {
	RequestID string `json:"request_id,omitempty"`
	Status    string `json:"status" enum:"succeeded,failed,not_run"`
	Text      string `json:"text,omitempty"`
}

type gateLeave struct {
	RequestID string `json:"request_id,omitempty"`
}

type accessEvaluation struct {
	Subject  map[string]any `json:"subject"`
	Action   map[string]any `json:"action"`
	Resource map[string]any `json:"resource"`
	Context  map[string]any `json:"context,omitempty" doc:"Its member arguments has the arguments of the call."`
}

type accessDecision struct {
	Decision bool           `json:"decision"`
	Context  map[string]any `json:"context,omitempty"`
}

var pathParameter = regexp.MustCompile(`{(\w+)}`)

// describeAgentPaths adds these paths to the document.
func describeAgentPaths(document *huma.OpenAPI) {
	content := func(v any) map[string]*huma.MediaType {
		schema := huma.SchemaFromType(document.Components.Schemas, reflect.TypeOf(v))
		schema.AdditionalProperties = nil // they are ignored
		return map[string]*huma.MediaType{"application/json": {Schema: schema}}
	}
	for _, p := range []struct {
		id, method, path, summary string
		body, answer              any // nil: none
	}{
		{"askGate", http.MethodPost, "/agents/{agent}/gate", "Ask whether a call may be executed, which the caller executes itself", gateQuestion{}, gateAnswer{}},
		{"awaitGate", http.MethodGet, "/agents/{agent}/gate/{id}", "Ask again about a call; the query has wait and request_id", nil, gateAnswer{}},
		{"reportGateOutcome", http.MethodPost, "/agents/{agent}/gate/{id}/outcome", "Report the outcome of a released call", gateOutcome{}, nil},
		{"leaveGate", http.MethodPost, "/agents/{agent}/gate/{id}/leave", "Report that the caller no longer waits", gateLeave{}, nil},
		{"askHook", http.MethodPost, "/agents/{agent}/hooks/claude-code", "Answer an HTTP hook of Claude Code", json.RawMessage{}, json.RawMessage{}},
		{"evaluateAccess", http.MethodPost, "/access/v1/evaluation", "Decide about a call of a gateway (AuthZEN)", accessEvaluation{}, accessDecision{}},
	} {
		operation := &huma.Operation{OperationID: p.id, Method: p.method, Path: p.path, Summary: p.summary, Responses: map[string]*huma.Response{}}
		for _, name := range pathParameter.FindAllStringSubmatch(p.path, -1) {
			operation.Parameters = append(operation.Parameters, &huma.Param{Name: name[1], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
		}
		if p.body != nil {
			operation.RequestBody = &huma.RequestBody{Required: true, Content: content(p.body)}
		}
		if p.answer == nil {
			operation.Responses["204"] = &huma.Response{Description: "No Content"}
		} else {
			operation.Responses["200"] = &huma.Response{Description: "OK", Content: content(p.answer)}
		}
		document.AddOperation(operation)
	}
}
