package call

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/telemetry"
)

// metrics are the metrics of the calls of this process. Their labels come from the operators' settings, never from a client or a
// server, so their number is bounded.
type metrics struct {
	submitted *prometheus.CounterVec   // skill, status: parked, executing, …, or attached
	ended     *prometheus.CounterVec   // skill, status, code
	duration  *prometheus.HistogramVec // skill, gated
	waits     *prometheus.HistogramVec // skill, outcome
	flights   prometheus.GaugeFunc
}

// longBuckets returns buckets from 5 ms to a week, in seconds.
func longBuckets() []float64 {
	return []float64{.005, .025, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
}

func newMetrics(f *flights) metrics {
	return metrics{
		submitted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_calls_submitted_total",
			Help: "Calls that this process took in, by what became of them at once: executing (auto-approved), parked, needs_connection, denied, invalid, or attached to an earlier one.",
		}, []string{"skill", "status"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_calls_total",
			Help: "Calls that reached their end in this process, by outcome and the code that says why.",
		}, []string{"skill", "status", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdpoint_call_duration_seconds", Help: "From the submission of a call to its end, waiting included.", Buckets: longBuckets(),
		}, []string{"skill", "gated"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdpoint_decision_wait_seconds", Help: "How long parked calls waited for their decision, or their expiry.", Buckets: longBuckets(),
		}, []string{"skill", "outcome"}),
		flights: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "holdpoint_calls_in_flight", Help: "Calls that this process is sending.",
		}, func() float64 { return float64(f.count()) }),
	}
}

// Collectors returns the metrics of calls.
func (s *Service) Collectors() []prometheus.Collector {
	m := s.metrics
	return []prometheus.Collector{m.submitted, m.ended, m.duration, m.waits, m.flights}
}

func (m *metrics) countSubmission(sub *Submission, t *Ticket) {
	status := string(t.Status)
	if t.Attached {
		status = "attached"
	}
	m.submitted.WithLabelValues(sub.Entry.Skill, status).Inc()
}

// recordTimeout bounds the reads for metrics and spans of a call after it has ended.
const recordTimeout = 5 * time.Second

// beginTrace reserves the ids of the call's span, because another process may write the span when the call ends.
func (s *Service) beginTrace(ctx context.Context, c *Call) {
	c.began = s.Now()
	if s.Traces.Recording() || telemetry.Traced(ctx) {
		c.trace = s.Traces.Reserve(ctx, spanName(c), s.spanAttributes(ctx, c)...)
	}
}

func spanName(c *Call) string { return telemetry.ExecuteTool + " " + c.Tool }

func (s *Service) spanAttributes(ctx context.Context, c *Call) []attribute.KeyValue {
	list := []attribute.KeyValue{
		telemetry.OperationName.String(telemetry.ExecuteTool),
		telemetry.ToolName.String(c.Tool), telemetry.ToolCallID.String(c.ID.String()), telemetry.ToolType.String("extension"),
		telemetry.CallID.String(c.ID.String()), telemetry.Skill.String(s.skillName(ctx, c.SkillID)),
		telemetry.AgentID.String(c.AgentID.String()),
	}
	if a, err := s.Agents.AgentByID(ctx, c.AgentID); err == nil {
		list = append(list, telemetry.AgentName.String(a.Name))
	}
	if c.ConversationID != uuid.Nil {
		list = append(list, telemetry.ConversationID.String(c.ConversationID.String()))
	}
	return list
}

// skillName returns the name of a skill, even of a deleted one, for labels and attributes.
func (s *Service) skillName(ctx context.Context, id uuid.UUID) string {
	skill, _, err := s.Agents.Skill(ctx, id)
	if err == nil {
		return skill.Name
	}
	names, err := s.Agents.Names(ctx, []uuid.UUID{id})
	if err != nil || names[id] == "" {
		return "unknown"
	}
	return names[id]
}

// recordEnd counts a call that has ended, and writes its span. It is called once for each call, after the commit.
func (s *Service) recordEnd(ctx context.Context, c *Call) {
	skill, now := s.skillName(ctx, c.SkillID), s.Now()
	if c.FinishedAt != nil {
		now = *c.FinishedAt
	}
	code := c.Code
	if code == "" {
		code = "none"
	}
	s.metrics.ended.WithLabelValues(skill, string(c.Status), code).Inc()
	s.metrics.duration.WithLabelValues(skill, strconv.FormatBool(c.Gated)).Observe(max(0, now.Sub(c.began).Seconds()))
	if !c.trace.Recorded() {
		return
	}
	e := telemetry.Ended{
		Name: spanName(c), From: c.began, To: now,
		Attributes: append(s.spanAttributes(ctx, c), telemetry.Status.String(string(c.Status)), telemetry.Gated.Bool(c.Gated)),
	}
	if c.Code != "" {
		e.Attributes = append(e.Attributes, telemetry.Code.String(c.Code))
	}
	if c.Status != Succeeded {
		e.ErrorType = code
	}
	s.Traces.End(c.trace, e)
}

// RecordEnds reads calls that have ended, counts them and writes their spans. For carried calls it is called after the transaction of
// [Service.Complete].
func (s *Service) RecordEnds(ctx context.Context, ids ...uuid.UUID) {
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	calls, err := s.queryCalls(ctx, `SELECT `+briefColumns+` FROM calls WHERE id = ANY($1)`, ids)
	if err != nil {
		s.Logger.Warn("reading ended calls for metrics and traces", "calls", len(ids), "error", err)
		return
	}
	for i := range calls {
		s.recordEnd(ctx, &calls[i])
	}
}

// recordDecision counts a decision or an expiry, and writes the span of the wait for it.
func (s *Service) recordDecision(ctx context.Context, a *approval.Approval) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if a.DecidedAt == nil {
		return
	}
	outcome := string(a.Status)
	s.metrics.waits.WithLabelValues(s.skillName(ctx, a.SkillID), outcome).Observe(max(0, a.DecidedAt.Sub(a.CreatedAt).Seconds()))
	if s.Traces.Recording() {
		s.traceWait(ctx, a.CallID, telemetry.Ended{
			Name: "wait decision", From: a.CreatedAt, To: *a.DecidedAt,
			Attributes: []attribute.KeyValue{
				telemetry.CallID.String(a.CallID.String()), telemetry.Outcome.String(outcome),
				telemetry.Rule.String(string(a.Rule)), telemetry.Edited.Bool(a.Edited()),
			},
		})
	}
}

// traceWait writes the span of a wait that has ended, as a child of its call's span.
func (s *Service) traceWait(ctx context.Context, id uuid.UUID, e telemetry.Ended) {
	var stored []byte
	if err := s.Pool.QueryRow(ctx, `SELECT trace FROM calls WHERE id = $1`, id).Scan(&stored); err != nil {
		s.Logger.Warn("reading the trace of a call", "call", id, "error", err)
		return
	}
	s.Traces.Child(telemetry.ReadPending(stored), e)
}

// traceConnectionWait writes the span of a wait for a connection that has ended.
func (s *Service) traceConnectionWait(ctx context.Context, id uuid.UUID) {
	if !s.Traces.Recording() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	e := telemetry.Ended{Name: "wait connection", Attributes: []attribute.KeyValue{telemetry.CallID.String(id.String())}}
	err := s.Pool.QueryRow(ctx, `SELECT created_at, coalesce(ended_at, holdpoint_now()) FROM call_connections WHERE call_id = $1`, id).
		Scan(&e.From, &e.To)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		s.Logger.Warn("reading the trace of a call", "call", id, "error", err)
	}
	if err == nil {
		s.traceWait(ctx, id, e)
	}
}

// recordStep measures a step that began at began and ends now, and writes its span as a child of the call's span.
func (s *Service) recordStep(c *Call, step PipelineStep, began time.Time) {
	now := s.Now()
	c.ensureMeasures().addStep(step, now.Sub(began))
	s.traceStep(c, string(step), began, now)
}

func (s *Service) traceStep(c *Call, name string, from, to time.Time) {
	if !c.trace.Recorded() {
		return
	}
	s.Traces.Child(c.trace, telemetry.Ended{
		Name: name, From: from, To: to, Attributes: []attribute.KeyValue{telemetry.CallID.String(c.ID.String())},
	})
}
