package call

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Most calls are sent by a process that claimed them. Some are carried: what they ask for is done by something that is in the
// database itself (a conversation), goes on in whatever process is alive, and says when it is done. Nobody
// claims these, so nobody can lose them.

// Carry takes a carried call in. Begin is told of it in the transaction that records it, unless it is a repeat of an earlier
// one with the same idempotency key. Errors: ErrKeyReused, *file.AttachmentError, those of begin.
func (s *Service) Carry(ctx context.Context, sub Submission, begin func(ctx context.Context, tx pgx.Tx, c *Call) error) (Ticket, error) {
	return s.takeIn(&sub, func() (Ticket, error) { return s.carryOnce(ctx, &sub, begin) })
}

func (s *Service) carryOnce(ctx context.Context, sub *Submission, begin func(ctx context.Context, tx pgx.Tx, c *Call) error) (Ticket, error) {
	c, err := newCall(sub, &agent.Skill{ID: sub.Entry.SkillID, Name: sub.Entry.Skill, Revision: sub.Entry.SkillRevision})
	if err != nil {
		return Ticket{}, err
	}
	s.begin(ctx, c)
	ctx = c.trace.In(ctx)
	if r, err := s.checkCall(ctx, c, sub.Entry.Tool); err != nil {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	} else if r != nil {
		return s.refuse(ctx, c, sub, r.outcome)
	}
	c.Status = Executing
	item := &intakeItem{call: c, begin: begin, move: submission(ctx, c, sub, nil)}
	if sub.IdempotencyKey != "" {
		item.attachKey, item.keyed = attachKey(sub), s.keyed(sub)
	}
	item.ticket = Ticket{ID: c.ID, Status: c.Status}
	if err := s.intakeInTx(ctx, []*intakeItem{item}); err != nil {
		return Ticket{}, fmt.Errorf("submit %s: %w", sub.Entry.Name, err)
	}
	return item.ticket, item.err
}

// beginCarried tells what carries freshly inserted calls of them.
func beginCarried(ctx context.Context, tx pgx.Tx, items []*intakeItem) error {
	for _, item := range items {
		if item.begin == nil {
			continue
		}
		if err := item.begin(ctx, tx, item.call); err != nil {
			return err
		}
	}
	return nil
}

// Done is how a carried call ended.
type Done struct {
	Result  json.RawMessage // a JSON-RPC result
	IsError bool            // as the result says
}

// Complete ends a carried call, in the transaction of what did it. One that ended before stays as it is.
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

// Known returns those of some calls that were recorded, by id, without the names of agents and skills.
func (s *Service) Known(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Call, error) {
	calls, err := s.query(ctx, `SELECT `+columns+` FROM calls WHERE id = ANY($1)`, ids)
	if err == nil {
		err = s.readFiles(ctx, calls)
	}
	if err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	known := make(map[uuid.UUID]Call, len(calls))
	for i := range calls {
		known[calls[i].ID] = calls[i]
	}
	return known, nil
}

// Ended returns those of some calls that have ended, with how they did.
func (s *Service) Ended(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Status, error) {
	rows, err := s.Pool.Query(ctx, `SELECT id, status FROM calls WHERE id = ANY($1) AND finished_at IS NOT NULL`, ids)
	if err != nil {
		return nil, fmt.Errorf("look for ended calls: %w", err)
	}
	ended := map[uuid.UUID]Status{}
	var id uuid.UUID
	var status Status
	if _, err := pgx.ForEachRow(rows, []any{&id, &status}, func() error { ended[id] = status; return nil }); err != nil {
		return nil, fmt.Errorf("look for ended calls: %w", err)
	}
	return ended, nil
}

// LiveInstances is SQL that reads the ids of the processes that are alive. A claim of any other is nobody's.
const LiveInstances = `SELECT id FROM instances`
