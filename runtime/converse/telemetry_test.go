package converse_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
)

const clientParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func handedIn(t *testing.T) context.Context {
	t.Helper()
	ctx, ok := telemetry.Handed{Traceparent: clientParent}.Remote(t.Context())
	if !ok {
		t.Fatal("the trace context is not valid")
	}
	return ctx
}

func newTracer(t *testing.T, exporter *tracetest.InMemoryExporter) *telemetry.Tracer {
	t.Helper()
	traces, err := telemetry.New(t.Context(), telemetry.Config{Exporter: exporter, Version: "test", Logger: slog.New(slog.DiscardHandler)})
	check(t, err)
	t.Cleanup(func() { check(t, traces.Shutdown(context.WithoutCancel(t.Context()))) })
	return traces
}

// drawTrace renders the spans of a trace, one per line, once the trace has the span named last. Some spans are written after
// the client got its answer.
func drawTrace(t *testing.T, traces []*telemetry.Tracer, exporters []*tracetest.InMemoryExporter, root string, last string, n int) string {
	t.Helper()
	var all []tracetest.SpanStub
	eventually.Holds(t, fmt.Sprintf("%d spans %q", n, last), func() bool {
		all = nil
		for i := range traces {
			check(t, traces[i].Flush(t.Context()))
			all = append(all, exporters[i].GetSpans()...)
		}
		found := 0
		for _, s := range all {
			if s.Name == last {
				found++
			}
		}
		return found == n
	})
	slices.SortStableFunc(all, func(a, b tracetest.SpanStub) int {
		if c := a.StartTime.Compare(b.StartTime); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	var b strings.Builder
	drawn := 0
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		for _, s := range all {
			if s.Parent.SpanID().String() != parent {
				continue
			}
			if s.SpanContext.TraceID().String() != clientParent[3:35] {
				t.Errorf("%s is of trace %s", s.Name, s.SpanContext.TraceID())
			}
			drawn++
			fmt.Fprintf(&b, "%s%s\n", indent, s.Name)
			draw(s.SpanContext.SpanID().String(), indent+"  ")
			for _, a := range s.Attributes {
				if strings.Contains(a.Value.String(), "hunter2") {
					t.Errorf("%s of %s contains message text: %q", a.Key, s.Name, a.Value.String())
				}
			}
		}
	}
	draw(root, "")
	if drawn != len(all) {
		t.Errorf("%d of %d spans hang in the air", len(all)-drawn, len(all))
	}
	return b.String()
}

const clientSpan = "00f067aa0ba902b7"

// A message is one trace, even across a gated call and another process.
func TestSpansOfAConversation(t *testing.T) {
	t.Parallel()
	first, second := tracetest.NewInMemoryExporter(), tracetest.NewInMemoryExporter()
	here, there := newTracer(t, first), newTracer(t, second)
	w := newTracedWorld(t, here)
	w.mind.think = answerInTurn(
		answerCalls("I write hunter2.", "open__look", `{"q":"hunter2"}`, "files__write", `{"n":1}`),
		answerText("Done, hunter2."),
	)
	c, err := w.converse.Begin(handedIn(t), converse.Opening{Agent: w.agent, Message: "Write hunter2."})
	check(t, err)
	parked := w.waitForParked(1)
	w.waitForStatus(c.ID, converse.Waiting)
	w.stop()
	w.traces = there
	w.process = w.start()
	t.Cleanup(w.stop)
	w.decideCall(parked[0], true, "hunter2 is fine")
	w.waitForStatus(c.ID, converse.Idle)
	got := drawTrace(t, []*telemetry.Tracer{here, there}, []*tracetest.InMemoryExporter{first, second}, clientSpan, "invoke_agent billing", 1)
	want := `invoke_agent billing
  turn
    chat mind-1
    execute_tool look
      validate
      log
      log outcome
    execute_tool write
      validate
      log
      wait decision
      validate
      log
      log outcome
  turn
    chat mind-1
`
	if got != want {
		t.Errorf("spans\n%swant\n%s", got, want)
	}
	for _, s := range second.GetSpans() {
		if s.Name == "invoke_agent billing" {
			var about []string
			for _, a := range s.Attributes {
				about = append(about, string(a.Key)+"="+a.Value.String())
			}
			want := []string{
				"gen_ai.conversation.id=" + c.ID.String(), "gen_ai.agent.id=" + w.agent.ID.String(), "gen_ai.agent.name=billing",
				"gen_ai.operation.name=invoke_agent", "gen_ai.provider.name=openai", "gen_ai.request.model=mind-1",
			}
			if !slices.Equal(about, want) {
				t.Errorf("attributes %v, want %v", about, want)
			}
		}
	}
	for i, below := range w.server.traceparents {
		if !strings.HasPrefix(below, clientParent[:36]) {
			t.Errorf("call %d was sent below %q", i, below)
		}
	}
	if entries, err := w.converse.Entries(t.Context(), w.newViewer(), c.ID, 0, 10); err != nil || entries[0].User.Trace != nil {
		t.Errorf("the message is stored with a trace: %v", err)
	}
}

// A queued message has its own trace, as does one that joins the current run.
func TestSpansOfWaitingMessages(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	traces := newTracer(t, exporter)
	w := newTracedWorld(t, traces)
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n":1}`), answerText("No."), answerText("Yes."))
	c, err := w.converse.Begin(t.Context(), converse.Opening{Agent: w.agent, Message: "One."})
	check(t, err)
	parked := w.waitForParked(1)
	w.waitForStatus(c.ID, converse.Waiting)
	_, err = w.converse.Say(handedIn(t), w.newViewer(), c.ID, "Two, on the way.")
	check(t, err)
	w.decideCall(parked[0], false, "no")
	w.waitForStatus(c.ID, converse.Idle)
	_, err = w.converse.Say(handedIn(t), w.newViewer(), c.ID, "Three.")
	check(t, err)
	w.waitForStatus(c.ID, converse.Idle)
	var runs int
	eventually.Holds(t, "two runs", func() bool {
		check(t, traces.Flush(t.Context()))
		runs = 0
		for _, s := range exporter.GetSpans() {
			if s.Name == "invoke_agent billing" {
				runs++
				if handed := s.SpanContext.TraceID().String() == clientParent[3:35]; handed != (s.Parent.SpanID().String() == clientSpan) || handed == (runs == 1) {
					t.Errorf("run %d is of trace %s, below %s", runs, s.SpanContext.TraceID(), s.Parent.SpanID())
				}
			}
		}
		return runs == 2
	})
	each := (10.0*1 + 5*2) / 1e6 // in the order in which it is counted
	families := gatherMetrics(t, w.converse.Collectors())
	want := map[string]float64{
		"holdpoint_conversation_run_duration_seconds answered": 2, "holdpoint_turns_total calls": 1, "holdpoint_turns_total text": 2,
		"holdpoint_model_cost_total mind-1 openai": each + each + each,
	}
	if fmt.Sprint(families) != fmt.Sprint(want) {
		t.Errorf("measured %v, want %v", families, want)
	}
}

// A question that belongs to a client's trace is answered within it.
func TestSpansOfAQuestion(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	traces := newTracer(t, exporter)
	w := newTracedWorld(t, traces)
	w.mind.think = answerInTurn(answerText("Forty-two."))
	ticket, err := w.converse.Ask(handedIn(t), w.newQuestion("", "How many?", ""))
	check(t, err)
	w.waitForAnswer(ticket)
	got := drawTrace(t, []*telemetry.Tracer{traces}, []*tracetest.InMemoryExporter{exporter}, clientSpan, "invoke_agent billing", 1)
	want := `execute_tool ask
  validate
  invoke_agent billing
    turn
      chat mind-1
`
	if got != want {
		t.Errorf("spans\n%swant\n%s", got, want)
	}
}

// A failure of the model marks the run and the turn as failed.
func TestSpansOfAFailure(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	traces := newTracer(t, exporter)
	w := newTracedWorld(t, traces)
	w.mind.think = func(context.Context, *model.Request, func(string)) (*model.Response, error) {
		return nil, &model.Error{Status: 401, Message: "hunter2 is not known here"}
	}
	c, err := w.converse.Begin(handedIn(t), converse.Opening{Agent: w.agent, Message: "Hello."})
	check(t, err)
	w.waitForStatus(c.ID, converse.Idle)
	got := drawTrace(t, []*telemetry.Tracer{traces}, []*tracetest.InMemoryExporter{exporter}, clientSpan, "invoke_agent billing", 1)
	if got != "invoke_agent billing\n  turn\n    chat mind-1\n" {
		t.Errorf("spans\n%s", got)
	}
	for _, s := range exporter.GetSpans() {
		errorType := ""
		for _, a := range s.Attributes {
			if a.Key == "error.type" {
				errorType = a.Value.String()
			}
		}
		if want := map[bool]string{true: "401", false: "model_failed"}[s.Name == "chat mind-1"]; errorType != want || s.Status.Description != "" {
			t.Errorf("%s: %q %q, want %q", s.Name, errorType, s.Status.Description, want)
		}
	}
}

// Without a collector, the trace context is passed on to the servers.
func TestTraceOfAConversationPassedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Looking.", "open__look", `{}`), answerText("Done."))
	c, err := w.converse.Begin(handedIn(t), converse.Opening{Agent: w.agent, Message: "Look."})
	check(t, err)
	w.waitForStatus(c.ID, converse.Idle)
	if got := w.server.traceparents; len(got) != 1 || got[0] != clientParent {
		t.Errorf("sent below %q", got)
	}
}

// gatherMetrics returns counters and the numbers of observations.
func gatherMetrics(t *testing.T, collectors []prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	check(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			words := []string{family.GetName()}
			for _, l := range m.GetLabel() {
				words = append(words, l.GetValue())
			}
			key := strings.Join(words, " ")
			values[key] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}
