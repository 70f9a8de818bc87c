package call_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
)

// traced is a world that keeps its spans.
type traced struct {
	*world
	exporter *tracetest.InMemoryExporter
}

func newTraced(t *testing.T) traced {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	return traced{newTracedWorld(t, newTracer(t, exporter)), exporter}
}

func newTracer(t *testing.T, exporter sdktrace.SpanExporter) *telemetry.Tracer {
	t.Helper()
	traces, err := telemetry.New(t.Context(), telemetry.Config{Exporter: exporter, Version: "test", Logger: slog.New(slog.DiscardHandler)})
	check(t, err)
	t.Cleanup(func() { check(t, traces.Shutdown(context.WithoutCancel(t.Context()))) })
	return traces
}

// clientContext returns the context of a client's request that is part of its trace.
func clientContext(t *testing.T) context.Context {
	t.Helper()
	ctx, ok := telemetry.Handed{Traceparent: "00-" + clientTrace + "-" + clientSpan + "-01", Tracestate: "rojo=1"}.Remote(t.Context())
	if !ok {
		t.Fatal("the trace context is not valid")
	}
	return ctx
}

func (w traced) submitIn(ctx context.Context, name, arguments string) call.Ticket {
	w.t.Helper()
	ticket, err := w.calls.Submit(ctx, w.newSubmission(name, arguments))
	check(w.t, err)
	return ticket
}

// waitForSpan waits for a span of a call. Spans are written after waiters are woken.
func (w traced) waitForSpan(id uuid.UUID, name string) tracetest.SpanStub {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		check(w.t, w.traces.Flush(w.t.Context()))
		for _, s := range w.exporter.GetSpans() {
			if s.Name == name && readAttributes(s)["holdpoint.call.id"] == id.String() {
				return s
			}
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("no span %q", name)
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // polling interval
	}
}

func readAttributes(s tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// checkParent checks that a span is a child of another, in one trace.
func checkParent(t *testing.T, child, parent tracetest.SpanStub) {
	t.Helper()
	if child.SpanContext.TraceID() != parent.SpanContext.TraceID() || child.Parent.SpanID() != parent.SpanContext.SpanID() {
		t.Errorf("%s has parent %s in trace %s, want %s (%s) in %s", child.Name, child.Parent.SpanID(), child.SpanContext.TraceID(),
			parent.Name, parent.SpanContext.SpanID(), parent.SpanContext.TraceID())
	}
}

func TestSpansOfAParkedCall(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	ticket := w.submitIn(clientContext(t), "files__write", `{"n":424242}`)
	w.db.MoveClock("72h")
	w.db.Exec(`UPDATE approvals SET deadline = deadline + interval '72 hours' WHERE call_id = $1`, ticket.ID)
	check(t, w.decide(ticket.ID, true))
	w.waitForEnd(ticket.ID)

	whole := w.waitForSpan(ticket.ID, "execute_tool write")
	wait := w.waitForSpan(ticket.ID, "wait decision")
	if whole.SpanContext.TraceID().String() != clientTrace || whole.Parent.SpanID().String() != clientSpan {
		t.Errorf("the call's parent is span %s of trace %s", whole.Parent.SpanID(), whole.SpanContext.TraceID())
	}
	checkParent(t, wait, whole)
	if took := wait.EndTime.Sub(wait.StartTime); took < 72*time.Hour || took > 73*time.Hour {
		t.Errorf("the wait took %s", took)
	}
	want := map[string]string{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "write", "gen_ai.tool.call.id": ticket.ID.String(), "gen_ai.tool.type": "extension",
		"gen_ai.agent.name": "billing", "gen_ai.agent.id": w.agent.ID.String(),
		"holdpoint.call.status": "succeeded", "holdpoint.call.gated": "true", "holdpoint.skill.name": "files",
	}
	got := readAttributes(whole)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %q, want %q", key, got[key], value)
		}
	}
	if got := readAttributes(wait); got["holdpoint.approval.outcome"] != "approved" || got["holdpoint.approval.rule"] == "" || got["holdpoint.approval.edited"] != "false" {
		t.Errorf("the wait span has attributes %v", got)
	}
	sent := w.source.traces[0]
	if !strings.HasPrefix(sent.Traceparent, "00-"+clientTrace+"-"+whole.SpanContext.SpanID().String()) || sent.Tracestate != "rojo=1" {
		t.Errorf("the request was sent in trace %+v", sent)
	}
}

// A call that is parked at one process and executed at another is one trace.
func TestSpansAcrossProcesses(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	ticket := w.submitIn(clientContext(t), "files__write", `{"n":1}`)
	here := tracetest.NewInMemoryExporter()
	w.traces, w.exporter = newTracer(t, here), here
	other := w.start()
	waiting, err := other.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	_, err = other.Decide(t.Context(), call.Decision{
		CallID: ticket.ID, Digest: waiting.Approval.Digest.String(), Note: "no", By: w.reviewer,
	})
	check(t, err)
	whole := w.waitForSpan(ticket.ID, "execute_tool write")
	checkParent(t, w.waitForSpan(ticket.ID, "wait decision"), whole)
	if whole.SpanContext.TraceID().String() != clientTrace || whole.Parent.SpanID().String() != clientSpan {
		t.Errorf("the call's parent is span %s of trace %s", whole.Parent.SpanID(), whole.SpanContext.TraceID())
	}
	if got := readAttributes(whole); got["holdpoint.call.status"] != "rejected" || got["error.type"] != "rejected" {
		t.Errorf("the span has attributes %v", got)
	}
}

// Each way a call can end has one span.
func TestSpansOfEveryEnd(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		if string(r.Arguments) == `{"n":13}` {
			return tool.Result{}, &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "hunter2 broke", Err: errors.New("hunter2")}
		}
		return tool.Result{Raw: []byte(`{"content":[]}`)}, nil
	})
	ends := map[string]func() call.Ticket{
		"succeeded none": func() call.Ticket { return w.submit("open__echo", `{"x":1}`) },
		"failed transport": func() call.Ticket {
			return w.submit("open__echo", `{"n":13}`)
		},
		"invalid invalid_arguments": func() call.Ticket { return w.submit("files__write", `{}`) },
		"rejected rejected": func() call.Ticket {
			ticket := w.submit("files__write", `{"n":2}`)
			check(t, w.decide(ticket.ID, false))
			return ticket
		},
		"cancelled cancelled": func() call.Ticket {
			ticket := w.submit("files__write", `{"n":3}`)
			_, err := w.calls.Cancel(t.Context(), call.Viewer{}, w.reviewer, ticket.ID)
			check(t, err)
			return ticket
		},
		"expired expired": func() call.Ticket {
			ticket := w.submit("files__write", `{"n":4}`)
			w.db.Exec(`UPDATE approvals SET deadline = holdpoint_now() WHERE call_id = $1`, ticket.ID)
			check(t, w.calls.Expire(t.Context(), ticket.ID))
			return ticket
		},
		"unknown outcome_unknown": func() call.Ticket {
			ticket, silent := w.submit("files__write", `{"n":5}`), uuid.New()
			w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() WHERE call_id = $1`, ticket.ID)
			w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = $2 WHERE id = $1`, ticket.ID, silent)
			w.db.Exec(`INSERT INTO instances (id, heartbeat_at) VALUES ($1, holdpoint_now() - interval '20 seconds')`, silent)
			return ticket
		},
		"denied skill_changed": func() call.Ticket {
			ticket := w.submit("files__write", `{"n":6}`)
			w.db.Exec(`UPDATE skills SET revision = revision + 1 WHERE name = 'files'`)
			check(t, w.decide(ticket.ID, true))
			return ticket
		},
	}
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		ticket := ends[name]()
		w.waitForEnd(ticket.ID)
		whole := w.waitForSpan(ticket.ID, "execute_tool "+map[bool]string{true: "echo", false: "write"}[strings.Contains(name, "succeeded") || strings.Contains(name, "failed")])
		got := readAttributes(whole)
		code := got["holdpoint.call.code"]
		if code == "" {
			code = "none"
		}
		if end := got["holdpoint.call.status"] + " " + code; end != name {
			t.Errorf("a call ended as %q, want %q", end, name)
		}
		if failed := got["error.type"] != ""; failed == strings.HasPrefix(name, "succeeded") || whole.Status.Description != "" {
			t.Errorf("%s: error.type %q, description %q", name, got["error.type"], whole.Status.Description)
		}
	}
	once := map[string]int{}
	for _, s := range w.exporter.GetSpans() {
		once[s.Name+" "+readAttributes(s)["holdpoint.call.id"]]++
		for key, value := range readAttributes(s) {
			if strings.Contains(value, "hunter2") || strings.Contains(value, "because") || strings.Contains(value, `"n"`) {
				t.Errorf("%s of %s holds %q", key, s.Name, value)
			}
		}
	}
	for name, n := range once {
		if n != 1 {
			t.Errorf("%d spans %s", n, name)
		}
	}
	w.countedOnce(slices.Collect(maps.Keys(ends)))
}

// countedOnce checks the counters of ended calls.
func (w traced) countedOnce(ends []string) {
	w.t.Helper()
	got := readCounters(w.t, w.calls.Collectors(), "holdpoint_calls_total")
	for _, end := range ends {
		status, code, _ := strings.Cut(end, " ")
		skill := "files"
		if status == "succeeded" || status == "failed" {
			skill = "open"
		}
		key := fmt.Sprintf("code=%s skill=%s status=%s", code, skill, status)
		if got[key] != 1 {
			w.t.Errorf("%s was counted %v times; all: %v", key, got[key], got)
		}
	}
	waits := readCounters(w.t, w.calls.Collectors(), "holdpoint_decision_wait_seconds")
	for outcome, want := range map[string]float64{"approved": 1, "rejected": 1, "expired": 1, "cancelled": 1} {
		if got := waits["outcome="+outcome+" skill=files"]; got != want {
			w.t.Errorf("%v waits with outcome %s, want %v", got, outcome, want)
		}
	}
	taken := readCounters(w.t, w.calls.Collectors(), "holdpoint_calls_submitted_total")
	if taken["skill=open status=executing"] != 2 || taken["skill=files status=parked"] != 5 || taken["skill=files status=invalid"] != 1 {
		w.t.Errorf("submitted: %v", taken)
	}
}

// readCounters reads a metric family; for histograms, the number of observations.
func readCounters(t testing.TB, collectors []prometheus.Collector, name string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	check(t, err)
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			values[strings.Join(labels, " ")] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func TestSpansOfAWaitForAConnection(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	w.source.Require(notConnected)
	ticket := w.submitIn(clientContext(t), "open__echo", `{}`)
	w.connectSkill("open")
	w.waitForEnd(ticket.ID)
	checkParent(t, w.waitForSpan(ticket.ID, "wait connection"), w.waitForSpan(ticket.ID, "execute_tool echo"))
}

// Without a collector, a client's trace context is stored and passed on. Other calls have none.
func TestTracePassedOn(t *testing.T) {
	t.Parallel()
	w := traced{newWorld(t), nil}
	ticket := w.submitIn(clientContext(t), "files__write", `{"n":1}`)
	plain := w.submit("files__write", `{"n":2}`)
	var stored, none []byte
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT trace FROM calls WHERE id = $1`, ticket.ID).Scan(&stored))
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT trace FROM calls WHERE id = $1`, plain.ID).Scan(&none))
	if len(stored) == 0 || len(stored) > 64 || none != nil {
		t.Errorf("stored %d bytes, and %d of a call without a trace", len(stored), len(none))
	}
	check(t, w.decide(ticket.ID, true))
	w.waitForEnd(ticket.ID)
	if got := w.source.traces[0]; got.Traceparent != "00-"+clientTrace+"-"+clientSpan+"-01" || got.Tracestate != "rojo=1" {
		t.Errorf("the request was sent in trace %+v", got)
	}
}

// Concurrent calls are inserted by another statement.
func TestTraceOfManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	ids := make(chan uuid.UUID, 40)
	subs := make([]call.Submission, cap(ids))
	for i := range subs {
		subs[i] = w.newSubmission("files__write", fmt.Sprintf(`{"n":%d}`, i))
	}
	for i := range subs {
		go func() {
			ticket, err := w.calls.Submit(clientContext(t), subs[i])
			if err != nil {
				t.Error(err)
			}
			ids <- ticket.ID
		}()
	}
	for range subs {
		<-ids
	}
	var stored int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(DISTINCT trace) FROM calls`).Scan(&stored))
	if stored != len(subs) {
		t.Errorf("%d calls have a span of their own, want %d", stored, len(subs))
	}
}
