package httptool_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"

// TestSteps: the steps are measured, and are spans of the call's trace that contain no arguments.
func TestSteps(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	tracer, err := telemetry.New(t.Context(), telemetry.Config{Exporter: exporter, Version: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tracer.Shutdown(context.WithoutCancel(t.Context())) })
	ctx, ok := telemetry.Handed{Traceparent: "00-" + clientTrace + "-00f067aa0ba902b7-01"}.Remote(t.Context())
	if !ok {
		t.Fatal("the trace context is not valid")
	}
	var ticks time.Duration
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	a := newAPI(t, nil)
	s := newSource(t, httptool.Config{Traces: tracer, Version: "1.2", Now: func() time.Time { ticks += time.Second; return now.Add(ticks) }})
	r := newRequest(defineTool(t, postBinding("/x/{id}", openapi.Body{Kind: openapi.BodyJSON, Arg: "body"}, newParam("id", openapi.InPath), newParam("q", openapi.InQuery)), nil),
		`{"id":"private-id","q":"private-query","body":"private-body"}`)
	result, err := s.Call(ctx, skillAt(a.URL), r)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, step := range result.Exchange.Steps {
		names = append(names, step.Name)
		if step.Took <= 0 || step.Err != nil {
			t.Errorf("%+v", step)
		}
	}
	want := []string{"resolve", "credentials", "call", "transform"}
	if !slices.Equal(names, want) || result.Exchange.Status != 200 || result.Exchange.Sent != 14 || result.Exchange.Received != 11 {
		t.Errorf("%+v", result.Exchange)
	}
	if err := tracer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	names = nil
	for _, span := range exporter.GetSpans() {
		names = append(names, span.Name)
		if span.SpanContext.TraceID().String() != clientTrace {
			t.Errorf("%s is of trace %s", span.Name, span.SpanContext.TraceID())
		}
		if span.Name != "call" {
			continue
		}
		about := map[string]string{}
		for _, kv := range span.Attributes {
			about[string(kv.Key)] = kv.Value.String()
		}
		if about["http.request.method"] != "POST" || about["server.address"] != "127.0.0.1" || about["http.response.status_code"] != "200" || span.SpanKind != trace.SpanKindClient {
			t.Errorf("%v", about)
		}
		got := a.onlyRequest(t)
		if got.header.Get("Traceparent") != "00-"+clientTrace+"-"+span.SpanContext.SpanID().String()+"-01" || got.header.Get("User-Agent") != "holdpoint/1.2" {
			t.Errorf("%v", got.header)
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("spans %v", names)
	}
	if text := encodeJSON(t, exporter.GetSpans()); strings.Contains(text, "private") {
		t.Errorf("%s", text)
	}
}

// TestFailedSteps: the span of a failed step has the kind of its failure.
func TestFailedSteps(t *testing.T) {
	t.Parallel()
	url, _ := serveRaw(t, "")
	f := failCall(t, newSource(t, httptool.Config{}), skillAt(url), newRequest(defineTool(t, getBinding("/x"), nil), `{}`))
	steps := f.Exchange.Steps
	if len(steps) != 3 || steps[2].Name != "call" || steps[2].Err == nil || steps[2].Err.Error() != string(tool.TransportFailure) {
		t.Errorf("%+v", steps)
	}
	encodeJSON(t, f) // it does not hold itself
}
