package model_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// answers is a provider with a list of answers.
type answers []func(sink func(model.Delta)) (*model.Response, error)

func (a *answers) Generate(_ context.Context, _ *model.Request, sink func(model.Delta)) (*model.Response, error) {
	next := (*a)[0]
	*a = (*a)[1:]
	return next(sink)
}

func TestObserved(t *testing.T) {
	t.Parallel()
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
	now := time.Unix(0, 0)
	observer := model.NewObserver(tracer, func() time.Time { now = now.Add(time.Second); return now })
	provider := model.Retrying(observer.Observe(&answers{
		func(func(model.Delta)) (*model.Response, error) {
			return nil, &model.Error{Status: 429, Retryable: true, Message: "hunter2 is too eager"}
		},
		func(sink func(model.Delta)) (*model.Response, error) {
			sink(model.Delta{Text: "hunter2"})
			sink(model.Delta{Text: "!"})
			return &model.Response{
				Parts: []model.Part{model.TextPart("hunter2!")}, Stop: model.StopEnd, Model: "small-2026", ID: "a1",
				Usage: model.Usage{InputTokens: 100, CachedInputTokens: 60, OutputTokens: 7},
			}, nil
		},
	}, "openai", "http://models.example.com:8000/v1"), model.RetryConfig{
		Sleep:   func(context.Context, time.Duration) error { return nil },
		OnRetry: func(r *model.Request) { observer.CountRetry("openai", r) },
	})
	ctx, whole := tracer.Start(t.Context(), "turn")
	text := ""
	_, err = provider.Generate(ctx, &model.Request{Model: "small", Instructions: "hunter2", MaxTokens: 50}, func(d model.Delta) { text += d.Text })
	if err != nil || text != "hunter2!" {
		t.Fatalf("text %q, %v", text, err)
	}
	if _, err := observer.Observe(&answers{func(func(model.Delta)) (*model.Response, error) {
		return nil, errors.New("hunter2")
	}}, "scripted", "").Generate(t.Context(), &model.Request{Model: "demo"}, nil); err == nil {
		t.Error("an error was lost")
	}
	if err := tracer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := exporter.GetSpans()
	if len(spans) != 2 {
		t.Fatalf("%d spans, want one for each attempt that is part of a trace", len(spans))
	}
	attributes := func(s tracetest.SpanStub) string {
		var list []string
		for _, a := range s.Attributes {
			list = append(list, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
		}
		slices.Sort(list)
		return strings.Join(list, "\n")
	}
	const same = "gen_ai.provider.name=openai\ngen_ai.request.max_tokens=50\ngen_ai.request.model=small\ngen_ai.request.stream=true\n"
	const server = "server.address=models.example.com\nserver.port=8000"
	wants := []string{
		"error.type=429\ngen_ai.operation.name=chat\n" + same + server,
		"gen_ai.operation.name=chat\n" + same + "gen_ai.response.finish_reasons=[\"stop\"]\ngen_ai.response.id=a1\ngen_ai.response.model=small-2026\n" +
			"gen_ai.response.time_to_first_chunk=1\ngen_ai.usage.cache_read.input_tokens=60\ngen_ai.usage.input_tokens=100\ngen_ai.usage.output_tokens=7\n" + server,
	}
	for i, s := range spans {
		if got := attributes(s); got != wants[i] {
			t.Errorf("attempt %d:\n%s\nwant\n%s", i+1, got, wants[i])
		}
		if s.Name != "chat small" || s.SpanKind != trace.SpanKindClient || s.Parent.SpanID() != whole.SpanContext().SpanID() || s.Status.Description != "" {
			t.Errorf("%s %s below %s says %q", s.SpanKind, s.Name, s.Parent.SpanID(), s.Status.Description)
		}
	}
	want := map[string]float64{
		"gen_ai_client_operation_duration_seconds 429 chat openai small":        1,
		"gen_ai_client_operation_duration_seconds  chat openai small":           1,
		"gen_ai_client_operation_duration_seconds _OTHER chat scripted demo":    1,
		"gen_ai_client_operation_time_to_first_chunk_seconds chat openai small": 1,
		"gen_ai_client_token_usage chat openai small input":                     100,
		"gen_ai_client_token_usage chat openai small output":                    7,
		"holdpoint_model_retries_total small openai":                            1,
	}
	if got := gatherMetrics(t, observer.Collectors()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("measured\n%v\nwant\n%v", got, want)
	}
}

// gatherMetrics returns counters, the number of measured durations, and the tokens.
func gatherMetrics(t *testing.T, collectors []prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			words := []string{family.GetName()}
			for _, l := range m.GetLabel() {
				words = append(words, l.GetValue())
			}
			key := strings.Join(words, " ")
			values[key] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if strings.Contains(key, "token_usage") {
				values[key] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return values
}
