package mcpserver

import (
	"context"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/rpc"
)

// checkExtMcp is the method CheckRequest of agentgateway's policy service. Edits of reviewers replace the arguments.
func (s *Server) checkExtMcp(ctx context.Context, q *rpc.McpRequest) *rpc.McpResult {
	var who caller
	var params map[string]jsontext.Value
	p, err := func() (p call.Passage, err error) {
		defer recoverGateway(&err)
		if ctx, who, err = s.identifyGateway(ctx, gatewayKey(ctx)); err != nil || q.Method != "tools/call" {
			return call.Passage{Allowed: err == nil}, err
		}
		if jsonv2.Unmarshal(q.Params, &params) != nil {
			return p, refuseRequest("mcp_request: must be a JSON object")
		}
		if err := checkParamNames(q.Params); err != nil {
			return p, err
		}
		ask, err := newExtMcpAsk(ctx, q, params)
		if err != nil {
			return p, err
		}
		return s.askForGateway(ctx, who, ask)
	}()
	var mutated []byte
	if err == nil && p.Edited != nil {
		params["arguments"] = jsontext.Value(p.Edited)
		mutated, err = jsonv2.Marshal(params, jsonv2.Deterministic(true))
	}
	switch {
	case err != nil:
		return &rpc.McpResult{Error: &rpc.McpError{Code: rpc.PermissionDenied, Reason: s.describeRefusal(who, err)}}
	case !p.Allowed:
		return &rpc.McpResult{Error: &rpc.McpError{Code: rpc.PermissionDenied, Reason: p.Message}}
	case mutated != nil:
		return &rpc.McpResult{Mutated: mutated}
	}
	return &rpc.McpResult{Pass: &rpc.Empty{}}
}

// newExtMcpAsk returns the question about a tool call.
func newExtMcpAsk(ctx context.Context, q *rpc.McpRequest, params map[string]jsontext.Value) (*gateAsk, error) {
	ask := &gateAsk{Skill: metadataValue(ctx, gatewaySkill), Arguments: params["arguments"], takesEdits: true}
	if jsonv2.Unmarshal(params["name"], &ask.Tool) != nil {
		return nil, refuseRequest("mcp_request: name: must be a string")
	}
	for name, value := range q.MetadataContext.GetFields() {
		switch name {
		case "skill":
			ask.Skill = value.GetStringValue()
		case "subject":
			if value.GetStringValue() == "" {
				return nil, refuseRequest("metadata_context: subject: must be a text that is not empty")
			}
			ask.subject = call.GateSubject{Type: "user", ID: value.GetStringValue()}
		}
	}
	if len(q.ServiceNames) == 0 {
		return nil, refuseRequest("service_names: must name the server")
	}
	ask.Context.Host, ask.Context.Cwd = "agentgateway", strings.Join(q.ServiceNames, " ")
	return ask, nil
}
