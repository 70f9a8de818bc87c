package history

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// kind is what the risk and the secrets of a call depend on.
type kind struct {
	skill uuid.UUID
	tool  string
	pin   tool.Pin
}

type kindFacts struct {
	definition tool.Definition // zero: not known
	risk       agent.Risk
}

func (s *searcher) needsKinds() bool {
	return s.filter.Risks != nil || s.text != nil && s.filter.Hide != nil
}

// listKinds returns the kinds of the calls with ids in [lowest, before).
func (s *searcher) listKinds(ctx context.Context, tx pgx.Tx, before, lowest uuid.UUID) ([]kind, error) {
	q := s.filter.indexConditions(before, lowest)
	rows, _ := tx.Query(ctx, `SELECT DISTINCT skill_id, tool, pin FROM calls WHERE `+q.where(), q.args...)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (kind, error) {
		var k kind
		var pin []byte
		err := row.Scan(&k.skill, &k.tool, &pin)
		copy(k.pin[:], pin)
		return k, err
	})
}

// learnKinds reads the definitions and risks of kinds that are not known yet.
func (s *searcher) learnKinds(ctx context.Context, kinds []kind) error {
	pins := []tool.Pin{}
	for _, k := range kinds {
		if _, known := s.kinds[k]; !known && !k.pin.IsZero() {
			pins = append(pins, k.pin)
		}
	}
	definitions, err := s.service.calls.Discovery.Definitions(ctx, pins)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if _, known := s.kinds[k]; known {
			continue
		}
		facts := kindFacts{definition: definitions[k.pin]}
		if s.filter.Risks != nil {
			if facts.risk, err = s.service.calls.Agents.RiskOf(ctx, k.skill, k.tool, facts.definition); err != nil {
				return err
			}
		}
		s.kinds[k] = facts
	}
	return nil
}

// andKinds adds the condition that a call is of one of these kinds.
func (q *statement) andKinds(kinds []kind) {
	skills, tools, pins := make([]uuid.UUID, len(kinds)), make([]string, len(kinds)), make([][]byte, len(kinds))
	for i, k := range kinds {
		skills[i], tools[i], pins[i] = k.skill, k.tool, k.pin[:]
	}
	q.conditions = append(q.conditions, "(skill_id, tool, pin) IN (SELECT s, t, p FROM unnest("+q.arg(skills)+"::uuid[], "+q.arg(tools)+"::text[], "+q.arg(pins)+"::bytea[]) AS k(s, t, p))")
}
