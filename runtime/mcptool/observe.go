package mcptool

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// connecting is the method label for opening a session.
const connecting = "connect"

func newDurations() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "holdpoint_skill_request_duration_seconds",
		Help:    `Requests to skill servers, by MCP method ("connect": making a session) and outcome: answered, or what kind of failure there was instead.`,
		Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	}, []string{"skill", "method", "outcome"})
}

// Collectors returns the metrics of requests to servers.
func (s *Source) Collectors() []prometheus.Collector { return []prometheus.Collector{s.durations} }

// methodLabel returns a method as a label of bounded cardinality.
func methodLabel(method string) string {
	switch method {
	case connecting, "tools/call", "tools/list", "resources/list", "resources/read", "resources/templates/list", "prompts/list",
		"prompts/get", "completion/complete", "tasks/get":
		return method
	}
	return "other"
}

// observation measures a request for metrics and traces.
type observation struct {
	source *Source
	skill  string
	method string
	began  time.Time
	span   trace.Span // nil: the request is not part of a trace
}

// observeRequest begins the observation of a request, and adds the trace context to its _meta. It only continues traces. It makes no spans
// of tasks/get, of which there may be thousands.
func (s *Source) observeRequest(ctx context.Context, server tool.Server, info session.Info, r *session.Request) (context.Context, observation) {
	o := observation{source: s, skill: server.Skill, method: r.Method, began: s.config.Now()}
	if !telemetry.Traced(ctx) {
		return ctx, o
	}
	if s.config.Traces.Recording() && r.Method != "tasks/get" {
		name, about := r.Method, []attribute.KeyValue{telemetry.MCPMethod.String(r.Method), telemetry.MCPVersion.String(info.Capabilities.ProtocolVersion)}
		switch r.Method {
		case "tools/call":
			name += " " + r.Name
			about = append(about, telemetry.OperationName.String(telemetry.ExecuteTool), telemetry.ToolName.String(r.Name))
		case "prompts/get":
			name += " " + r.Name
			about = append(about, telemetry.PromptName.String(r.Name))
		}
		ctx, o.span = s.startSpan(ctx, server, name, about)
	}
	r.Trace = telemetry.ToHand(ctx)
	return ctx, o
}

// observeConnect begins the observation of opening a session for the operation of the context of.
func (s *Source) observeConnect(ctx, of context.Context, server tool.Server) (context.Context, observation) {
	o := observation{source: s, skill: server.Skill, method: connecting, began: s.config.Now()}
	if telemetry.Traced(of) && s.config.Traces.Recording() {
		ctx = trace.ContextWithSpanContext(ctx, trace.SpanContextFromContext(of))
		ctx, o.span = s.startSpan(ctx, server, connecting, nil)
	}
	return ctx, o
}

func (s *Source) startSpan(ctx context.Context, server tool.Server, name string, about []attribute.KeyValue) (context.Context, trace.Span) {
	about = append(about, telemetry.Skill.String(server.Skill))
	if server.Transport == tool.Stdio {
		about = append(about, semconv.NetworkTransportPipe)
	} else if u, err := url.Parse(server.URL); err == nil {
		about = append(about, semconv.NetworkTransportTCP, semconv.NetworkProtocolName("http"), semconv.ServerAddress(u.Hostname()))
		if port, err := strconv.Atoi(u.Port()); err == nil {
			about = append(about, semconv.ServerPort(port))
		}
	}
	return s.config.Traces.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(about...)) //nolint:spancheck // its observation ends it
}

// finishObservation ends the observation.
func (o observation) finishObservation(result json.RawMessage, failure *tool.Failure) {
	outcome := "answered"
	if failure != nil {
		outcome = string(failure.Kind)
	}
	o.source.durations.WithLabelValues(o.skill, methodLabel(o.method), outcome).Observe(o.source.config.Now().Sub(o.began).Seconds())
	if o.span == nil {
		return
	}
	defer o.span.End()
	switch { // its error is the code of a JSON-RPC error, or the kind of failure
	case !o.span.IsRecording():
	case failure != nil && failure.Kind == tool.JSONRPCError:
		var rpc struct {
			Code json.Number `json:"code"`
		}
		if err := json.Unmarshal(failure.RPC, &rpc); err != nil || len(rpc.Code) > 16 {
			rpc.Code = "_OTHER"
		}
		o.span.SetAttributes(semconv.RPCResponseStatusCode(rpc.Code.String()))
		telemetry.Fail(o.span, rpc.Code.String())
	case failure != nil:
		telemetry.Fail(o.span, string(failure.Kind))
	case o.method == "tools/call":
		if r, failure := readResult(result); failure == nil && r.IsError {
			telemetry.Fail(o.span, string(tool.ToolError))
		}
	}
}
