package converse

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// publishSQL, a condition and publishEndSQL form one statement in the transaction that moves calls. It adds an entry for each
// call to its conversation. For a call that ended it decrements the number of open calls, and the last one makes the next turn
// due. Conversations are locked in order of their ids, so that two transactions cannot deadlock.
const (
	publishSQL = `WITH told AS (SELECT l.conversation_id, c.id, c.tool, c.status, c.code, e.kind, e.n
			FROM unnest((SELECT $1::uuid[]), $2::text[]) WITH ORDINALITY AS e(subject_id, kind, n)
				JOIN loop_calls AS l ON l.call_id = e.subject_id AND NOT l.ended
				JOIN (` + call.CallFacts + `) AS c ON c.id = e.subject_id
			WHERE `
	publishEndSQL = `),
		locked AS (SELECT conversation_id FROM loops WHERE conversation_id IN (SELECT conversation_id FROM told)
			ORDER BY conversation_id FOR UPDATE),
		ended AS (UPDATE loop_calls SET ended = true FROM told, locked
			WHERE loop_calls.call_id = told.id AND told.kind = '` + string(call.HappenedFinished) + `'
				AND loop_calls.conversation_id = locked.conversation_id AND NOT loop_calls.ended
			RETURNING loop_calls.conversation_id),
		moved AS (UPDATE loops SET seq = seq + n.entries, open_calls = open_calls - n.ended,
				status = CASE WHEN status = 'waiting' AND open_calls = n.ended THEN 'due' ELSE status END,
				moved_at = CASE WHEN status = 'waiting' AND open_calls = n.ended THEN holdpoint_now() ELSE moved_at END
			FROM (SELECT conversation_id, count(*) AS entries,
					(SELECT count(*) FROM ended WHERE ended.conversation_id = told.conversation_id) AS ended
				FROM told GROUP BY conversation_id) AS n
			WHERE loops.conversation_id = n.conversation_id
			RETURNING loops.conversation_id, loops.seq - n.entries AS before, loops.status),
		written AS (INSERT INTO loop_entries (conversation_id, seq, kind, data)
			SELECT told.conversation_id, moved.before + row_number() OVER (PARTITION BY told.conversation_id ORDER BY told.n), 'call',
				json_build_object('id', told.id, 'tool', told.tool, 'status', told.status, 'code', coalesce(told.code, ''))
			FROM told JOIN moved ON moved.conversation_id = told.conversation_id)
		SELECT pg_notify('` + string(Channel) + `', conversation_id::text) FROM moved
		UNION ALL SELECT pg_notify('` + string(Channel) + `', '') FROM moved WHERE status = 'due'`
)

// Publish is a [call.Publish]. It adds nothing to the batch for agents without conversations of this package.
func (s *Service) Publish(batch *pgx.Batch, condition string, list []call.Happening) error {
	var calls []uuid.UUID
	var kinds []string
	for _, h := range list {
		if s.looping.hasNone(h.AgentID) {
			continue
		}
		// A call that was decided and ended in one change gets one entry.
		if n := len(calls); n > 0 && calls[n-1] == h.CallID && h.Kind == call.HappenedFinished {
			kinds[n-1] = string(h.Kind)
			continue
		}
		calls, kinds = append(calls, h.CallID), append(kinds, string(h.Kind))
	}
	if len(calls) > 0 {
		batch.Queue(publishSQL+condition+publishEndSQL, calls, kinds)
	}
	return nil
}

// agentMemory remembers which agents have conversations of this package. Most have none, so that their calls need no query.
type agentMemory struct {
	cfg    Config
	memory *registry.Memory[uuid.UUID, bool]
	known  sync.Map // agents that have one; they are never removed
}

func newAgentMemory(cfg Config) *agentMemory {
	return &agentMemory{cfg: cfg, memory: registry.NewMemory[uuid.UUID](registry.Config[bool]{Now: cfg.Now, TTL: 5 * time.Second})}
}

// hasNone reports whether an agent is known to have no conversation.
func (l *agentMemory) hasNone(agentID uuid.UUID) bool {
	if agentID == uuid.Nil {
		return false
	}
	if _, has := l.known.Load(agentID); has {
		return false
	}
	has, known := l.memory.Peek(agentID)
	if !known { // load for later calls: for this one the statement itself finds out
		l.memory.Start(context.Background(), agentID, func(ctx context.Context) (bool, error) {
			var has bool
			err := l.cfg.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM loops WHERE agent_id = $1)`, agentID).Scan(&has)
			if err != nil {
				return false, fmt.Errorf("find conversations of agent %s: %w", agentID, err)
			}
			if has {
				l.rememberAgent(agentID)
			}
			return has, nil
		})
	}
	return known && !has
}

func (l *agentMemory) rememberAgent(agentID uuid.UUID) {
	l.known.Store(agentID, struct{}{})
	l.memory.DropIf(func(id uuid.UUID) bool { return id == agentID })
}

// agentPrefix begins the payload of a notification that an agent has its first conversation.
const agentPrefix = "agent:"

// handlePayload handles such a payload. It returns false for other payloads.
func (l *agentMemory) handlePayload(payload string) bool {
	text, ok := strings.CutPrefix(payload, agentPrefix)
	if !ok {
		return false
	}
	if id, err := uuid.Parse(text); err == nil {
		l.rememberAgent(id)
	}
	return true
}
