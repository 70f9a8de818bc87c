package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Pending is the identity of a span whose end is not known yet. Its zero value belongs to no trace.
type Pending struct {
	span   trace.SpanContext // what its children are told
	parent trace.SpanID      // zero: it begins the trace
	ours   bool              // it is recorded when it ends; else the trace is only passed on
}

// Reserve fixes the identity of a span that ends later, as a child of the one in ctx, and has the sampler decide about it by
// its name and attributes. Where nothing is recorded, it stands for the trace that ctx holds, if any.
func (t *Tracer) Reserve(ctx context.Context, name string, attributes ...attribute.KeyValue) Pending {
	parent := trace.SpanContextFromContext(ctx)
	if !t.Recording() {
		return Pending{span: parent}
	}
	if !parent.IsValid() && ctx.Value(untracedKey{}) != nil {
		return Pending{}
	}
	// A span that never ends is never exported: this one lends its ids and the sampler's word only.
	_, span := t.Start(ctx, name, trace.WithAttributes(attributes...))
	switch {
	case span.IsRecording():
		return Pending{span: span.SpanContext(), parent: parent.SpanID(), ours: true}
	case parent.IsValid():
		return Pending{span: span.SpanContext()} // it was handed in, and is passed on, unsampled
	}
	return Pending{}
}

// Zero reports whether p belongs to no trace.
func (p Pending) Zero() bool { return !p.span.IsValid() }

// Recorded reports whether the span will be recorded, once it ends.
func (p Pending) Recorded() bool { return p.ours }

// TraceID is the trace that p belongs to, in hexadecimal; empty: none.
func (p Pending) TraceID() string {
	if p.Zero() {
		return ""
	}
	return p.span.TraceID().String()
}

// In is a context in which p is the parent of what begins.
func (p Pending) In(ctx context.Context) context.Context {
	if p.Zero() {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, p.span)
}

// Ended is what is known of a span when it ends.
type Ended struct {
	Name       string
	Kind       trace.SpanKind // zero: internal
	From, To   time.Time
	Attributes []attribute.KeyValue
	ErrorType  string // empty: it did not fail
}

// End writes the span whose identity was reserved. It is up to the caller to do so once.
func (t *Tracer) End(p Pending, e Ended) {
	if !p.ours || !t.Recording() {
		return
	}
	ctx := context.WithValue(context.Background(), reservedKey{}, p)
	if p.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, p.span.WithSpanID(p.parent))
	}
	t.write(ctx, t.late, e)
}

// Child writes a span that is over, as a child of the one that was reserved.
func (t *Tracer) Child(of Pending, e Ended) {
	if of.ours && t.Recording() {
		t.write(of.In(context.Background()), t.Tracer, e)
	}
}

func (*Tracer) write(ctx context.Context, by trace.Tracer, e Ended) {
	_, span := by.Start(ctx, e.Name, trace.WithSpanKind(e.Kind), trace.WithTimestamp(e.From), trace.WithAttributes(e.Attributes...))
	if e.ErrorType != "" {
		Fail(span, e.ErrorType)
	}
	if e.To.Before(e.From) { // two clocks that disagree
		e.To = e.From
	}
	span.End(trace.WithTimestamp(e.To))
}

type reservedKey struct{}

func reservedFrom(ctx context.Context) Pending {
	p, _ := ctx.Value(reservedKey{}).(Pending)
	return p
}

// pendingSize is that of the bytes of a Pending without a tracestate.
const pendingSize = 1 + 1 + 16 + 8 + 8

// Bytes is the form in which a Pending is stored: whether it is ours, flags, trace, span and parent, and the tracestate as
// text. Nil: it belongs to no trace.
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

// ReadPending reads what [Pending.Bytes] wrote. Anything else belongs to no trace: nothing fails for want of one.
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
	config.TraceState, _ = trace.ParseTraceState(string(rest)) // one that is not valid is none
	return Pending{span: trace.NewSpanContext(config), parent: parent, ours: b[0] == 1}
}
