package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// tracedServer is an SDK server with a tool that returns its trace context.
func tracedServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "traced", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "trace", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			header := ""
			if r.Extra != nil {
				header = r.Extra.Header.Get("Traceparent")
			}
			said, err := json.Marshal(map[string]any{
				"traceparent": r.Params.Meta["traceparent"], "tracestate": r.Params.Meta["tracestate"], "baggage": r.Params.Meta["baggage"],
				"header": header,
			})
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(said)}}}, nil
		})
	return server
}

type toldTrace struct{ Traceparent, Tracestate, Baggage, Header string }

const clientParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func handedIn(t *testing.T) context.Context {
	t.Helper()
	ctx, ok := telemetry.Handed{Traceparent: clientParent, Tracestate: "rojo=1"}.Remote(t.Context())
	if !ok {
		t.Fatal("the trace context is not valid")
	}
	return ctx
}

func newTraces(t *testing.T) (*telemetry.Tracer, func() map[string]tracetest.SpanStub) {
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
	return tracer, func() map[string]tracetest.SpanStub {
		if err := tracer.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		byName := map[string]tracetest.SpanStub{}
		for _, s := range exporter.GetSpans() {
			byName[s.Name] = s
		}
		return byName
	}
}

func callIn(ctx context.Context, t *testing.T, s *mcptool.Source, server tool.Server, name string) toldTrace {
	t.Helper()
	result, err := s.Call(ctx, server, tool.CallRequest{CallID: uuid.New(), Tool: name, Arguments: json.RawMessage(`{"secret":"hunter2"}`), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var got toldTrace
	if err := json.Unmarshal([]byte(textOf(t, result)), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func readAttributes(s tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// In every era and over both transports, _meta names the span of the request.
func TestTraceIsPassedOn(t *testing.T) {
	t.Parallel()
	for name, skill := range everyWay(tracedServer, "traced") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := skill(t)
			tracer, spans := newTraces(t)
			s := newSource(t, mcptool.Config{DataDir: t.TempDir(), Traces: tracer})
			got := callIn(handedIn(t), t, s, server, "trace")
			all := spans()
			span := all["tools/call trace"]
			want := "00-4bf92f3577b34da6a3ce929d0e0e4736-" + span.SpanContext.SpanID().String() + "-01"
			if got.Traceparent != want || got.Tracestate != "rojo=1" || got.Baggage != "" {
				t.Errorf("the server got trace context %+v, want %s", got, want)
			}
			if server.Transport == tool.HTTP && got.Header != want {
				t.Errorf("the header has %q", got.Header)
			}
			if span.Parent.SpanID().String() != "00f067aa0ba902b7" || span.SpanKind != trace.SpanKindClient {
				t.Errorf("the span has kind %s and parent %s", span.SpanKind, span.Parent.SpanID())
			}
			if connect := all["connect"]; connect.Parent.SpanID().String() != "00f067aa0ba902b7" {
				t.Errorf("the span of connecting has parent %s", connect.Parent.SpanID())
			}
			about := readAttributes(span)
			for key, want := range map[string]string{
				"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "trace", "holdpoint.skill.name": server.Skill,
			} {
				if about[key] != want {
					t.Errorf("%s is %q, want %q", key, about[key], want)
				}
			}
			if about["mcp.protocol.version"] == "" || about["jsonrpc.request.id"] == "" || about["network.transport"] == "" {
				t.Errorf("attributes %v", about)
			}
			if server.Transport == tool.HTTP && (about["server.address"] != "127.0.0.1" || about["server.port"] == "") {
				t.Errorf("attributes %v", about)
			}
			for key, value := range about {
				if strings.Contains(value, "hunter2") {
					t.Errorf("%s contains arguments: %q", key, value)
				}
			}
		})
	}
}

// Without a collector, the client's trace context is passed on. Without one from the client, no trace begins.
func TestTraceOfOthers(t *testing.T) {
	t.Parallel()
	web := httpSkill(serve(t, tracedServer(), nil).URL)
	off := newSource(t, mcptool.Config{})
	if got := callIn(handedIn(t), t, off, web, "trace"); got.Traceparent != clientParent || got.Tracestate != "rojo=1" || got.Header != clientParent {
		t.Errorf("the server got trace context %+v", got)
	}
	if got := callIn(t.Context(), t, off, web, "trace"); got != (toldTrace{}) {
		t.Errorf("the server got trace context %+v", got)
	}
	tracer, spans := newTraces(t)
	on := newSource(t, mcptool.Config{Traces: tracer})
	if got := callIn(t.Context(), t, on, web, "trace"); got != (toldTrace{}) || len(spans()) != 0 {
		t.Errorf("the server got trace context %+v, with spans %v", got, spans())
	}
}

func TestSpansOfFailures(t *testing.T) {
	t.Parallel()
	upstream := &script{}
	upstream.at = map[string]func(http.ResponseWriter, *http.Request, message){}
	web := httpSkill(upstream.serve(t).URL)
	tracer, spans := newTraces(t)
	s := newSource(t, mcptool.Config{Traces: tracer})
	for want, act := range map[string]act{
		"tool_error": answerInTurn(`{"content":[{"type":"text","text":"hunter2"}],"isError":true}`),
		"-32602":     rpcError(200, -32602, "hunter2 is not valid"),
		"protocol":   answerInTurn(`17`),
	} {
		upstream.mu.Lock()
		upstream.at["tools/call"] = act
		upstream.mu.Unlock()
		_, err := s.Call(handedIn(t), web, tool.CallRequest{CallID: uuid.New(), Tool: "echo", Arguments: json.RawMessage(`{}`)})
		if failure := (*tool.Failure)(nil); err != nil && !errors.As(err, &failure) {
			t.Fatal(err)
		}
		span := spans()["tools/call echo"]
		about := readAttributes(span)
		if want == "protocol" { // an unreadable result is found after the request's span has ended
			want = ""
		}
		if about["error.type"] != want || span.Status.Description != "" {
			t.Errorf("error.type %q, description %q; want %q", about["error.type"], span.Status.Description, want)
		}
		for key, value := range about {
			if strings.Contains(value, "hunter2") {
				t.Errorf("%s contains the server's text: %q", key, value)
			}
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, m := range families[0].GetMetric() {
		counts[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetHistogram().GetSampleCount()
	}
	if counts["tools/call answered"] != 2 || counts["tools/call jsonrpc_error"] != 1 || counts["connect answered"] != 1 {
		t.Errorf("counted %v", counts)
	}
}
