package callback

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// publishSQL, a condition, and publishEndSQL insert a message for each event and each callback of the call's agent, and notify
// processes.
const (
	publishSQL = `WITH told AS (INSERT INTO callback_deliveries (id, callback_id, type, call_id, conversation_id, tool, status, code)
		SELECT gen_random_uuid(), k.id, e.type, c.id, c.conversation_id, c.tool, c.status, c.code
		FROM unnest((SELECT $1::uuid[]), $2::text[]) WITH ORDINALITY AS e(subject_id, type, n)
			JOIN (` + call.CallFacts + `) AS c ON c.id = e.subject_id
			JOIN callbacks AS k ON k.agent_id = c.agent_id AND k.disabled_at IS NULL
		WHERE `
	publishEndSQL = ` ORDER BY e.n RETURNING 1)
		SELECT pg_notify('` + string(Channel) + `', '') FROM told LIMIT 1`
)

// Publish is a [call.Publish]. It adds nothing to the batch for calls of agents without callbacks.
func (s *Service) Publish(batch *pgx.Batch, condition string, list []call.Happening) error {
	agents, known := s.listening.Peek(struct{}{})
	if !known { // the statement works without the cache, which is filled for the next ones
		s.listening.Start(context.Background(), struct{}{}, s.readListening)
	}
	var calls []uuid.UUID
	var types []string
	for _, h := range list {
		if known && (len(agents) == 0 || h.AgentID != uuid.Nil && !agents[h.AgentID]) {
			continue
		}
		calls, types = append(calls, h.CallID), append(types, string(h.Kind))
	}
	if len(calls) > 0 {
		batch.Queue(publishSQL+condition+publishEndSQL, calls, types)
	}
	return nil
}

func (s *Service) readListening(ctx context.Context) (map[uuid.UUID]bool, error) {
	rows, _ := s.Pool.Query(ctx, `SELECT DISTINCT agent_id FROM callbacks WHERE disabled_at IS NULL`)
	agents := map[uuid.UUID]bool{}
	var id uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { agents[id] = true; return nil }); err != nil {
		return nil, fmt.Errorf("read which agents have callbacks: %w", err)
	}
	return agents, nil
}
