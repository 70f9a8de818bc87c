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

// The steps of a call that this package takes, as [tool.Exchange] and traces name them.
const (
	stepResolve     = "resolve"     // arguments become a request
	stepCredentials = "credentials" // what the skill and Holdpoint set is put on it
	stepCall        = "call"        // it is sent, and its answer read
	stepTransform   = "transform"   // the answer becomes a result
)

// step takes a step of a call, measures it, and writes its span where the call is part of a trace.
func (x *exchange) step(name string, do func() error) {
	now := x.source.config.Now
	began, before := now(), x.ctx
	var span trace.Span
	if telemetry.Traced(x.ctx) && x.source.config.Traces.Recording() {
		x.ctx, span = x.start(name)
	}
	err := do()
	x.ctx = before
	x.told.Steps = append(x.told.Steps, tool.Step{Name: name, Took: now().Sub(began), Err: stepError(err)})
	if span == nil {
		return
	}
	if name == stepCall {
		x.describeAnswer(span)
	}
	if err != nil {
		telemetry.Fail(span, errorType(err))
	}
	span.End()
}

func (x *exchange) start(name string) (context.Context, trace.Span) {
	about := []attribute.KeyValue{telemetry.Skill.String(x.server.Skill), telemetry.ToolName.String(x.request.Tool)}
	kind := trace.SpanKindInternal
	if name == stepCall {
		kind = trace.SpanKindClient
		about = append(about, semconv.HTTPRequestMethodKey.String(x.out.method), semconv.ServerAddress(x.out.base.Hostname()))
		if port, err := strconv.Atoi(x.out.base.Port()); err == nil {
			about = append(about, semconv.ServerPort(port))
		}
	}
	return x.source.config.Traces.Start(x.ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(about...)) //nolint:spancheck // step ends it
}

// describeAnswer says of a span what was answered.
func (x *exchange) describeAnswer(span trace.Span) {
	if x.told.Status == 0 {
		return
	}
	span.SetAttributes(semconv.HTTPResponseStatusCode(x.told.Status))
	if x.told.Status >= 400 {
		telemetry.Fail(span, strconv.Itoa(x.told.Status))
	}
}

// stepError is the error of a step as it is kept with a failure, which it would else hold itself.
func stepError(err error) error {
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return errors.New(string(failure.Kind))
	}
	return err
}

func errorType(err error) string {
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return string(failure.Kind)
	}
	if isArgumentError(err) {
		return "invalid_arguments"
	}
	return string(tool.ProtocolFailure)
}
