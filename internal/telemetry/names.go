package telemetry

import "go.opentelemetry.io/otel/attribute"

// The attributes of spans that OpenTelemetry's conventions for generative AI and for MCP name. They are in development,
// and no longer among the constants of the Go library: https://github.com/open-telemetry/semantic-conventions-genai.
const (
	OperationName  attribute.Key = "gen_ai.operation.name"
	ToolName       attribute.Key = "gen_ai.tool.name"
	ToolType       attribute.Key = "gen_ai.tool.type"
	ToolCallID     attribute.Key = "gen_ai.tool.call.id"
	AgentID        attribute.Key = "gen_ai.agent.id"
	AgentName      attribute.Key = "gen_ai.agent.name"
	ConversationID attribute.Key = "gen_ai.conversation.id"
	PromptName     attribute.Key = "gen_ai.prompt.name"
	MCPMethod      attribute.Key = "mcp.method.name"
	MCPVersion     attribute.Key = "mcp.protocol.version"
)

// ExecuteTool is the [OperationName] of calls.
const ExecuteTool = "execute_tool"

// The attributes that are Holdpoint's own.
const (
	CallID   attribute.Key = "holdpoint.call.id"
	Status   attribute.Key = "holdpoint.call.status"
	Code     attribute.Key = "holdpoint.call.code"
	Gated    attribute.Key = "holdpoint.call.gated"
	Attached attribute.Key = "holdpoint.call.attached"
	Skill    attribute.Key = "holdpoint.skill.name"
	Rule     attribute.Key = "holdpoint.approval.rule"
	Outcome  attribute.Key = "holdpoint.approval.outcome"
	Edited   attribute.Key = "holdpoint.approval.edited"
)
