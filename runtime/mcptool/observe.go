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
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// connecting is what making a session is called beside the methods of requests.
const connecting = "connect"

func newDurations() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "holdpoint_skill_request_duration_seconds",
		Help:    `Requests to skill servers, by MCP method ("connect": making a session) and outcome: answered, or what kind of failure there was instead.`,
		Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	}, []string{"skill", "method", "outcome"})
}

// Collectors are the metrics of requests to servers.
func (s *Source) Collectors() []prometheus.Collector { return []prometheus.Collector{s.durations} }

// methodLabel bounds the label: the rest are few, and asked for by name.
func methodLabel(method string) string {
	switch method {
	case connecting, "tools/call", "tools/list", "resources/list", "resources/read", "resources/templates/list", "prompts/list",
		"prompts/get", "completion/complete", "tasks/get":
		return method
	}
	return "other"
}

// observation is one request on its way, as metrics and traces have it.
type observation struct {
	source *Source
	skill  string
	method string
	began  time.Time
	span   trace.Span // nil: the request is part of no trace
}

// observe begins the observation of a request, whose _meta then says which trace it belongs to. A span is written only of what
// is part of a trace: none begins here. Nor is one of each look at a task, of which there may be thousands.
func (s *Source) observe(ctx context.Context, server tool.Server, agreed negotiated, r *request) (context.Context, observation) {
	o := observation{source: s, skill: server.Skill, method: r.method, began: s.config.Now()}
	if !telemetry.Traced(ctx) {
		return ctx, o
	}
	if s.config.Traces.Recording() && r.method != "tasks/get" {
		name, about := r.method, []attribute.KeyValue{telemetry.MCPMethod.String(r.method), telemetry.MCPVersion.String(agreed.version)}
		switch r.method {
		case "tools/call":
			name += " " + r.name
			about = append(about, telemetry.OperationName.String(telemetry.ExecuteTool), telemetry.ToolName.String(r.name))
		case "prompts/get":
			name += " " + r.name
			about = append(about, telemetry.PromptName.String(r.name))
		}
		ctx, o.span = s.start(ctx, server, name, about)
	}
	r.trace = telemetry.ToHand(ctx)
	return ctx, o
}

// observeConnect begins the observation of making a session; of is who needs it.
func (s *Source) observeConnect(ctx, of context.Context, server tool.Server) (context.Context, observation) {
	o := observation{source: s, skill: server.Skill, method: connecting, began: s.config.Now()}
	if telemetry.Traced(of) && s.config.Traces.Recording() {
		ctx = trace.ContextWithSpanContext(ctx, trace.SpanContextFromContext(of))
		ctx, o.span = s.start(ctx, server, connecting, nil)
	}
	return ctx, o
}

func (s *Source) start(ctx context.Context, server tool.Server, name string, about []attribute.KeyValue) (context.Context, trace.Span) {
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

// end ends an observation.
func (o observation) end(result json.RawMessage, failure *tool.Failure) {
	outcome := "answered"
	if failure != nil {
		outcome = string(failure.Kind)
	}
	o.source.durations.WithLabelValues(o.skill, methodLabel(o.method), outcome).Observe(o.source.config.Now().Sub(o.began).Seconds())
	if o.span == nil {
		return
	}
	if o.span.IsRecording() {
		o.judge(result, failure)
	}
	o.span.End()
}

// judge says of a span what failed: the JSON-RPC error's code, or the kind of failure.
func (o observation) judge(result json.RawMessage, failure *tool.Failure) {
	switch {
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

// noteID says which request of a session a span is about.
func noteID(ctx context.Context, id int64) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(semconv.JSONRPCRequestID(strconv.FormatInt(id, 10)))
	}
}
