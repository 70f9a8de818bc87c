package call

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/call/evidence"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The bounds on the approved calls that a call is compared with.
const (
	historyAge   = 90 * 24 * time.Hour
	historyCalls = 500
)

// queueFacts adds the facts of an approved call to the batch that claims it. They are stored if the claim is made.
func (s *Service) queueFacts(batch *pgx.Batch, c *Call, definition tool.Definition) error {
	if !c.Gated {
		return nil
	}
	facts, err := json.Marshal(evidence.Collect(c.Arguments, hidesArguments(definition, c.Arguments)))
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
	found, err := s.ReadEvidenceOfSimilar(ctx, []*Call{c})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// ReadEvidenceOfSimilar is like [Service.ReadEvidence] for at least one call by one agent to one tool. It reads the approved calls once.
func (s *Service) ReadEvidenceOfSimilar(ctx context.Context, similar []*Call) ([][]evidence.Entry, error) {
	c := similar[0]
	pins := make([]tool.Pin, len(similar))
	for i := range similar {
		pins[i] = similar[i].Pin
	}
	definitions, err := s.Discovery.Definitions(ctx, pins)
	if err != nil {
		return nil, err
	}
	rows, _ := s.Pool.Query(ctx, `SELECT agent_id, facts FROM call_facts
		WHERE skill_id = $1 AND tool = $2 AND added_at > holdpoint_now() - $3 * interval '1 second' AND call_id <> $4
		ORDER BY added_at DESC LIMIT $5`, c.SkillID, c.Tool, historyAge.Seconds(), c.ID, historyCalls)
	var own, all []evidence.Facts
	var agent uuid.UUID
	var stored []byte
	_, err = pgx.ForEachRow(rows, []any{&agent, &stored}, func() error {
		var facts evidence.Facts
		if err := json.Unmarshal(stored, &facts); err != nil {
			return err
		}
		if all = append(all, facts); agent == c.AgentID {
			own = append(own, facts)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read facts of tool %s: %w", c.Tool, err)
	}
	if len(own) >= evidence.Enough {
		all = own
	}
	found := make([][]evidence.Entry, len(similar))
	for i, c := range similar {
		found[i] = evidence.Judge(c.Arguments, hidesArguments(definitions[c.Pin], c.Arguments), all)
	}
	return found, nil
}
