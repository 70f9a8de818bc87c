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

// spans is what is kept of a conversation's spans while it is at work: the run's, from a message to its answer, and that of
// the turn, from a request to the model to the end of the calls that it wants. Both may last for days and end in another process.
type spans struct {
	Run      []byte    `json:"run"`
	Turn     []byte    `json:"turn,omitempty"`
	TurnFrom time.Time `json:"turn_from,omitzero"`
}

// over is a run or a turn that ended with the change that is being written.
type over struct {
	run     bool
	pending telemetry.Pending
	from    time.Time
	code    string // why; empty: with an answer, or with calls
}

// metrics are what this process saw of conversations.
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

// Collectors are the metrics of conversations.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.turns, s.metrics.runs, s.metrics.cost}
}

// AtWork counts the conversations that are not idle and have not ended, by status.
func (s *Service) AtWork(ctx context.Context) (map[Status]int, error) {
	counts := map[Status]int{Due: 0, Queued: 0, Running: 0, Waiting: 0}
	rows, err := s.Pool.Query(ctx, `SELECT status, count(*) FROM loops WHERE status IN ('due', 'queued', 'running') GROUP BY status
		UNION ALL SELECT 'waiting', count(*) FROM loops WHERE status = 'waiting'`)
	if err != nil {
		return nil, fmt.Errorf("count conversations: %w", err)
	}
	var status Status
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&status, &n}, func() error { counts[status] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count conversations: %w", err)
	}
	return counts, nil
}

// reserve fixes the identity of the span of a run, in the trace of whoever says something.
func (s *Service) reserve(ctx context.Context) []byte {
	return s.Traces.Reserve(ctx, telemetry.InvokeAgent, telemetry.OperationName.String(telemetry.InvokeAgent)).Bytes()
}

// runBegins notes that the conversation takes a message up, with what was reserved for it.
func (s *Service) runBegins(l *loop, trace []byte) {
	l.runFrom, l.spans = s.Now(), nil
	if trace != nil {
		l.spans = &spans{Run: trace}
	}
}

// runEnds notes that the work on a message is over.
func (s *Service) runEnds(l *loop, code string) {
	if l.runFrom.IsZero() {
		return
	}
	run := over{run: true, from: l.runFrom, code: code}
	if l.spans != nil {
		run.pending = telemetry.ReadPending(l.spans.Run)
		s.turnEnds(l, code)
	}
	l.over = append(l.over, run)
	l.runFrom, l.spans = time.Time{}, nil
}

func (s *Service) turnEnds(l *loop, code string) {
	if l.spans.Turn != nil {
		l.over = append(l.over, over{pending: telemetry.ReadPending(l.spans.Turn), from: l.spans.TurnFrom, code: code})
		l.spans.Turn = nil
	}
}

// turnBegins ends the span of the turn before, whose calls have ended by now, and fixes the identity of the next one. One that
// broke off, and is taken up again, goes on.
func (s *Service) turnBegins(ctx context.Context, l *loop) {
	if l.spans == nil || l.spans.Turn != nil && (l.attempts > 0 || l.reply > 0 && !l.submitted) {
		return
	}
	s.turnEnds(l, "")
	run := telemetry.ReadPending(l.spans.Run)
	l.spans.Turn, l.spans.TurnFrom = s.Traces.Reserve(run.In(ctx), "turn").Bytes(), s.Now()
}

// traced is the context of what a turn does: its calls and requests are below it.
func (t *turn) traced(ctx context.Context) context.Context {
	if t.loop.spans == nil {
		return telemetry.Untraced(ctx)
	}
	return telemetry.ReadPending(t.loop.spans.Turn).In(ctx)
}

// told comes after the commit of a change: it counts what ended with it, and writes the spans.
func (s *Service) told(ctx context.Context, l *loop) {
	if len(l.finished) > 0 {
		ids := make([]uuid.UUID, len(l.finished))
		for i := range l.finished {
			ids[i] = l.finished[i].call
		}
		s.Calls.Told(ctx, ids...)
	}
	for _, o := range l.over {
		if o.run {
			code := o.code
			if code == "" {
				code = "answered"
			}
			s.metrics.runs.WithLabelValues(code).Observe(max(0, s.Now().Sub(o.from).Seconds()))
		}
		if o.pending.Recorded() {
			s.Traces.End(o.pending, s.span(ctx, l, &o))
		}
	}
}

func (s *Service) span(ctx context.Context, l *loop, o *over) telemetry.Ended {
	e := telemetry.Ended{
		Name: "turn", From: o.from, To: s.Now(), ErrorType: o.code,
		Attributes: []attribute.KeyValue{telemetry.ConversationID.String(l.ID.String()), telemetry.AgentID.String(l.AgentID.String())},
	}
	a, err := s.Agents.AgentByID(context.WithoutCancel(ctx), l.AgentID)
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

// countReply counts what a turn brought.
func (s *Service) countReply(reply *Reply, spec *agent.ModelSpec) {
	outcome := "text"
	if len(reply.Calls) > 0 {
		outcome = "calls"
	}
	s.metrics.turns.WithLabelValues(outcome).Inc()
	s.metrics.cost.WithLabelValues(spec.Provider, spec.Name).Add(max(0, reply.Cost))
}
