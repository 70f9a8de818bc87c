package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope is the name of the instrumentation in every span.
const scope = "github.com/holdpoint/holdpoint"

// maxAttribute limits the text of an attribute, in bytes: names may come from outside.
const maxAttribute = 1024

// Config configures a [Tracer]. All fields are required.
type Config struct {
	// Exporter receives the spans. The Tracer shuts it down.
	Exporter sdktrace.SpanExporter
	// Version of this program.
	Version string
	Logger  *slog.Logger
}

// Tracer makes the spans of one process.
type Tracer struct {
	trace.Tracer // for spans that begin and end in this process

	late      trace.Tracer // for reserved spans; nil: nothing is recorded
	providers []*sdktrace.TracerProvider
	sent      *prometheus.CounterVec
}

// Off returns a Tracer that records nothing. It passes on the trace context of requests.
func Off() *Tracer {
	return &Tracer{Tracer: noop.NewTracerProvider().Tracer(scope), sent: newSent()}
}

// New makes a Tracer that records the spans that the sampler of OTEL_TRACES_SAMPLER selects. By default these are all spans,
// but of a client's trace only those that the client samples. The resource has service.name "holdpoint", unless
// OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES name another. The caller shuts the Tracer down.
func New(ctx context.Context, cfg Config) (*Tracer, error) {
	if cfg.Exporter == nil || cfg.Version == "" || cfg.Logger == nil {
		return nil, errors.New("make tracer: Exporter, Version and Logger are required")
	}
	about, err := resource.New(ctx,
		resource.WithSchemaURL(semconv.SchemaURL),
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			semconv.ServiceName("holdpoint"), semconv.ServiceVersion(cfg.Version), semconv.ServiceInstanceID(uuid.NewString()),
		),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("make tracer: describe this process: %w", err)
	}
	t := &Tracer{sent: newSent()}
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 || limits.AttributeValueLengthLimit > maxAttribute {
		limits.AttributeValueLengthLimit = maxAttribute
	}
	processor := sdktrace.NewBatchSpanProcessor(&countingExporter{next: cfg.Exporter, log: cfg.Logger, sent: t.sent})
	provider := func(more ...sdktrace.TracerProviderOption) trace.Tracer {
		p := sdktrace.NewTracerProvider(append(more,
			sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits), sdktrace.WithSpanProcessor(processor))...)
		t.providers = append(t.providers, p)
		return p.Tracer(scope, trace.WithInstrumentationVersion(cfg.Version), trace.WithSchemaURL(semconv.SchemaURL))
	}
	t.Tracer = provider()
	// A reserved span was sampled when it was reserved, perhaps in another process, and keeps its ids.
	t.late = provider(sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithIDGenerator(reservedIDs{}))
	return t, nil
}

type untracedKey struct{}

// Untraced returns a context in which no span begins a trace, because the sampler decided against one.
func Untraced(ctx context.Context) context.Context {
	return context.WithValue(ctx, untracedKey{}, true)
}

// Serve is Start for a request from outside. If handed is true, ctx holds the request's trace. Else the sampler decides
// whether a trace begins; if not, no later span of the request begins one.
func (t *Tracer) Serve(ctx context.Context, handed bool, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	inside, span := t.Start(ctx, name, options...)
	if !handed && !span.IsRecording() {
		return Untraced(ctx), span
	}
	return inside, span
}

// Recording reports whether spans may be recorded at all.
func (t *Tracer) Recording() bool { return t.late != nil }

// Flush exports all spans that have ended.
func (t *Tracer) Flush(ctx context.Context) error {
	for _, p := range t.providers {
		if err := p.ForceFlush(ctx); err != nil {
			return fmt.Errorf("flush traces: %w", err)
		}
	}
	return nil
}

// Shutdown exports the remaining spans and shuts the exporter down. Spans that end later are lost.
func (t *Tracer) Shutdown(ctx context.Context) error {
	var err error
	for _, p := range t.providers {
		err = errors.Join(err, p.Shutdown(ctx))
	}
	if err != nil {
		return fmt.Errorf("shut tracer down: %w", err)
	}
	return nil
}

// Collectors are the metrics of tracing itself.
func (t *Tracer) Collectors() []prometheus.Collector { return []prometheus.Collector{t.sent} }

// Fail marks a span as failed, with one of a few words as error.type. It sets no description: messages may contain
// confidential text.
func Fail(span trace.Span, errorType string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(errorType))
	span.SetStatus(codes.Error, "")
}

// reservedIDs gives reserved spans their ids.
type reservedIDs struct{}

// NewIDs implements [sdktrace.IDGenerator].
func (reservedIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	p := reservedFrom(ctx)
	return p.span.TraceID(), p.span.SpanID()
}

// NewSpanID implements [sdktrace.IDGenerator].
func (reservedIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return reservedFrom(ctx).span.SpanID()
}
