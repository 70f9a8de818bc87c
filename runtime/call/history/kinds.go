package history

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// kind identifies calls with the same risk and the same secrets.
type kind struct {
	skill uuid.UUID
	tool  string
	pin   tool.Pin
}

type kindFacts struct {
	secrets *secretfield.Rules // in the arguments
	risk    agent.Risk
}

func (s *searcher) needsKinds() bool {
	return s.filter.Risks != nil || s.text != nil && s.filter.HideSecrets
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

// learnKinds reads the secrets and risks of kinds that are not known yet.
func (s *searcher) learnKinds(ctx context.Context, kinds []kind) error {
	pins, calls := []tool.Pin{}, []call.Call{}
	for _, k := range kinds {
		if _, known := s.kinds[k]; known {
			continue
		}
		calls = append(calls, call.Call{ID: uuid.New(), SkillID: k.skill, Tool: k.tool, Pin: k.pin})
		if !k.pin.IsZero() {
			pins = append(pins, k.pin)
		}
	}
	secrets, err := s.service.calls.ReadSecrets(ctx, calls...)
	if err != nil {
		return err
	}
	definitions, err := s.service.calls.Discovery.Definitions(ctx, pins)
	if err != nil {
		return err
	}
	for i := range calls {
		k := kind{calls[i].SkillID, calls[i].Tool, calls[i].Pin}
		facts := kindFacts{secrets: secrets[calls[i].ID]}
		if s.filter.Risks != nil {
			if facts.risk, err = s.service.calls.Agents.RiskOf(ctx, k.skill, k.tool, definitions[k.pin]); err != nil {
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
