package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Carry records a carried call: one that is executed by work in the database (a conversation), which any process can continue, and which
// ends it with [Service.Complete]. No instance claims a carried call, so none can lose it. The transaction that records the call runs
// begin, unless the call repeats an earlier one with the same idempotency key. Errors: ErrKeyReused, *file.AttachmentError, those of
// begin.
func (s *Service) Carry(ctx context.Context, sub Submission, begin func(ctx context.Context, tx pgx.Tx, c *Call) error) (Ticket, error) {
	c, err := newCall(&sub, &agent.Skill{ID: sub.Entry.SkillID, Name: sub.Entry.Skill, Revision: sub.Entry.SkillRevision})
	if err != nil {
		return Ticket{}, err
	}
	s.beginTrace(ctx, c)
	ctx = c.trace.In(ctx)
	if err := s.freezeAttachments(ctx, c, sub.Entry.Tool); err != nil {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	}
	started := s.Now()
	refused, err := s.checkArguments(ctx, sub.Entry.Tool, c.Arguments)
	s.recordStep(c, StepValidate, started)
	if err != nil {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	}
	var ticket Ticket
	if refused != nil {
		ticket, err = s.recordRefusal(ctx, c, &sub, refused.outcome)
	} else {
		ticket, err = s.recordCarried(ctx, c, &sub, begin)
	}
	if err == nil {
		s.metrics.countSubmission(&sub, &ticket)
	}
	return ticket, err
}

// recordCarried records a carried call, and begins its work in the same transaction. It retries only while the database was just replaced:
// begin may fail for good.
func (s *Service) recordCarried(ctx context.Context, c *Call, sub *Submission, begin func(ctx context.Context, tx pgx.Tx, c *Call) error) (Ticket, error) {
	c.Status = Executing
	item := &intakeItem{call: c, begin: begin, move: newSubmitMove(ctx, c, sub, nil)}
	if sub.IdempotencyKey != "" {
		item.attachKey, item.keyedSum = attachKey(sub), keyedSum(sub)
	}
	began := s.Now()
	for attempt := 1; ; attempt++ {
		err := s.writeIntake(ctx, []*intakeItem{item})
		for errors.Is(err, errUnsettled) && s.Now().Sub(began) < intakeLimit && pause.For(ctx, retryDelay) == nil {
			err = s.writeIntake(ctx, []*intakeItem{item})
		}
		if err != nil {
			return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
		}
		if !errors.Is(item.err, errAttachedGone) || attempt == attachAttempts {
			return item.ticket, item.err
		}
	}
}

// Done is the outcome of a carried call.
type Done struct {
	Result  json.RawMessage // a JSON-RPC result
	IsError bool            // of the result
}

// Complete ends a carried call in tx. It does nothing if the call has ended.
func (s *Service) Complete(ctx context.Context, tx pgx.Tx, id uuid.UUID, d Done) error {
	m := &move{event: onComplete, id: id, outcome: outcome{status: Succeeded, result: d.Result}}
	if d.IsError {
		m.outcome = outcome{
			status: Failed, code: string(tool.ToolError), failure: tool.ToolError, effect: tool.EffectNone,
			message: "the agent could not answer", result: d.Result,
		}
		m.data = map[string]any{"failure": m.failure, "effect": m.effect}
	}
	if err := s.moveInTx(ctx, tx, m); err != nil {
		return fmt.Errorf("complete call %s: %w", id, err)
	}
	return nil
}

// LiveInstances is SQL that reads the ids of the live instances.
const LiveInstances = `SELECT id FROM instances`
