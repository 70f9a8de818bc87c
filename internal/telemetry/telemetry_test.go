package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

const (
	parent  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
)

func newRecording(t *testing.T) (*telemetry.Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	tracer, err := telemetry.New(t.Context(), telemetry.Config{Exporter: exporter, Version: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tracer.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return tracer, exporter
}

func endedSpans(t *testing.T, tracer *telemetry.Tracer, exporter *tracetest.InMemoryExporter) map[string]tracetest.SpanStub {
	t.Helper()
	if err := tracer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	byName := map[string]tracetest.SpanStub{}
	for _, s := range exporter.GetSpans() {
		byName[s.Name] = s
	}
	return byName
}

// A span that one process reserved ends in another, with children in both.
func TestReservedElsewhere(t *testing.T) {
	t.Parallel()
	here, hereSpans := newRecording(t)
	there, thereSpans := newRecording(t)
	ctx, ok := telemetry.Handed{Traceparent: parent, Tracestate: "rojo=1"}.Remote(t.Context())
	if !ok {
		t.Fatal("a valid traceparent was not taken")
	}
	stored := here.Reserve(ctx, "execute_tool echo").Bytes()
	if len(stored) != 34+len("rojo=1") {
		t.Errorf("stored %d bytes", len(stored))
	}
	pending := telemetry.ReadPending(stored)
	from := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	to := from.Add(72 * time.Hour)
	there.Child(pending, telemetry.Ended{Name: "wait decision", From: from, To: to})
	inside, span := there.Start(pending.In(t.Context()), "tools/call echo", trace.WithSpanKind(trace.SpanKindClient))
	if got := telemetry.ToHand(inside); !strings.HasPrefix(got.Traceparent, "00-"+traceID+"-"+span.SpanContext().SpanID().String()) || got.Tracestate != "rojo=1" {
		t.Errorf("handed on %+v", got)
	}
	span.End()
	there.End(pending, telemetry.Ended{Name: "execute_tool echo", From: from, To: to, ErrorType: "tool_error"})

	if got := endedSpans(t, here, hereSpans); len(got) != 0 {
		t.Errorf("where it was reserved, %d spans were exported", len(got))
	}
	got := endedSpans(t, there, thereSpans)
	call := got["execute_tool echo"]
	if call.SpanContext.TraceID().String() != traceID || call.Parent.SpanID().String() != spanID {
		t.Errorf("call %s, child of %s", call.SpanContext.TraceID(), call.Parent.SpanID())
	}
	if !call.StartTime.Equal(from) || !call.EndTime.Equal(to) || call.Status.Description != "" || call.Status.Code.String() != "Error" {
		t.Errorf("call from %s to %s: %+v", call.StartTime, call.EndTime, call.Status)
	}
	for _, name := range []string{"wait decision", "tools/call echo"} {
		if child := got[name]; child.Parent.SpanID() != call.SpanContext.SpanID() || child.SpanContext.TraceID() != call.SpanContext.TraceID() {
			t.Errorf("%s is a child of %s, not of the call %s", name, child.Parent.SpanID(), call.SpanContext.SpanID())
		}
	}
}

func TestReservedRoot(t *testing.T) {
	t.Parallel()
	tracer, exporter := newRecording(t)
	pending := telemetry.ReadPending(tracer.Reserve(t.Context(), "root").Bytes())
	tracer.End(pending, telemetry.Ended{Name: "root", From: time.Unix(2, 0), To: time.Unix(1, 0)})
	root := endedSpans(t, tracer, exporter)["root"]
	if root.SpanContext.TraceID().String() != pending.TraceID() || root.Parent.IsValid() {
		t.Errorf("root is of %s, below %s; want %s, below none", root.SpanContext.TraceID(), root.Parent.SpanID(), pending.TraceID())
	}
	if root.EndTime.Before(root.StartTime) {
		t.Error("it ended before it began")
	}
}

// A client's unsampled trace is passed on but not recorded.
func TestUnsampled(t *testing.T) {
	t.Parallel()
	tracer, exporter := newRecording(t)
	ctx, _ := telemetry.Handed{Traceparent: strings.TrimSuffix(parent, "1") + "0"}.Remote(t.Context())
	pending := telemetry.ReadPending(tracer.Reserve(ctx, "call").Bytes())
	if pending.Recorded() || pending.TraceID() != traceID {
		t.Errorf("recorded %t, trace %q", pending.Recorded(), pending.TraceID())
	}
	inside, span := tracer.Start(pending.In(t.Context()), "child")
	span.End()
	tracer.End(pending, telemetry.Ended{Name: "call"})
	tracer.Child(pending, telemetry.Ended{Name: "wait"})
	if got := telemetry.ToHand(inside).Traceparent; !strings.HasPrefix(got, "00-"+traceID) || !strings.HasSuffix(got, "-00") {
		t.Errorf("handed on %q", got)
	}
	if got := endedSpans(t, tracer, exporter); len(got) != 0 {
		t.Errorf("%d spans were exported", len(got))
	}
}

// Without a collector, the client's trace context is passed on unchanged. A call without one gets none.
func TestOff(t *testing.T) {
	t.Parallel()
	off := telemetry.Off()
	if got := off.Reserve(t.Context(), "call").Bytes(); got != nil {
		t.Errorf("stored %x of a call without a trace", got)
	}
	ctx, _ := telemetry.Handed{Traceparent: parent, Tracestate: "rojo=1"}.Remote(t.Context())
	pending := telemetry.ReadPending(off.Reserve(ctx, "call").Bytes())
	inside, span := off.Start(pending.In(t.Context()), "tools/call echo")
	span.End()
	if got := telemetry.ToHand(inside); got.Traceparent != parent || got.Tracestate != "rojo=1" {
		t.Errorf("handed on %+v", got)
	}
	// Another process that records must not write a span with the client's id.
	tracer, exporter := newRecording(t)
	tracer.End(pending, telemetry.Ended{Name: "call"})
	if got := endedSpans(t, tracer, exporter); len(got) != 0 {
		t.Errorf("%d spans were exported", len(got))
	}
}

// If the sampler drops a request without a trace, its later steps begin no trace.
func TestServedUnsampled(t *testing.T) {
	t.Parallel()
	unsampled, _ := telemetry.Off().Serve(t.Context(), false, "tools/call")
	tracer, _ := newRecording(t)
	if got := tracer.Reserve(unsampled, "call"); !got.Zero() {
		t.Errorf("a trace %s began", got.TraceID())
	}
	sampled, span := tracer.Serve(t.Context(), false, "tools/call")
	if got := tracer.Reserve(sampled, "call"); got.TraceID() != span.SpanContext().TraceID().String() || !got.Recorded() {
		t.Errorf("recorded %t in trace %s", got.Recorded(), got.TraceID())
	}
}

func TestOffCostsNothing(t *testing.T) { // not parallel: it counts allocations
	off, ctx := telemetry.Off(), t.Context()
	costs := testing.AllocsPerRun(100, func() {
		if telemetry.Traced(ctx) {
			t.Error("the empty context is part of a trace")
		}
		off.Reserve(ctx, "call")
	})
	if costs != 0 {
		t.Errorf("%f allocations a call that is not traced", costs)
	}
}

func TestHandedIn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		handed telemetry.Handed
		ok     bool
		state  string
	}{
		"valid":               {telemetry.Handed{parent, "a=1,b=2"}, true, "a=1,b=2"},
		"none":                {telemetry.Handed{"", "a=1"}, false, ""},
		"capital letters":     {telemetry.Handed{strings.ToUpper(parent), ""}, false, ""},
		"zero trace":          {telemetry.Handed{"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01", ""}, false, ""},
		"zero span":           {telemetry.Handed{"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", ""}, false, ""},
		"version ff":          {telemetry.Handed{"ff" + parent[2:], ""}, false, ""},
		"more in version 00":  {telemetry.Handed{parent + "-more", ""}, false, ""},
		"a later version":     {telemetry.Handed{"cc" + parent[2:] + "-more", ""}, true, ""},
		"too long":            {telemetry.Handed{"cc" + parent[2:] + "-" + strings.Repeat("x", 300), ""}, false, ""},
		"state too long":      {telemetry.Handed{parent, "a=" + strings.Repeat("x", 600)}, true, ""},
		"state is not valid":  {telemetry.Handed{parent, "a=\x00"}, true, ""},
		"state with newlines": {telemetry.Handed{parent, "a=1\r\nX: y"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, ok := tc.handed.Remote(t.Context())
			if ok != tc.ok || telemetry.Traced(ctx) != tc.ok {
				t.Errorf("taken %t, want %t", ok, tc.ok)
			}
			if got := telemetry.ToHand(ctx).Tracestate; got != tc.state {
				t.Errorf("tracestate %q, want %q", got, tc.state)
			}
		})
	}
}

func TestFromHeader(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	header.Add("traceparent", parent)
	header.Add("tracestate", "a=1")
	header.Add("tracestate", "b=2")
	if got := telemetry.FromHeader(header); got.Traceparent != parent || got.Tracestate != "a=1,b=2" {
		t.Errorf("read %+v", got)
	}
	header.Add("traceparent", parent)
	if got := telemetry.FromHeader(header); got != (telemetry.Handed{}) {
		t.Errorf("of two parents took %+v", got)
	}
}

func TestReadPendingOfAnythingElse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", strings.Repeat("\x00", 34), strings.Repeat("\x00", 400)} {
		if got := telemetry.ReadPending([]byte(text)); !got.Zero() || got.Recorded() {
			t.Errorf("%q belongs to trace %s", text, got.TraceID())
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env  map[string]string
		want string // of the error; empty: none
		on   bool
	}{
		"nothing said":    {nil, "", false},
		"an endpoint":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, "", true},
		"switched off":    {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, "", false},
		"no exporter":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, "", false},
		"other exporter":  {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER", false},
		"no URL":          {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "secret:collector:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT", false},
		"another wire":    {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL", false},
		"broken headers":  {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization Bearer secret"}, "OTEL_EXPORTER_OTLP_HEADERS", false},
		"headers to be":   {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20secret"}, "", true},
		"broken encoding": {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=%zzsecret"}, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer, err := telemetry.Open(t.Context(), func(name string) string { return tc.env[name] }, "test", slog.New(slog.DiscardHandler))
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
					t.Fatalf("error %v, want one that names %s and holds no value", err, tc.want)
				}
				return
			}
			if err != nil || tracer.Recording() != tc.on {
				t.Fatalf("recording %v, %v; want %t", tracer.Recording(), err, tc.on)
			}
			if err := tracer.Shutdown(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
}

type failing struct{ err error }

func (f *failing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return f.err }
func (f *failing) Shutdown(context.Context) error                             { return nil }

// A failing exporter is logged once, and lost spans are counted.
func TestExporterFails(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	exporter := &failing{errors.New("refused")}
	tracer, err := telemetry.New(t.Context(), telemetry.Config{Exporter: exporter, Version: "test", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	one := func() {
		_, span := tracer.Start(t.Context(), "one")
		span.End()
		if err := tracer.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	one()
	one()
	exporter.err = nil
	one()
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("want two lines:\n%s", log.String())
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(tracer.Collectors()...)
	got := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	if got["lost"] != 2 || got["exported"] != 1 {
		t.Errorf("counted %v", got)
	}
}
