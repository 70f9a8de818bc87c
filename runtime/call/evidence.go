package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/call/evidence"
)

// The bounds on the approved calls that a call is compared with.
const (
	historyAge   = 90 * 24 * time.Hour
	historyCalls = 500
)

// queueFacts adds the facts of an approved call to the batch that claims it. They are stored if the claim is made.
func (s *Service) queueFacts(ctx context.Context, batch *pgx.Batch, c *Call) error {
	if !c.Gated {
		return nil
	}
	secrets, err := s.ReadSecrets(ctx, *c)
	if err != nil {
		return err
	}
	facts, err := json.Marshal(evidence.Collect(c.Arguments, hideSecrets(secrets[c.ID], c.Arguments)))
	if err != nil {
		return fmt.Errorf("encode facts of call %s: %w", c.ID, err)
	}
	batch.Queue(`INSERT INTO call_facts (call_id, agent_id, skill_id, tool, facts)
		SELECT e.subject_id, $2, $3, $4, $5 FROM (SELECT $1::uuid AS subject_id) AS e WHERE `+justWritten+` ON CONFLICT DO NOTHING`,
		c.ID, c.AgentID, c.SkillID, c.Tool, facts)
	return nil
}

// ReadEvidence compares the arguments of a call with those of approved calls of its tool: by the same agent, or by any agent if
// this one has too few.
func (s *Service) ReadEvidence(ctx context.Context, c *Call) ([]evidence.Entry, error) {
	var newest uuid.UUID
	batch := &pgx.Batch{}
	QueueNewest(batch, c, &newest)
	if err := s.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	return s.ReadEvidenceUpTo(ctx, c, newest)
}

// QueueNewest adds the read of the newest approved call that a call is compared with to a batch. It is uuid.Nil if there is none.
func QueueNewest(batch *pgx.Batch, c *Call, into *uuid.UUID) {
	queueNewest(batch, historyKey{c.SkillID, c.Tool, c.AgentID}, into)
}

// ReadEvidenceUpTo is [Service.ReadEvidence] with the call that [QueueNewest] read. It reads the database only if that call is new to this
// process.
func (s *Service) ReadEvidenceUpTo(ctx context.Context, c *Call, newest uuid.UUID) ([]evidence.Entry, error) {
	secrets, err := s.ReadSecrets(ctx, *c)
	if err != nil {
		return nil, err
	}
	history, err := s.readHistoryUpTo(ctx, historyKey{c.SkillID, c.Tool, c.AgentID}, newest)
	if err != nil {
		return nil, err
	}
	return history.Judge(c.Arguments, hideSecrets(secrets[c.ID], c.Arguments)), nil
}

// countUnusual counts the unusual arguments of a call that is about to be parked, by a history that may be some seconds old. The queue
// is ordered by it. On an error it returns 0, because the call is parked in any case and its page has the evidence.
func (s *Service) countUnusual(ctx context.Context, c *Call) int {
	history, err := s.readRecentHistory(ctx, historyKey{c.SkillID, c.Tool, c.AgentID})
	if err == nil && !history.IsEnough() {
		return 0
	}
	secrets, secretsErr := s.ReadSecrets(ctx, *c)
	if err := errors.Join(err, secretsErr); err != nil {
		s.Logger.Warn("counting unusual arguments", "call", c.ID, "error", err)
		return 0
	}
	return history.CountUnusual(c.Arguments, hideSecrets(secrets[c.ID], c.Arguments))
}

// historyKey selects the approved calls that a call is compared with.
type historyKey struct {
	skill uuid.UUID
	tool  string
	agent uuid.UUID
}

// keptHistory is a history, and the newest call of its tool when it was read.
type keptHistory struct {
	*evidence.History
	newest  uuid.UUID
	size    int       // of its facts, in bytes
	read    time.Time // by the clock of this process
	checked time.Time // when newest was read
}

const (
	maxHistories   = 32 << 20    // bytes of facts in memory
	historyKept    = time.Minute // calls leave a history that grows too old
	historyTrusted = 5 * time.Second
	emptyHistory   = 1000 // bytes
)

// histories keeps histories until another call of their tool is approved: a queue often has many calls of one tool.
type histories struct {
	mu    sync.Mutex
	byKey map[historyKey]keptHistory
	size  int // of their facts
}

// findKept returns a history, and a zero one if it is not kept.
func (h *histories) findKept(key historyKey) keptHistory {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byKey[key]
}

// keepHistory keeps a history. If all histories together become too large, the others are dropped.
func (h *histories) keepHistory(key historyKey, kept keptHistory) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.size += kept.size - h.byKey[key].size; h.size > maxHistories || h.byKey == nil {
		h.byKey, h.size = make(map[historyKey]keptHistory), kept.size
	}
	h.byKey[key] = kept
}

// markChecked notes that a history was compared with the database, if it is still kept.
func (h *histories) markChecked(key historyKey, kept keptHistory, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byKey[key].History == kept.History {
		kept.checked = now
		h.byKey[key] = kept
	}
}

// readRecentHistory returns the history that a call is compared with. A kept history that was compared with the database some seconds ago
// is good enough.
func (s *Service) readRecentHistory(ctx context.Context, key historyKey) (*evidence.History, error) {
	kept := s.histories.findKept(key)
	if kept.History != nil && elapsedTime(s.Now(), kept.checked) < historyTrusted {
		return kept.History, nil
	}
	var newest uuid.UUID
	batch := &pgx.Batch{}
	queueNewest(batch, key, &newest)
	if err := s.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	return s.readHistoryUpTo(ctx, key, newest)
}

func queueNewest(batch *pgx.Batch, key historyKey, into *uuid.UUID) {
	batch.Queue(`SELECT call_id FROM call_facts
		WHERE skill_id = $1 AND tool = $2 AND added_at > holdpoint_now() - $3 * interval '1 second'
		ORDER BY added_at DESC LIMIT 1`, key.skill, key.tool, historyAge.Seconds()).Query(func(rows pgx.Rows) error {
		if _, err := pgx.ForEachRow(rows, []any{into}, func() error { return nil }); err != nil {
			return fmt.Errorf("read newest facts of tool %s: %w", key.tool, err)
		}
		return nil
	})
}

// readHistoryUpTo returns the history whose newest call is known. It reads the history unless it is kept.
func (s *Service) readHistoryUpTo(ctx context.Context, key historyKey, newest uuid.UUID) (*evidence.History, error) {
	now, kept := s.Now(), s.histories.findKept(key)
	if kept.History != nil && kept.newest == newest && now.Sub(kept.read) < historyKept {
		s.histories.markChecked(key, kept, now)
		return kept.History, nil
	}
	rows, _ := s.Pool.Query(ctx, `SELECT agent_id, added_at, facts FROM call_facts
		WHERE skill_id = $1 AND tool = $2 AND added_at > holdpoint_now() - $3 * interval '1 second'
		ORDER BY added_at DESC LIMIT $4`, key.skill, key.tool, historyAge.Seconds(), historyCalls)
	var own, all []evidence.Call
	var agent uuid.UUID
	var at time.Time
	var stored []byte
	size := 0
	_, err := pgx.ForEachRow(rows, []any{&agent, &at, &stored}, func() error {
		one := evidence.Call{At: at}
		if err := jsonv2.Unmarshal(stored, &one.Facts); err != nil {
			return err
		}
		size += len(stored)
		if all = append(all, one); agent == key.agent {
			own = append(own, one)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read facts of tool %s: %w", key.tool, err)
	}
	if len(own) >= evidence.Enough {
		all = own
	}
	read := keptHistory{History: evidence.NewHistory(all), newest: newest, size: size + emptyHistory, read: now, checked: now}
	s.histories.keepHistory(key, read)
	return read.History, nil
}
