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

// Bounds of what is handed in. A traceparent of today has 55 bytes; later versions may have more. A tracestate that is
// longer than what the specification demands to be passed on is dropped, which it allows.
const (
	maxTraceparent = 256
	maxTracestate  = 512
)

// Handed is a trace context as it was handed in. It is text from outside.
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

// FromHeader is the trace context of a request's headers. Several traceparents are none; several tracestates are one list.
func FromHeader(header http.Header) Handed {
	parents := header["Traceparent"]
	if len(parents) != 1 {
		return Handed{}
	}
	return Handed{Traceparent: parents[0], Tracestate: strings.Join(header["Tracestate"], ",")}
}

// Set writes a trace context into a request's headers.
func (h Handed) Set(header http.Header) {
	if h.Traceparent == "" {
		return
	}
	header.Set(Traceparent, h.Traceparent)
	if h.Tracestate != "" {
		header.Set(Tracestate, h.Tracestate)
	}
}

// Remote returns the context in which what was handed in is the parent of what begins. What is not valid counts as not
// handed in: then ctx is returned as it is, and ok is false.
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

// ToHand is the trace context that is handed on: the span of ctx, if it is part of a trace.
func ToHand(ctx context.Context) Handed {
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	return c.Handed
}

// Traced reports whether ctx is part of a trace.
func Traced(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsValid() }
