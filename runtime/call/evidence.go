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
	secrets, err := s.ReadSecrets(ctx, *c)
	if err != nil {
		return nil, err
	}
	history, err := s.readHistory(ctx, historyKey{c.SkillID, c.Tool, c.AgentID})
	if err != nil {
		return nil, fmt.Errorf("read facts of tool %s: %w", c.Tool, err)
	}
	return history.Judge(c.Arguments, hideSecrets(secrets[c.ID], c.Arguments)), nil
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
	newest uuid.UUID
	read   time.Time // by the clock of this process
}

const (
	maxHistories = 256         // in memory
	historyKept  = time.Minute // calls leave a history that grows too old
)

// histories keeps histories until another call of their tool is approved: a queue often has many calls of one tool.
type histories struct {
	mu    sync.Mutex
	byKey map[historyKey]keptHistory
}

func (s *Service) readHistory(ctx context.Context, key historyKey) (*evidence.History, error) {
	var newest uuid.UUID
	err := s.Pool.QueryRow(ctx, `SELECT call_id FROM call_facts
		WHERE skill_id = $1 AND tool = $2 AND added_at > holdpoint_now() - $3 * interval '1 second'
		ORDER BY added_at DESC LIMIT 1`, key.skill, key.tool, historyAge.Seconds()).Scan(&newest)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	now := s.Now()
	s.histories.mu.Lock()
	kept, ok := s.histories.byKey[key]
	s.histories.mu.Unlock()
	if ok && kept.newest == newest && now.Sub(kept.read) < historyKept {
		return kept.History, nil
	}
	rows, _ := s.Pool.Query(ctx, `SELECT agent_id, added_at, facts FROM call_facts
		WHERE skill_id = $1 AND tool = $2 AND added_at > holdpoint_now() - $3 * interval '1 second'
		ORDER BY added_at DESC LIMIT $4`, key.skill, key.tool, historyAge.Seconds(), historyCalls)
	var own, all []evidence.Call
	var agent uuid.UUID
	var at time.Time
	var stored []byte
	_, err = pgx.ForEachRow(rows, []any{&agent, &at, &stored}, func() error {
		one := evidence.Call{At: at}
		if err := jsonv2.Unmarshal(stored, &one.Facts); err != nil {
			return err
		}
		if all = append(all, one); agent == key.agent {
			own = append(own, one)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(own) >= evidence.Enough {
		all = own
	}
	read := keptHistory{evidence.NewHistory(all), newest, now}
	s.histories.mu.Lock()
	defer s.histories.mu.Unlock()
	if len(s.histories.byKey) >= maxHistories || s.histories.byKey == nil {
		s.histories.byKey = make(map[historyKey]keptHistory)
	}
	s.histories.byKey[key] = read
	return read.History, nil
}
