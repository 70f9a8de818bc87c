package httptool

import (
	"context"
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
		x.ctx, span = x.startSpan(name)
	}
	err := do()
	x.ctx = before
	x.measured.Steps = append(x.measured.Steps, tool.Step{Name: name, Took: now().Sub(began), Err: stepError(err)})
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
		telemetry.Fail(span, errorType(err))
	}
	span.End()
}

func (x *exchange) startSpan(name string) (context.Context, trace.Span) {
	about := []attribute.KeyValue{telemetry.Skill.String(x.server.Skill), telemetry.ToolName.String(x.call.Tool)}
	kind := trace.SpanKindInternal
	if name == stepCall {
		kind = trace.SpanKindClient
		about = append(about, semconv.HTTPRequestMethodKey.String(x.request.method), semconv.ServerAddress(x.request.base.Hostname()))
		if port, err := strconv.Atoi(x.request.base.Port()); err == nil {
			about = append(about, semconv.ServerPort(port))
		}
	}
	return x.source.config.Traces.Start(x.ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(about...)) //nolint:spancheck // runStep ends it
}

// stepError returns the error of a step for a failure's Exchange. A failure becomes its kind, so that it does not contain itself.
func stepError(err error) error {
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return errors.New(string(failure.Kind))
	}
	return err
}

// errorType returns the error type of a span.
func errorType(err error) string {
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return string(failure.Kind)
	}
	if isArgumentError(err) {
		return "invalid_arguments"
	}
	return string(tool.ProtocolFailure)
}
