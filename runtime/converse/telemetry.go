package converse

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// traceState has the open spans of a conversation: the run's, from a message to its answer, and the turn's, from a request to
// the model to the end of its calls. Both may last for days and end in another process.
type traceState struct {
	Run      []byte    `json:"run"`
	Turn     []byte    `json:"turn,omitempty"`
	TurnFrom time.Time `json:"turn_from,omitzero"`
}

// finishedWork is a run or turn that ended with the change that is being written.
type finishedWork struct {
	run     bool
	pending telemetry.Pending
	from    time.Time
	code    string // why it ended; empty: with an answer, or with calls
}

// metrics counts the work that this process committed.
type metrics struct {
	turns *prometheus.CounterVec   // outcome
	runs  *prometheus.HistogramVec // code
	cost  *prometheus.CounterVec   // provider, model
}

func newMetrics() metrics {
	return metrics{
		turns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_turns_total", Help: "Turns of the built-in loop, by what the model answered: calls, text, or nothing (failed).",
		}, []string{"outcome"}),
		runs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "holdpoint_conversation_run_duration_seconds",
			Help:    "From a message to the end of the agent's work on it, people's decisions included, by code: answered, or why there was no answer.",
			Buckets: []float64{.1, .5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600},
		}, []string{"code"}),
		cost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_model_cost_total", Help: "What answers cost by the prices that operators gave, in their currency.",
		}, []string{"provider", "model"}),
	}
}

// Collectors returns the metrics of conversations.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.record.metrics.turns, s.record.metrics.runs, s.record.metrics.cost}
}

// AtWork counts conversations by status, without idle and ended ones.
func (s *Service) AtWork(ctx context.Context) (map[Status]int, error) {
	counts := map[Status]int{Due: 0, Queued: 0, Running: 0, Waiting: 0}
	rows, _ := s.Pool.Query(ctx, `SELECT status, count(*) FROM loops WHERE status IN ('due', 'queued', 'running') GROUP BY status
		UNION ALL SELECT 'waiting', count(*) FROM loops WHERE status = 'waiting'`)
	var status Status
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&status, &n}, func() error { counts[status] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count conversations: %w", err)
	}
	return counts, nil
}

// recorder writes the spans and metrics of conversations.
type recorder struct {
	Config
	metrics metrics
}

// reserveSpan fixes the ids of a run's span in the trace of the message's sender.
func (r *recorder) reserveSpan(ctx context.Context) []byte {
	return r.Traces.Reserve(ctx, telemetry.InvokeAgent, telemetry.OperationName.String(telemetry.InvokeAgent)).Bytes()
}

// beginRun notes the start of a run. trace is the reserved span.
func (r *recorder) beginRun(l *loop, trace []byte) {
	l.runFrom, l.spans = r.Now(), nil
	if trace != nil {
		l.spans = &traceState{Run: trace}
	}
}

// endRun notes the end of a run.
func (r *recorder) endRun(l *loop, code string) {
	if l.runFrom.IsZero() {
		return
	}
	run := finishedWork{run: true, from: l.runFrom, code: code}
	if l.spans != nil {
		run.pending = telemetry.ReadPending(l.spans.Run)
		r.endTurn(l, code)
	}
	l.finishedWork = append(l.finishedWork, run)
	l.runFrom, l.spans = time.Time{}, nil
}

func (r *recorder) endTurn(l *loop, code string) {
	if l.spans.Turn != nil {
		l.finishedWork = append(l.finishedWork, finishedWork{pending: telemetry.ReadPending(l.spans.Turn), from: l.spans.TurnFrom, code: code})
		l.spans.Turn = nil
	}
}

// beginTurn ends the span of the previous turn, because its calls have ended, and fixes the ids of the next one. A turn that is
// retried keeps its span.
func (r *recorder) beginTurn(ctx context.Context, l *loop) {
	if l.spans == nil || l.spans.Turn != nil && (l.attempts > 0 || l.reply > 0 && !l.submitted) {
		return
	}
	r.endTurn(l, "")
	run := telemetry.ReadPending(l.spans.Run)
	l.spans.Turn, l.spans.TurnFrom = r.Traces.Reserve(run.In(ctx), "turn").Bytes(), r.Now()
}

// announceChange runs after the commit of a change. It wakes the clients of answered calls, counts finished work and writes its
// spans.
func (r *recorder) announceChange(ctx context.Context, l *loop) {
	if len(l.answers) > 0 {
		ids := make([]uuid.UUID, len(l.answers))
		for i := range l.answers {
			ids[i] = l.answers[i].call
		}
		r.Calls.RecordEnds(ctx, ids...)
	}
	for _, o := range l.finishedWork {
		if o.run {
			code := o.code
			if code == "" {
				code = "answered"
			}
			r.metrics.runs.WithLabelValues(code).Observe(max(0, r.Now().Sub(o.from).Seconds()))
		}
		if o.pending.Recorded() {
			r.Traces.End(o.pending, r.buildSpan(ctx, l, &o))
		}
	}
}

func (r *recorder) buildSpan(ctx context.Context, l *loop, o *finishedWork) telemetry.Ended {
	e := telemetry.Ended{
		Name: "turn", From: o.from, To: r.Now(), ErrorType: o.code,
		Attributes: []attribute.KeyValue{telemetry.ConversationID.String(l.ID.String()), telemetry.AgentID.String(l.AgentID.String())},
	}
	a, err := r.Agents.AgentByID(context.WithoutCancel(ctx), l.AgentID)
	if err == nil {
		e.Attributes = append(e.Attributes, telemetry.AgentName.String(a.Name))
	}
	if !o.run {
		return e
	}
	e.Name = telemetry.InvokeAgent
	e.Attributes = append(e.Attributes, telemetry.OperationName.String(telemetry.InvokeAgent))
	if err == nil {
		e.Name += " " + a.Name
	}
	var asked struct {
		Provider string `json:"provider"`
		Name     string `json:"name"`
	}
	if err == nil && json.Unmarshal(a.Model, &asked) == nil {
		e.Attributes = append(e.Attributes, telemetry.ProviderName.String(asked.Provider), telemetry.RequestModel.String(asked.Name))
	}
	return e
}

// countReply counts a reply by its outcome and adds its cost.
func (r *recorder) countReply(reply *Reply, spec *agent.ModelSpec) {
	outcome := "text"
	if len(reply.Calls) > 0 {
		outcome = "calls"
	}
	r.metrics.turns.WithLabelValues(outcome).Inc()
	r.metrics.cost.WithLabelValues(spec.Provider, spec.Name).Add(max(0, reply.Cost))
}
