package mcpserver

import (
	"strconv"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// maxSpanID bounds the ids of requests that spans name: clients may choose any.
const maxSpanID = 64

// trace puts the request into the trace that its client handed in: in _meta (SEP-414), else in the HTTP headers. Where spans are
// recorded it begins one, in a trace of its own if there was none.
func (x *exchange) trace() {
	ctx, handed := x.msg.meta.trace.Remote(x.r.Context())
	if !handed {
		ctx, handed = telemetry.FromHeader(x.r.Header).Remote(ctx)
	}
	if x.Traces.Recording() {
		ctx, x.span = x.Traces.Serve(ctx, handed, x.spanName(), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(x.spanAttributes()...))
	}
	if handed || x.span != nil {
		x.r = x.r.WithContext(ctx)
	}
}

// spanName is the method's, as long as it is one of those there are.
func (x *exchange) spanName() string {
	switch method := x.msg.method; method {
	case "tools/call", "tools/list", "server/discover", "initialize", "ping", "logging/setLevel", "subscriptions/listen", "tasks/get", "tasks/update",
		"tasks/cancel", "resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"prompts/list", "prompts/get", "completion/complete":
		return method
	}
	return "_OTHER"
}

func (x *exchange) spanAttributes() []attribute.KeyValue {
	list := []attribute.KeyValue{
		telemetry.MCPMethod.String(x.spanName()), telemetry.AgentName.String(x.agent.Name), telemetry.AgentID.String(x.agent.ID.String()),
		semconv.NetworkTransportTCP, semconv.NetworkProtocolName("http"),
	}
	if version := x.r.Header.Get(headerVersion); x.modern || version != "" {
		list = append(list, telemetry.MCPVersion.String(version))
	}
	if x.msg.method == "tools/call" {
		list = append(list, telemetry.OperationName.String(telemetry.ExecuteTool))
	}
	if id := unquote(x.msg.id); len(id) <= maxSpanID {
		list = append(list, semconv.JSONRPCRequestID(string(id)))
	}
	return list
}

// spanTool names the span after a tool of the agent's.
func (x *exchange) spanTool(name string) {
	if x.span != nil && x.span.IsRecording() {
		x.span.SetName(x.msg.method + " " + name)
		x.span.SetAttributes(telemetry.ToolName.String(name))
	}
}

// spanCall says which call a request is about.
func (x *exchange) spanCall(id uuid.UUID, attached bool) {
	if x.span != nil && x.span.IsRecording() {
		x.span.SetAttributes(telemetry.CallID.String(id.String()), telemetry.Attached.Bool(attached))
	}
}

// spanEnded says how the call ended that a request is answered with.
func (x *exchange) spanEnded(c *call.Call) {
	if x.span == nil || !x.span.IsRecording() {
		return
	}
	x.span.SetAttributes(telemetry.Status.String(string(c.Status)))
	if c.Status != call.Succeeded {
		telemetry.Fail(x.span, c.Code)
	}
}

// spanFailed says that a request is answered with a JSON-RPC error.
func (x *exchange) spanFailed(code int64) {
	if x.span == nil || !x.span.IsRecording() {
		return
	}
	text := strconv.FormatInt(code, 10)
	x.span.SetAttributes(semconv.RPCResponseStatusCode(text))
	telemetry.Fail(x.span, text)
}
