package httptool

import (
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The steps of a call, as [tool.Exchange] and traces name them.
const (
	stepResolve     = "resolve"     // build the request from the arguments
	stepCredentials = "credentials" // add the headers and credentials of the skill
	stepCall        = "call"        // send it and read the answer
	stepTransform   = "transform"   // turn the answer into a result
)

// runStep runs a step of a call and measures it. If the call is traced it records a span.
func (x *exchange) runStep(name string, do func() error) {
	now := x.source.config.Now
	began, before := now(), x.ctx
	var span trace.Span
	if telemetry.Traced(x.ctx) && x.source.config.Traces.Recording() {
		about := []attribute.KeyValue{telemetry.Skill.String(x.server.Skill), telemetry.ToolName.String(x.call.Tool)}
		kind := trace.SpanKindInternal
		if name == stepCall {
			kind = trace.SpanKindClient
			about = append(about, semconv.HTTPRequestMethodKey.String(x.request.method), semconv.ServerAddress(x.request.base.Hostname()))
			if port, err := strconv.Atoi(x.request.base.Port()); err == nil {
				about = append(about, semconv.ServerPort(port))
			}
		}
		x.ctx, span = x.source.config.Traces.Start(x.ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(about...))
	}
	err := do()
	x.ctx = before
	kind := string(tool.ProtocolFailure)
	if isArgumentError(err) {
		kind = "invalid_arguments"
	}
	stepErr := err
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		kind = string(failure.Kind)
		stepErr = errors.New(kind) // a failure's Exchange must not contain the failure
	}
	x.measured.Steps = append(x.measured.Steps, tool.Step{Name: name, Took: now().Sub(began), Err: stepErr})
	if span == nil {
		return
	}
	if status := x.measured.Status; name == stepCall && status != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
		if status >= 400 {
			telemetry.Fail(span, strconv.Itoa(status))
		}
	}
	if err != nil {
		telemetry.Fail(span, kind)
	}
	span.End()
}
