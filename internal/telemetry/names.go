package telemetry

import "go.opentelemetry.io/otel/attribute"

// Attributes of OpenTelemetry's conventions for generative AI and MCP. The conventions are in development, and the Go library
// has no constants for them: https://github.com/open-telemetry/semantic-conventions-genai.
const (
	OperationName  attribute.Key = "gen_ai.operation.name"
	ToolName       attribute.Key = "gen_ai.tool.name"
	ToolType       attribute.Key = "gen_ai.tool.type"
	ToolCallID     attribute.Key = "gen_ai.tool.call.id"
	AgentID        attribute.Key = "gen_ai.agent.id"
	AgentName      attribute.Key = "gen_ai.agent.name"
	ConversationID attribute.Key = "gen_ai.conversation.id"
	PromptName     attribute.Key = "gen_ai.prompt.name"
	ProviderName   attribute.Key = "gen_ai.provider.name"
	MCPMethod      attribute.Key = "mcp.method.name"
	MCPVersion     attribute.Key = "mcp.protocol.version"
)

// Attributes of requests to models and of their responses.
const (
	RequestModel      attribute.Key = "gen_ai.request.model"
	RequestMaxTokens  attribute.Key = "gen_ai.request.max_tokens" //nolint:gosec // a number of tokens
	RequestStream     attribute.Key = "gen_ai.request.stream"
	ResponseModel     attribute.Key = "gen_ai.response.model"
	ResponseID        attribute.Key = "gen_ai.response.id"
	FinishReasons     attribute.Key = "gen_ai.response.finish_reasons"
	TimeToFirstChunk  attribute.Key = "gen_ai.response.time_to_first_chunk"
	InputTokens       attribute.Key = "gen_ai.usage.input_tokens"            //nolint:gosec // a number of tokens
	CachedInputTokens attribute.Key = "gen_ai.usage.cache_read.input_tokens" //nolint:gosec // a number of tokens
	OutputTokens      attribute.Key = "gen_ai.usage.output_tokens"           //nolint:gosec // a number of tokens
)

// The values of [OperationName].
const (
	ExecuteTool = "execute_tool"
	InvokeAgent = "invoke_agent"
)

// Holdpoint's own attributes.
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
