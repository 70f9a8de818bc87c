package model

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/internal/telemetry"
)

// Observer measures requests to models and writes their spans, without their content. Names and units follow OpenTelemetry's
// conventions for generative AI, in the form of its Prometheus exporters.
type Observer struct {
	traces   *telemetry.Tracer
	now      func() time.Time
	duration *prometheus.HistogramVec // provider, model, error type
	first    *prometheus.HistogramVec // provider, model
	tokens   *prometheus.HistogramVec // provider, model, token type
	retries  *prometheus.CounterVec   // provider, model
}

// NewObserver makes an Observer.
func NewObserver(traces *telemetry.Tracer, now func() time.Time) *Observer {
	labels := func(more ...string) []string {
		return append([]string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"}, more...)
	}
	return &Observer{
		traces: traces, now: now,
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gen_ai_client_operation_duration_seconds", Help: "Requests to models, each attempt by itself. Without an error type: it was answered.",
			Buckets: []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92},
		}, labels("error_type")),
		first: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gen_ai_client_operation_time_to_first_chunk_seconds", Help: "From a request to the first text of its answer.",
			Buckets: []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30},
		}, labels()),
		tokens: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gen_ai_client_token_usage", Help: "Tokens of requests (input) and answers (output), as the provider counts them.",
			Buckets: []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864},
		}, labels("gen_ai_token_type")),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_model_retries_total", Help: "Requests to models that were made again after they had failed.",
		}, []string{"provider", "model"}),
	}
}

// Collectors returns the metrics.
func (o *Observer) Collectors() []prometheus.Collector {
	return []prometheus.Collector{o.duration, o.first, o.tokens, o.retries}
}

// CountRetry counts a retry; see [RetryConfig].
func (o *Observer) CountRetry(provider string, request *Request) {
	o.retries.WithLabelValues(provider, request.Model).Inc()
}

// Observe returns a provider that measures each request, so it belongs inside [Retrying]. name is the provider's name in the
// metrics; baseURL, if not empty, is its address.
func (o *Observer) Observe(p Provider, name, baseURL string) Provider {
	about := []attribute.KeyValue{telemetry.OperationName.String(chat), telemetry.ProviderName.String(name), telemetry.RequestStream.Bool(true)}
	if u, err := url.Parse(baseURL); err == nil && u.Host != "" {
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			port = map[string]int{"http": 80, "https": 443}[u.Scheme]
		}
		about = append(about, semconv.ServerAddress(u.Hostname()), semconv.ServerPort(port))
	}
	return &observed{p, o, name, about}
}

const chat = "chat"

type observed struct {
	Provider

	by    *Observer
	name  string
	about []attribute.KeyValue
}

// Generate implements [Provider].
func (p *observed) Generate(ctx context.Context, r *Request, sink func(Delta)) (*Response, error) {
	if telemetry.Traced(ctx) && p.by.traces.Recording() {
		var span trace.Span
		ctx, span = p.by.traces.Start(ctx, chat+" "+r.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(p.about...),
			trace.WithAttributes(telemetry.RequestModel.String(r.Model)))
		defer span.End()
		if r.MaxTokens > 0 {
			span.SetAttributes(telemetry.RequestMaxTokens.Int(r.MaxTokens))
		}
	}
	began, first := p.by.now(), time.Duration(-1)
	response, err := p.Provider.Generate(ctx, r, func(d Delta) {
		if first < 0 && d.Text != "" {
			first = p.by.now().Sub(began)
		}
		if sink != nil {
			sink(d)
		}
	})
	p.recordMetrics(r, response, err, p.by.now().Sub(began), first)
	p.recordSpan(trace.SpanFromContext(ctx), response, err, first)
	return response, err
}

func (p *observed) recordMetrics(r *Request, response *Response, err error, took, first time.Duration) {
	p.by.duration.WithLabelValues(chat, p.name, r.Model, errorType(err)).Observe(took.Seconds())
	if first >= 0 {
		p.by.first.WithLabelValues(chat, p.name, r.Model).Observe(first.Seconds())
	}
	if err == nil {
		p.by.tokens.WithLabelValues(chat, p.name, r.Model, "input").Observe(float64(response.Usage.InputTokens))
		p.by.tokens.WithLabelValues(chat, p.name, r.Model, "output").Observe(float64(response.Usage.OutputTokens))
	}
}

// recordSpan records the outcome of a request.
func (p *observed) recordSpan(span trace.Span, response *Response, err error, first time.Duration) {
	if !span.IsRecording() {
		return
	}
	if first >= 0 {
		span.SetAttributes(telemetry.TimeToFirstChunk.Float64(first.Seconds()))
	}
	if err != nil {
		telemetry.Fail(span, errorType(err))
		return
	}
	span.SetAttributes(
		telemetry.ResponseModel.String(response.Model), telemetry.FinishReasons.StringSlice([]string{response.Stop.finishReason()}),
		telemetry.InputTokens.Int64(response.Usage.InputTokens), telemetry.CachedInputTokens.Int64(response.Usage.CachedInputTokens),
		telemetry.OutputTokens.Int64(response.Usage.OutputTokens),
	)
	if response.ID != "" {
		span.SetAttributes(telemetry.ResponseID.String(response.ID))
	}
}

// finishReason returns the conventions' word for a stop reason.
func (s StopReason) finishReason() string {
	switch s {
	case StopEnd:
		return "stop"
	case StopToolCalls:
		return "tool_call"
	case StopMaxTokens:
		return "length"
	case StopRefusal:
		return "content_filter"
	}
	return string(s)
}

// errorType returns the HTTP status or a short word for the error, or "" without one.
func errorType(err error) string {
	var failure *Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled):
		return "stopped"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case !errors.As(err, &failure):
		return "_OTHER"
	case failure.TooLong:
		return "too_long"
	case failure.Status != 0:
		return strconv.Itoa(failure.Status)
	}
	return "broken"
}
