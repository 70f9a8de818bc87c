package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Pending is the identity of a span that has not ended. Its zero value belongs to no trace.
type Pending struct {
	span   trace.SpanContext // the parent of its children
	parent trace.SpanID      // zero: this span begins the trace
	ours   bool              // recorded at its end; else the trace is only passed on
}

// Reserve fixes the identity of a span that ends later, as a child of the span in ctx. The sampler decides by its name and
// attributes whether it is recorded. If nothing is recorded, it represents the trace in ctx, if any.
func (t *Tracer) Reserve(ctx context.Context, name string, attributes ...attribute.KeyValue) Pending {
	parent := trace.SpanContextFromContext(ctx)
	if !t.Recording() {
		return Pending{span: parent}
	}
	if !parent.IsValid() && ctx.Value(untracedKey{}) != nil {
		return Pending{}
	}
	// This span never ends, so it is never exported: only its ids and the sampler's decision are used.
	_, span := t.Start(ctx, name, trace.WithAttributes(attributes...))
	switch {
	case span.IsRecording():
		return Pending{span: span.SpanContext(), parent: parent.SpanID(), ours: true}
	case parent.IsValid():
		return Pending{span: span.SpanContext()} // the trace of a request is passed on, unsampled
	}
	return Pending{}
}

// Zero reports whether p belongs to no trace.
func (p Pending) Zero() bool { return !p.span.IsValid() }

// Recorded reports whether the span is recorded at its end.
func (p Pending) Recorded() bool { return p.ours }

// TraceID returns the id of the trace in hexadecimal, or "" if p belongs to no trace.
func (p Pending) TraceID() string {
	if p.Zero() {
		return ""
	}
	return p.span.TraceID().String()
}

// In returns a context in which new spans are children of p.
func (p Pending) In(ctx context.Context) context.Context {
	if p.Zero() {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, p.span)
}

// Ended describes a span that has ended.
type Ended struct {
	Name       string
	Kind       trace.SpanKind // zero: internal
	From, To   time.Time
	Attributes []attribute.KeyValue
	ErrorType  string // empty: it did not fail
}

// End writes the reserved span. The caller must do this only once.
func (t *Tracer) End(p Pending, e Ended) {
	if !p.ours || !t.Recording() {
		return
	}
	ctx := context.WithValue(context.Background(), reservedKey{}, p)
	if p.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, p.span.WithSpanID(p.parent))
	}
	t.writeSpan(ctx, t.late, e)
}

// Child writes a span that has ended, as a child of the reserved one.
func (t *Tracer) Child(of Pending, e Ended) {
	if of.ours && t.Recording() {
		t.writeSpan(of.In(context.Background()), t.Tracer, e)
	}
}

func (*Tracer) writeSpan(ctx context.Context, by trace.Tracer, e Ended) {
	_, span := by.Start(ctx, e.Name, trace.WithSpanKind(e.Kind), trace.WithTimestamp(e.From), trace.WithAttributes(e.Attributes...))
	if e.ErrorType != "" {
		Fail(span, e.ErrorType)
	}
	if e.To.Before(e.From) { // the clocks of two processes differ
		e.To = e.From
	}
	span.End(trace.WithTimestamp(e.To))
}

type reservedKey struct{}

func reservedFrom(ctx context.Context) Pending {
	p, _ := ctx.Value(reservedKey{}).(Pending)
	return p
}

// pendingSize is the number of bytes of a Pending without a tracestate.
const pendingSize = 1 + 1 + 16 + 8 + 8

// Bytes encodes p for storage: whether it is recorded, flags, trace, span and parent, and the tracestate as text. It is nil
// if p belongs to no trace.
func (p Pending) Bytes() []byte {
	if p.Zero() {
		return nil
	}
	state := p.span.TraceState().String()
	id, span := p.span.TraceID(), p.span.SpanID()
	b := make([]byte, 0, pendingSize+len(state))
	b = append(b, 0, byte(p.span.TraceFlags()))
	if p.ours {
		b[0] = 1
	}
	return append(slices.Concat(b, id[:], span[:], p.parent[:]), state...)
}

// ReadPending decodes [Pending.Bytes]. Anything else belongs to no trace, which is no error.
func ReadPending(b []byte) Pending {
	if len(b) < pendingSize {
		return Pending{}
	}
	config := trace.SpanContextConfig{TraceFlags: trace.TraceFlags(b[1])}
	var parent trace.SpanID
	rest := b[2:]
	rest = rest[copy(config.TraceID[:], rest):]
	rest = rest[copy(config.SpanID[:], rest):]
	rest = rest[copy(parent[:], rest):]
	config.TraceState, _ = trace.ParseTraceState(string(rest)) // an invalid one is dropped
	return Pending{span: trace.NewSpanContext(config), parent: parent, ours: b[0] == 1}
}
