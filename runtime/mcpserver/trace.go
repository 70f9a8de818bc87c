package mcpserver

import (
	"strconv"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// maxSpanID limits the request ids in spans: clients may choose any.
const maxSpanID = 64

// startSpan continues the client's trace: from _meta (SEP-414), else from the HTTP headers. If spans are recorded it starts
// one.
func (x *exchange) startSpan() {
	ctx, handed := x.msg.Meta.Trace.Remote(x.r.Context())
	if !handed {
		ctx, handed = telemetry.FromHeader(x.r.Header).Remote(ctx)
	}
	if x.Traces.Recording() {
		attributes := []attribute.KeyValue{
			telemetry.MCPMethod.String(x.spanName()), telemetry.AgentName.String(x.agent.Name), telemetry.AgentID.String(x.agent.ID.String()),
			semconv.NetworkTransportTCP, semconv.NetworkProtocolName("http"),
		}
		if version := x.r.Header.Get(wire.HeaderVersion); x.modern || version != "" {
			attributes = append(attributes, telemetry.MCPVersion.String(version))
		}
		if x.msg.Method == "tools/call" {
			attributes = append(attributes, telemetry.OperationName.String(telemetry.ExecuteTool))
		}
		if id := wire.Unquote(x.msg.ID); len(id) <= maxSpanID {
			attributes = append(attributes, semconv.JSONRPCRequestID(string(id)))
		}
		ctx, x.span = x.Traces.Serve(ctx, handed, x.spanName(), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	}
	if handed || x.span != nil {
		x.r = x.r.WithContext(ctx)
	}
}

// spanName returns the method if it is a known one.
func (x *exchange) spanName() string {
	switch method := x.msg.Method; method {
	case "tools/call", "tools/list", "server/discover", "initialize", "ping", "logging/setLevel", "subscriptions/listen", "tasks/get", "tasks/update",
		"tasks/cancel", "resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"prompts/list", "prompts/get", "completion/complete":
		return method
	}
	return "_OTHER"
}

// spanTool names the span after a tool.
func (x *response) spanTool(name string) {
	if x.span != nil && x.span.IsRecording() {
		x.span.SetName(x.msg.Method + " " + name)
		x.span.SetAttributes(telemetry.ToolName.String(name))
	}
}

// spanCall adds the call to the span.
func (x *response) spanCall(id uuid.UUID, attached bool) {
	if x.span != nil && x.span.IsRecording() {
		x.span.SetAttributes(telemetry.CallID.String(id.String()), telemetry.Attached.Bool(attached))
	}
}

// spanEnded adds the call's outcome to the span.
func (x *response) spanEnded(c *call.Call) {
	if x.span == nil || !x.span.IsRecording() {
		return
	}
	x.span.SetAttributes(telemetry.Status.String(string(c.Status)))
	if c.Status != call.Succeeded {
		telemetry.Fail(x.span, c.Code)
	}
}

// spanFailed adds a JSON-RPC error to the span.
func (x *response) spanFailed(code int64) {
	if x.span == nil || !x.span.IsRecording() {
		return
	}
	text := strconv.FormatInt(code, 10)
	x.span.SetAttributes(semconv.RPCResponseStatusCode(text))
	telemetry.Fail(x.span, text)
}
