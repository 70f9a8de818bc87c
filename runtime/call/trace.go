package call

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/telemetry"
)

// tellTimeout bounds the reading of what is told of a call after the fact.
const tellTimeout = 5 * time.Second

// begin fixes the identity of the call's span: the end may be another process's to know.
func (s *Service) begin(ctx context.Context, c *Call) {
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

// skillName is for labels and attributes. Of one that is gone, or was never registered, only the name is there.
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

// told counts a call that reached its end, and writes its span. It comes after the commit, once for each call.
func (s *Service) told(ctx context.Context, c *Call) {
	skill, now := s.skillName(ctx, c.SkillID), s.Now()
	if c.FinishedAt != nil {
		now = *c.FinishedAt
	}
	code := c.Code
	if code == "" {
		code = "none"
	}
	s.metrics.ended.WithLabelValues(skill, string(c.Status), code).Inc()
	s.metrics.duration.WithLabelValues(skill, gatedLabel(c.Gated)).Observe(max(0, now.Sub(c.began).Seconds()))
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

// Told counts carried calls that were completed, and writes their spans, after the transaction that did it.
func (s *Service) Told(ctx context.Context, ids ...uuid.UUID) { s.tellOf(ctx, ids...) }

// tellOf is told for calls of which only the id is at hand.
func (s *Service) tellOf(ctx context.Context, ids ...uuid.UUID) {
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
	defer cancel()
	calls, err := s.query(ctx, `SELECT `+briefColumns+` FROM calls WHERE id = ANY($1)`, ids)
	if err != nil {
		s.Logger.Warn("calls are missing in metrics and traces", "calls", len(ids), "error", err)
		return
	}
	for i := range calls {
		s.told(ctx, &calls[i])
	}
}

// tellDecision counts a decision, or an expiry, and writes the span of the wait for it.
func (s *Service) tellDecision(ctx context.Context, a *approval.Approval) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
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

// traceWait writes the span of a wait that is over, below that of its call.
func (s *Service) traceWait(ctx context.Context, id uuid.UUID, e telemetry.Ended) {
	var stored []byte
	if err := s.Pool.QueryRow(ctx, `SELECT trace FROM calls WHERE id = $1`, id).Scan(&stored); err != nil {
		s.Logger.Warn("a wait is missing in its trace", "call", id, "error", err)
		return
	}
	s.Traces.Child(telemetry.ReadPending(stored), e)
}

// tellConnected writes the span of a wait for a connection that is over.
func (s *Service) tellConnected(ctx context.Context, id uuid.UUID) {
	if !s.Traces.Recording() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
	defer cancel()
	e := telemetry.Ended{Name: "wait connection", Attributes: []attribute.KeyValue{telemetry.CallID.String(id.String())}}
	err := s.Pool.QueryRow(ctx, `SELECT created_at, coalesce(ended_at, holdpoint_now()) FROM call_connections WHERE call_id = $1`, id).
		Scan(&e.From, &e.To)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		s.Logger.Warn("a wait is missing in its trace", "call", id, "error", err)
	}
	if err == nil {
		s.traceWait(ctx, id, e)
	}
}
