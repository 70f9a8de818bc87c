package mcpserver_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	inMeta   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	inHeader = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

func tracedBench(t *testing.T) (*bench, func(name string) tracetest.SpanStub) {
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
	return newBench(t, func(c *mcpserver.Config) { c.Traces = tracer }), func(name string) tracetest.SpanStub {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) { //nolint:forbidigo // between two looks at a condition
			if err := tracer.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, s := range exporter.GetSpans() {
				if s.Name == name {
					exporter.Reset()
					return s
				}
			}
		}
		t.Fatalf("no span %q", name)
		return tracetest.SpanStub{}
	}
}

func readAttributes(s tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// callIn returns a call with members in its _meta.
func callIn(members string) string {
	return `{"jsonrpc":"2.0","id":"r1","method":"tools/call","params":{"name":"files__echo","arguments":{"secret":"hunter2"},"_meta":{` + members + `}}}`
}

func TestTraceFromClients(t *testing.T) {
	t.Parallel()
	b, span := tracedBench(t)
	for name, tc := range map[string]struct {
		body    string
		headers []string
		parent  string // empty: a new trace
	}{
		"in _meta":                      {callIn(`"traceparent":"` + inMeta + `","tracestate":"rojo=1"`), nil, inMeta},
		"in headers":                    {callIn(``), []string{"traceparent", inHeader}, inHeader},
		"in both":                       {callIn(`"traceparent":"` + inMeta + `"`), []string{"traceparent", inHeader}, inMeta},
		"in _meta not valid":            {callIn(`"traceparent":"x"`), []string{"traceparent", inHeader}, inHeader},
		"in _meta no string":            {callIn(`"traceparent":{"a":1},"tracestate":7`), nil, ""},
		"in headers not valid":          {callIn(``), []string{"traceparent", strings.ToUpper(inHeader)}, ""},
		"nowhere":                       {callIn(``), nil, ""},
		"with another key that is not ": {callIn(`"baggage":"userId=hunter2"`), nil, ""},
	} {
		a := b.post(tc.body, tc.headers...)
		if a.status != 200 || !strings.Contains(a.body, "hunter2") {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
		got := span("tools/call files__echo")
		parts := strings.Split(tc.parent+"---", "-")
		if tc.parent != "" && (got.SpanContext.TraceID().String() != parts[1] || got.Parent.SpanID().String() != parts[2]) {
			t.Errorf("%s: below %s in %s, want %s", name, got.Parent.SpanID(), got.SpanContext.TraceID(), tc.parent)
		}
		if tc.parent == "" && got.Parent.IsValid() {
			t.Errorf("%s: below %s", name, got.Parent.SpanID())
		}
		given := b.calls.traces[len(b.calls.traces)-1]
		if want := "00-" + got.SpanContext.TraceID().String() + "-" + got.SpanContext.SpanID().String() + "-01"; given.Traceparent != want {
			t.Errorf("%s: the call was submitted in %s, want %s", name, given.Traceparent, want)
		}
		for key, value := range readAttributes(got) {
			if strings.Contains(value, "hunter2") {
				t.Errorf("%s: %s holds %q", name, key, value)
			}
		}
	}
}

func TestServerSpan(t *testing.T) {
	t.Parallel()
	b, span := tracedBench(t)
	b.calls.outcome = func(call.Submission) call.Call {
		return call.Call{Status: call.Failed, Code: "tool_error", Failure: tool.ToolError, Result: json.RawMessage(`{"content":[],"isError":true}`)}
	}
	b.post(callIn(``))
	got := span("tools/call files__echo")
	about := readAttributes(got)
	for key, want := range map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "files__echo", "gen_ai.agent.name": "billing",
		"jsonrpc.request.id": "r1", "holdpoint.call.status": "failed", "holdpoint.call.attached": "false", "error.type": "tool_error",
	} {
		if about[key] != want {
			t.Errorf("%s is %q, want %q", key, about[key], want)
		}
	}
	if got.SpanKind != trace.SpanKindServer || about["holdpoint.call.id"] == "" {
		t.Errorf("a %s with %v", got.SpanKind, about)
	}
	b.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hunter2","arguments":{}}}`)
	if about := readAttributes(span("tools/call")); about["error.type"] != "-32602" || about["rpc.response.status_code"] != "-32602" || about["gen_ai.tool.name"] != "" {
		t.Errorf("an unknown tool: %v", about)
	}
	b.post(`{"jsonrpc":"2.0","id":1,"method":"hunter2/list"}`)
	if about := readAttributes(span("_OTHER")); about["mcp.method.name"] != "_OTHER" || about["error.type"] != "-32601" {
		t.Errorf("an unknown method: %v", about)
	}
}

// If the sampler drops a request without a trace, none of its steps begins a trace.
func TestNotSampled(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	exporter := tracetest.NewInMemoryExporter()
	tracer, err := telemetry.New(t.Context(), telemetry.Config{Exporter: exporter, Version: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(c *mcpserver.Config) { c.Traces = tracer })
	b.post(callIn(``))
	b.post(callIn(`"traceparent":"` + inMeta + `"`))
	if err := tracer.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := b.calls.traces[0].Traceparent; got != "" {
		t.Errorf("an unsampled call was submitted in trace %s", got)
	}
	if got := b.calls.traces[1].Traceparent; !strings.HasPrefix(got, inMeta[:36]) || !strings.HasSuffix(got, "-01") {
		t.Errorf("a call of a sampling client was submitted in trace %s", got)
	}
}

// Without a collector, a client's trace is passed on unchanged.
func TestTraceHandedOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.post(callIn(`"traceparent":"` + inMeta + `","tracestate":"rojo=1"`))
	b.post(callIn(``))
	if got := b.calls.traces; got[0] != (telemetry.Handed{Traceparent: inMeta, Tracestate: "rojo=1"}) || got[1] != (telemetry.Handed{}) {
		t.Errorf("submitted in %+v", got)
	}
}
