package call

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// finish writes the outcome of a call that this instance claimed, by compare-and-set on the claim, and
// wakes its waiters. It retries until the database takes the outcome, which is known nowhere else. If the
// claim is gone, the outcome is kept as evidence.
func (s *Service) finish(c *Call, o outcome, announce bool) {
	m := &move{event: onFinish, id: c.ID, agentID: c.AgentID, call: c, outcome: o, local: !announce, errorLine: errorLine(c, &o)}
	if o.failure != "" {
		m.data = map[string]any{"failure": o.failure, "effect": o.effect}
	}
	began := s.Now()
	if s.outcomes.do(m) != nil {
		return // the process ends; another one marks the call unknown
	}
	s.traceStep(c, "log outcome", began, s.Now())
	s.flights.done(c.ID) // before waking: whoever sees the call in flight relies on being woken
	if !m.made {
		s.hub.wake(c.ID, nil)
		return
	}
	s.announceMoves(s.running, m)
}

// outcomesConfig configures the batcher that writes outcomes.
func (s *Service) outcomesConfig() batcherConfig[move] {
	return batcherConfig[move]{
		write: s.writeOutcomes, most: 4, now: s.Now,
		retry: func(m *move, err error, _ time.Duration) bool {
			s.Logger.Error("writing an outcome failed; trying again", "call", m.id, "status", m.status, "error", err)
			if isDataError(err) { // a result that cannot be stored must not keep the rest from being so
				m.result, m.message, m.errorLine = nil, "the result could not be stored", ""
			}
			return true
		},
		size: func(m *move) int { return len(m.result) + len(m.message) },
	}
}

// writeOutcomes is one round trip: a pipelined, implicit transaction.
func (s *Service) writeOutcomes(ctx context.Context, moves []*move) error {
	batch := &pgx.Batch{}
	if err := s.queueMoves(batch, moves...); err != nil {
		return err
	}
	queueReturned(batch, moves)
	failpoint.Hit(failpoint.FinishBeforeCommit)
	if err := s.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("write outcomes: %w", err)
	}
	failpoint.Hit(failpoint.FinishAfterCommit)
	for _, m := range moves {
		if m.made {
			continue
		}
		if err := s.keepLate(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// sendUpdates sends a batch whose first statements update calls, and returns which they did.
func sendUpdates(results pgx.BatchResults, updates int) (map[uuid.UUID]bool, error) {
	written := map[uuid.UUID]bool{}
	var id uuid.UUID
	var err error
	for i := 0; i < updates && err == nil; i++ {
		rows, _ := results.Query() // an error here is an error of rows
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error { written[id] = true; return nil })
	}
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return written, nil
}

// keepLate keeps an outcome that came after the call's claim was taken away. An
// outcome that an earlier, unconfirmed attempt had written is no late one.
func (s *Service) keepLate(ctx context.Context, m *move) error {
	evidence, err := json.Marshal(map[string]any{
		"status": m.status, "code": m.code, "effect": m.effect, "message": m.message, "result": string(m.result),
	})
	if err != nil {
		return fmt.Errorf("encode late outcome of call %s: %w", m.id, err)
	}
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE calls SET late = $2 WHERE id = $1 AND status = 'unknown' AND late IS NULL`,
			m.id, string(evidence))
		if err != nil {
			return fmt.Errorf("keep late outcome of call %s: %w", m.id, err)
		}
		if tag.RowsAffected() == 0 {
			return tx.QueryRow(ctx, `SELECT status = $2 FROM calls WHERE id = $1`, m.id, m.status).Scan(&m.made)
		}
		s.Logger.Warn("an outcome came after the call had become unknown; kept as evidence", "call", m.id, "status", m.status)
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.System(), Action: "call.late_outcome", Subject: m.id, Data: map[string]any{"status": m.status},
		})
	})
}
