package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/e2e/internal/collector"
	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan   = "00f067aa0ba902b7"
	clientParent = "00-" + clientTrace + "-" + clientSpan + "-01"
)

// tracedSkill is a server of the official SDK that records the _meta of its calls.
type tracedSkill struct {
	URL string

	mu    sync.Mutex
	metas []map[string]any
}

func newTracedSkill(t *testing.T) *tracedSkill {
	t.Helper()
	s := &tracedSkill{}
	server := mcp.NewServer(&mcp.Implementation{Name: "traced", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "record", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"note":{"type":"string"}}}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.metas = append(s.metas, r.Params.Meta)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hunter2 recorded"}}}, nil
		})
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	s.URL = h.URL
	return s
}

func (s *tracedSkill) lastMeta(t *testing.T) map[string]any {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.metas) != 1 {
		t.Fatalf("%d calls arrived", len(s.metas))
	}
	return s.metas[0]
}

// traceEnvironment returns the environment of a server that exports its spans to a collector.
func traceEnvironment(c *collector.Collector, more ...string) []string {
	return append([]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20collectors-secret", "OTEL_BSP_SCHEDULE_DELAY=50",
	}, more...)
}

// awaitTree waits until a trace has n spans, and draws them below the client's. It omits spans of connecting and
// listing, whose number varies.
func awaitTree(t *testing.T, c *collector.Collector, n int) string {
	t.Helper()
	var spans []collector.Span
	eventually.Succeeds(t, patience, "spans at the collector", func() error {
		spans = c.Spans(clientTrace)
		spans = slices.DeleteFunc(spans, func(s collector.Span) bool { return s.Name == "connect" || s.Name == "tools/list" })
		if len(spans) < n {
			return fmt.Errorf("%d spans, want %d", len(spans), n)
		}
		return nil
	})
	slices.SortFunc(spans, func(a, b collector.Span) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		for _, s := range spans {
			if s.Parent == parent {
				fmt.Fprintf(&b, "%s%s %s\n", indent, strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")), s.Name)
				draw(s.ID, indent+"  ")
			}
		}
	}
	draw(clientSpan, "")
	return b.String()
}

// expectedTraceparent returns the trace context that the skill server must get: the span of the request that it
// answers.
func expectedTraceparent(t *testing.T, c *collector.Collector, name string) string {
	t.Helper()
	for _, s := range c.Spans(clientTrace) {
		if s.Name == name {
			return "00-" + clientTrace + "-" + s.ID + "-01"
		}
	}
	t.Fatalf("no span %q", name)
	return ""
}

// TestTraceOfAParkedCall: a client's trace continues across the wait for a reviewer and the request to the skill
// server, and reaches the collector completely.
func TestTraceOfAParkedCall(t *testing.T) {
	t.Parallel()
	w, skill, c := newWorld(t), newTracedSkill(t), collector.New(t)
	o := w.serverOptions()
	o.Env = traceEnvironment(c, "OTEL_SERVICE_NAME=gate", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test")
	p := program.Serve(t, o)
	w.applyManifest(p, oneSkill(skill.URL, ""))
	agent := w.newAgent(p, "worker")

	answer, err := agent.CallToolWith(t.Context(), "counting__record", `{"n":1,"note":"hunter2"}`,
		`{"traceparent":"`+clientParent+`","tracestate":"rojo=1","baggage":"user=hunter2","io.example/other":"hunter2"}`)
	if err != nil || !answer.Pending() {
		t.Fatalf("answer %s, %v", answer.Raw, err)
	}
	approveN(t, "1", p)
	awaitCall(t, operatorAPI(p), answer.Call().ID, hasStatus("succeeded"))

	got := awaitTree(t, c, 9)
	want := `server tools/call counting__record
  internal execute_tool record
    internal log
    internal log
    internal log outcome
    client tools/call record
    internal validate
    internal validate
    internal wait decision
`
	if got != want {
		t.Errorf("spans\n%swant\n%s", got, want)
	}
	meta := skill.lastMeta(t)
	if meta["traceparent"] != expectedTraceparent(t, c, "tools/call record") || meta["tracestate"] != "rojo=1" || meta["baggage"] != nil || meta["io.example/other"] != nil {
		t.Errorf("the server was told %v", meta)
	}
	for _, s := range c.Spans(clientTrace) {
		if s.Resource["service.name"] != "gate" || s.Resource["deployment.environment.name"] != "test" || s.Resource["service.version"] == "" || s.Ended < s.Began || s.Failed {
			t.Errorf("%s: %+v", s.Name, s)
		}
		if s.Attributes["mcp.method.name"] == "" && s.Name != "connect" && s.Attributes["holdpoint.call.id"] != answer.Call().ID {
			t.Errorf("%s is of call %q", s.Name, s.Attributes["holdpoint.call.id"])
		}
	}
	if c.Header().Get("Authorization") != "Bearer collectors-secret" {
		t.Errorf("the collector was given %q", c.Header().Get("Authorization"))
	}
	for _, secret := range []string{"hunter2", agent.Key, bootstrapToken, "collectors-secret"} {
		if c.Says(secret) {
			t.Errorf("the collector was told %q", secret)
		}
	}
}

// TestTraceAcrossProcesses: a call that is parked at one process and sent by another is one trace. The first process
// exports its spans before it stops.
func TestTraceAcrossProcesses(t *testing.T) {
	t.Parallel()
	w, skill, c := newWorld(t), newTracedSkill(t), collector.New(t)
	o := w.serverOptions()
	o.Env = traceEnvironment(c)
	first := program.Serve(t, o)
	w.applyManifest(first, oneSkill(skill.URL, ""))
	agent := w.newAgent(first, "worker")
	agent.Header = http.Header{"Traceparent": {clientParent}}
	answer, err := agent.CallTool(t.Context(), "counting__record", `{"n":2}`)
	if err != nil || !answer.Pending() {
		t.Fatalf("answer %s, %v", answer.Raw, err)
	}
	second := program.Serve(t, o)
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	approveN(t, "2", second)
	awaitCall(t, operatorAPI(second), answer.Call().ID, hasStatus("succeeded"))

	got := awaitTree(t, c, 9)
	want := `server tools/call counting__record
  internal execute_tool record
    internal log
    internal log
    internal log outcome
    client tools/call record
    internal validate
    internal validate
    internal wait decision
`
	if got != want {
		t.Errorf("spans\n%swant\n%s", got, want)
	}
	if meta := skill.lastMeta(t); meta["traceparent"] != expectedTraceparent(t, c, "tools/call record") {
		t.Errorf("the server was told %v", meta)
	}
	instances, call := map[string]bool{}, ""
	for _, s := range c.Spans(clientTrace) {
		instances[s.Resource["service.instance.id"]] = true
		if s.Name == "execute_tool record" {
			call = s.ID
		}
	}
	if len(instances) != 2 {
		t.Errorf("spans of %d processes", len(instances))
	}
	if !slices.ContainsFunc(c.Spans(clientTrace), func(s collector.Span) bool { return s.Name == "connect" && s.Parent == call }) {
		t.Error("that the second process had to connect is not to be seen")
	}
}

// TestTraceWithoutCollector: the client's trace context is passed on unchanged.
func TestTraceWithoutCollector(t *testing.T) {
	t.Parallel()
	w, skill := newWorld(t), newTracedSkill(t)
	p := w.startServer()
	w.applyManifest(p, oneSkill(skill.URL, "auto_approve: true\n"))
	answer, err := w.newAgent(p, "worker").CallToolWith(t.Context(), "counting__record", `{"n":3}`, `{"traceparent":"`+clientParent+`"}`)
	if err != nil || answer.Result.IsError {
		t.Fatalf("answer %s, %v", answer.Raw, err)
	}
	if meta := skill.lastMeta(t); meta["traceparent"] != clientParent {
		t.Errorf("the server was told %v", meta)
	}
}

func approveN(t *testing.T, n string, p *holdpoint.Process) {
	t.Helper()
	a, err := pendingFor(t.Context(), n, p)
	if err == nil {
		err = operatorAPI(p).Approve(t.Context(), a)
	}
	if err != nil {
		t.Fatal(err)
	}
}
