package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Open makes a Tracer by OpenTelemetry's own environment variables, which the exporter reads too. Spans go to
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT. Nothing is recorded without either, or with
// OTEL_SDK_DISABLED=true or OTEL_TRACES_EXPORTER=none.
func Open(ctx context.Context, getenv func(string) string, version string, log *slog.Logger) (*Tracer, error) {
	endpoint := firstVariable(getenv, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return Off(), nil
	}
	if err := checkVariables(getenv, endpoint); err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the exporter of traces: %w", err)
	}
	return New(ctx, Config{Exporter: exporter, Version: version, Logger: log})
}

func firstVariable(getenv func(string) string, names ...string) string {
	for _, name := range names {
		if value := getenv(name); value != "" {
			return value
		}
	}
	return ""
}

// checkVariables refuses settings that the exporter would misread, or only log, with their values.
func checkVariables(getenv func(string) string, endpoint string) error {
	if u, err := url.Parse(endpoint); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return errors.New("OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: must be a URL with http:// or https:// and a host")
	}
	switch protocol := firstVariable(getenv, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", "http/protobuf", "http/json":
	default:
		return fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL %q: must be http/protobuf or http/json", protocol)
	}
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "", "otlp":
	default:
		return fmt.Errorf("OTEL_TRACES_EXPORTER %q: must be otlp or none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for pair := range strings.SplitSeq(getenv(name), ",") {
			key, value, found := strings.Cut(pair, "=")
			_, err := url.PathUnescape(value)
			if strings.TrimSpace(pair) != "" && (!found || strings.TrimSpace(key) == "" || err != nil) {
				return fmt.Errorf("%s: must be name=value pairs, separated by commas, with values percent-encoded", name)
			}
		}
	}
	return nil
}

func newSent() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdpoint_trace_spans_total", Help: "Spans handed to the collector of traces, by what became of them.",
	}, []string{"outcome"})
}

// countingExporter counts spans, and logs the first failure and the first success after it.
type countingExporter struct {
	next   sdktrace.SpanExporter
	log    *slog.Logger
	sent   *prometheus.CounterVec
	broken atomic.Bool
}

// ExportSpans implements [sdktrace.SpanExporter]. It logs errors, and returns none.
func (c *countingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := c.next.ExportSpans(ctx, spans)
	n := float64(len(spans))
	if err != nil {
		c.sent.WithLabelValues("lost").Add(n)
		if !c.broken.Swap(true) {
			c.log.Warn("traces cannot be exported; spans are lost until they can", "error", err)
		}
		return nil
	}
	c.sent.WithLabelValues("exported").Add(n)
	if c.broken.Swap(false) {
		c.log.Info("traces are exported again")
	}
	return nil
}

// Shutdown implements [sdktrace.SpanExporter].
func (c *countingExporter) Shutdown(ctx context.Context) error { return c.next.Shutdown(ctx) }
