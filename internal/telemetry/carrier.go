package telemetry

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The keys of trace context, in HTTP headers (W3C Trace Context) and in the _meta of MCP's requests (SEP-414).
const (
	Traceparent = "traceparent"
	Tracestate  = "tracestate"
)

// Limits in bytes. A traceparent has 55 bytes today, and may have more in later versions. The specification lets a tracestate
// be dropped that is longer than 512.
const (
	maxTraceparent = 256
	maxTracestate  = 512
)

// Handed is a trace context that a request carries, as unchecked text.
type Handed struct {
	Traceparent, Tracestate string
}

type carrier struct{ Handed }

// Get implements [propagation.TextMapCarrier].
func (c *carrier) Get(key string) string {
	switch key {
	case Traceparent:
		return c.Traceparent
	case Tracestate:
		return c.Tracestate
	}
	return ""
}

// Set implements [propagation.TextMapCarrier].
func (c *carrier) Set(key, value string) {
	switch key {
	case Traceparent:
		c.Traceparent = value
	case Tracestate:
		c.Tracestate = value
	}
}

// Keys implements [propagation.TextMapCarrier].
func (*carrier) Keys() []string { return []string{Traceparent, Tracestate} }

// FromHeader returns the trace context of a request's headers. Several tracestates are one list; several traceparents are invalid.
func FromHeader(header http.Header) Handed {
	parents := header["Traceparent"]
	if len(parents) != 1 {
		return Handed{}
	}
	return Handed{Traceparent: parents[0], Tracestate: strings.Join(header["Tracestate"], ",")}
}

// Set adds the trace context to a request's headers.
func (h Handed) Set(header http.Header) {
	if h.Traceparent == "" {
		return
	}
	header.Set(Traceparent, h.Traceparent)
	if h.Tracestate != "" {
		header.Set(Tracestate, h.Tracestate)
	}
}

// Remote returns a context in which new spans are children of the trace context. If that is invalid, it returns ctx and
// false.
func (h Handed) Remote(ctx context.Context) (_ context.Context, ok bool) {
	if h.Traceparent == "" || len(h.Traceparent) > maxTraceparent {
		return ctx, false
	}
	if len(h.Tracestate) > maxTracestate {
		h.Tracestate = ""
	}
	remote := propagation.TraceContext{}.Extract(context.Background(), &carrier{h})
	parent := trace.SpanContextFromContext(remote)
	if !parent.IsValid() {
		return ctx, false
	}
	return trace.ContextWithRemoteSpanContext(ctx, parent), true
}

// ToHand returns the trace context for outgoing requests: the span of ctx, if it is part of a trace.
func ToHand(ctx context.Context) Handed {
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	return c.Handed
}

// Traced reports whether ctx is part of a trace.
func Traced(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsValid() }
